package cli_test

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var kills = flag.Int("kills", 25, "how often TestListenKilled kills")

// laptop is the service that listen forwards to: it notes what came.
type laptop struct {
	mu    sync.Mutex
	ids   []string // in order, each once
	again []string // what came a second time
	wrong []string
	last  string
}

func (l *laptop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	key, attempt := r.Header.Get("Idempotency-Key"), r.Header.Get("Onceward-Attempt")
	l.mu.Lock()
	defer l.mu.Unlock()
	id := string(body)
	if r.Header.Get("Content-Type") != "text/x-test" || key == "" || r.Header.Get("Onceward-Source") != "hello" || r.URL.RawQuery != "a=1&q=2" {
		l.wrong = append(l.wrong, fmt.Sprint(r.URL, r.Header))
	}
	switch {
	case id == l.last && attempt == "2": // was out at a kill, and says so
		l.again = append(l.again, id)
	case slices.Contains(l.ids, id):
		l.wrong = append(l.wrong, "repeated without saying so: "+id)
	default:
		l.ids = append(l.ids, id)
	}
	l.last = id
}

func (l *laptop) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ids)
}

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// TestListenKilled kills the stream, and now and then the gateway, at random
// moments while events come in: every event arrives, in order, and none twice but
// the one that was out at a kill, which says that it comes again.
func TestListenKilled(t *testing.T) {
	t.Parallel()
	dir, public, adm := t.TempDir(), freeAddr(t), freeAddr(t)
	config := filepath.Join(dir, "config.toml")
	err := os.WriteFile(config, fmt.Appendf(nil, `listen = %q
[admin]
listen = %q
[store]
path = "data"
reserve = "16MiB"
ballast = "1MiB"
[[source]]
name = "hello"
provider = "none"
`, public, adm), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) *exec.Cmd {
		cmd := exec.Command("onceward", append(args, "--config", config)...)
		cmd.Dir = dir
		cmd.Env = []string{"TMPDIR=" + dir, "SHIPPED_CONFIG=" + config, "HOME=" + dir}
		cmd.Stderr = os.Stderr
		if testing.Verbose() {
			cmd.Stderr = nil
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { kill(cmd) })
		return cmd
	}
	gateway := run("serve")
	ready(t, adm)

	here := &laptop{}
	srv := httptest.NewServer(here)
	defer srv.Close()
	cursor := filepath.Join(dir, "place")
	again := func() *exec.Cmd { return run("listen", "--cursor", cursor, "--forward-to", srv.URL+"/?a=1") }

	var sent []string
	post := func() {
		id := fmt.Sprint("event ", len(sent))
		for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			req, err := http.NewRequest("POST", "http://"+public+"/in/hello?q=2", strings.NewReader(id))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "text/x-test")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				continue // the gateway is away
			}
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				sent = append(sent, id)
				return
			}
		}
		t.Fatal("the gateway takes nothing")
	}
	post()
	stream := run("listen", "--cursor", cursor, "--from", "start", "--forward-to", srv.URL+"/?a=1")
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if st, err := os.Stat(cursor); err == nil && st.Size() > 0 {
			break // before that a kill leaves no place to go on from
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range *kills {
		for range 1 + rng.IntN(6) {
			post()
		}
		time.Sleep(time.Duration(rng.IntN(80)) * time.Millisecond) // a random moment is the point
		kill(stream)
		if n%10 == 9 {
			kill(gateway)
			gateway = run("serve")
			ready(t, adm)
		}
		stream = again()
	}
	post()
	for end := time.Now().Add(deadline); here.count() < len(sent) && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
	}
	here.mu.Lock()
	defer here.mu.Unlock()
	if !slices.Equal(here.ids, sent) {
		t.Errorf("%d events arrived, %d were accepted, in this order:\n%v\nwant\n%v", len(here.ids), len(sent), here.ids, sent)
	}
	for _, w := range here.wrong {
		t.Error(w)
	}
	if len(here.again) > *kills {
		t.Errorf("%d events came again over %d kills", len(here.again), *kills)
	}
	t.Logf("%d kills, %d events, out at a kill and sent again %d", *kills, len(sent), len(here.again))
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // an error means that it has ended
	_ = cmd.Wait()
}

func ready(t *testing.T, adm string) {
	t.Helper()
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get("http://" + adm + "/readyz")
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	t.Fatal("the gateway is not ready")
}
