package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/verify"
)

// replace writes a file in one step, as a deployment does.
func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestReloadUnderLoad reloads 300 times while senders send: good
// configurations, files that aren't TOML, unknown keys, and secrets that went
// away. No request fails, a bad one changes nothing, and every event lands.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	url, hits := listener(t, ok)
	path := filepath.Join(t.TempDir(), "config.toml")
	head := base(t.TempDir())
	both := head + source("stripe", "stripe", "${env:A}", "${env:B}") + target(url)
	one := head + source("stripe", "stripe", "${env:A}") + target(url) + "timeout = \"20s\"\n"
	variants := []struct {
		toml, fault string
	}{
		{both, ""},
		{one, ""},
		{both + "x = = 1\n", "not TOML"},
		{both + "timeuot = \"1s\"\n", `did you mean "timeout"?`},
		{head + source("stripe", "stripe", "${env:GONE}") + target(url), "works and would go offline"},
		{both + "headers = { Authorization = \"${env:GONE}\" }\n", "${env:GONE} is not set"},
		{strings.Replace(both, `store = { path = "`, `store = { path = "/elsewhere`, 1), "store.path can't change while running"},
	}
	replace(t, path, both)
	r := run(t, both, Options{ConfigPath: path})

	seen := make(chan map[string]int)
	stopDraining := make(chan struct{})
	go func() {
		byKey := map[string]int{}
		for {
			select {
			case h := <-hits:
				byKey[h.key]++
			case <-stopDraining:
				seen <- byKey
				return
			}
		}
	}()
	var sent, failed atomic.Int64
	var wg sync.WaitGroup
	done := make(chan struct{})
	for s := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if err := r.post(fmt.Sprintf("evt_%d_%d", s, i)); err != nil {
					failed.Add(1)
					t.Error(err)
					return
				}
				sent.Add(1)
			}
		})
	}
	for i := range 300 {
		v := variants[i%len(variants)]
		replace(t, path, v.toml)
		before := r.gen.Load()
		faults, err := r.Reload(t.Context())
		if (err != nil) != (v.fault != "") || !strings.Contains(faults.Error(), v.fault) {
			t.Fatalf("reload %d: %v, %v, want %q", i, err, faults, v.fault)
		}
		if after := r.gen.Load(); (after == before) != (v.fault != "") {
			t.Fatalf("reload %d with fault %q: swapped %v", i, v.fault, after != before)
		}
	}
	close(done)
	wg.Wait()
	if failed.Load() > 0 || sent.Load() == 0 {
		t.Errorf("%d requests sent, %d failed", sent.Load(), failed.Load())
	}
	poll(t, "all deliveries land", func() bool {
		st, err := r.ledger.Stats(t.Context())
		return err == nil && st.Targets["app"].Pending+st.Targets["app"].Leased == 0
	})
	close(stopDraining)
	if byKey := <-seen; int64(len(byKey)) != sent.Load() {
		t.Errorf("%d events sent, %d keys at the target", sent.Load(), len(byKey))
	}
	t.Logf("300 reloads, %d requests", sent.Load())
}

// post sends one authentic event and wants a 200.
func (r *running) post(id string) error {
	src, _ := r.cfg.Source("stripe")
	ingest, _ := r.Addr()
	s, err := src.Verifier().Sign(verify.SignRequest{Now: time.Now(), ID: id, Type: "x"})
	if err != nil {
		return err
	}
	req, err := http.NewRequest(s.Method, "http://"+ingest+"/in/stripe", strings.NewReader(string(s.Body)))
	if err != nil {
		return err
	}
	req.Header = s.Header
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(id + " was answered " + resp.Status)
	}
	return nil
}

// TestReloadTakesEffect changes secrets and URL together, and drops a target
// that has work left.
func TestReloadTakesEffect(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.toml")
	head := base(t.TempDir())
	before := head + source("stripe", "stripe", "${env:A}") + target("http://127.0.0.1:9/")
	replace(t, path, before)
	r := run(t, before, Options{ConfigPath: path})
	if err := r.post("evt_1"); err != nil {
		t.Fatal(err)
	}
	url, hits := listener(t, ok)
	replace(t, path, head+source("stripe", "stripe", "${env:B}")+target(url))
	if faults, err := r.Reload(t.Context()); err != nil || len(faults) > 0 {
		t.Fatalf("%v, %v", err, faults)
	}
	if h := next(t, hits); h.key != "stripe:evt_1" {
		t.Errorf("target got %+v", h)
	}
	if resp, _ := r.send(t, r.signed(t, "stripe", "evt_2", "x")); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("the old secret is answered %s", resp.Status)
	}
	ingest, _ := r.Addr()
	if resp, err := r.client.Get("http://" + ingest + "/readyz"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("ready: %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
}

func TestReloadWarnsOfVanished(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.toml")
	head := base(t.TempDir())
	before := head + source("stripe", "stripe", "${env:A}") + target("http://127.0.0.1:9/")
	replace(t, path, before)
	r := run(t, before, Options{ConfigPath: path})
	if err := r.post("evt_1"); err != nil {
		t.Fatal(err)
	}
	after := strings.ReplaceAll(before, `"app"`, `"heir"`)
	replace(t, path, after)
	faults, err := r.Reload(t.Context())
	if err != nil || len(faults) != 1 || !faults[0].Warning || !strings.Contains(faults[0].Problem, `target "app" is gone and has 1 open deliveries`) {
		t.Errorf("%v, %v", err, faults)
	}
	renamed := strings.Replace(after, `"stripe"`, `"payments"`, 1)
	replace(t, path, renamed)
	if faults, err = r.Reload(t.Context()); err != nil || len(faults) != 1 || !strings.Contains(faults[0].Problem, `source "stripe" is gone`) {
		t.Errorf("%v, %v", err, faults)
	}
	url, hits := listener(t, ok)
	replace(t, path, strings.Replace(after, "http://127.0.0.1:9/", url, 1)+"formerly = [\"app\"]\n")
	if faults, err = r.Reload(t.Context()); err != nil || len(faults) != 1 || !strings.Contains(faults[0].Problem, `source "payments" is gone`) {
		t.Errorf("%v, %v", err, faults)
	}
	if h := next(t, hits); h.key != "stripe:evt_1" {
		t.Errorf("the heir got %+v", h)
	}
}

// TestSwapIsWhole lets the receiver refuse what the forwarder took.
func TestSwapIsWhole(t *testing.T) {
	t.Parallel()
	head := base(t.TempDir()) + source("stripe", "stripe", "${env:A}")
	r := run(t, head+target("http://127.0.0.1:9/"), Options{})
	old := r.gen.Load()
	bad, err := build(parsed(t, head+target("http://127.0.0.1:10/")), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	bad.sources[0].Path = "no path"
	if err := r.swap(old, bad); err == nil {
		t.Fatal("the receiver took a source without a path")
	}
	if st := r.forwarder.Status(); len(st) != 1 || st[0].Site != "http://127.0.0.1:9" || r.gen.Load() != old {
		t.Errorf("half of a refused generation is in effect: %+v", st)
	}
}

// TestReloadRefuses lists what can't change while running; all of it is
// reported at once, and a reload needs a running gateway and a file.
func TestReloadRefuses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.toml")
	text := base(t.TempDir())
	r := run(t, text, Options{ConfigPath: path})
	changed := strings.NewReplacer(`{ listen = "127.0.0.1:0"`, `{ listen = "127.0.0.1:2"`, `listen = "127.0.0.1:0"`, `listen = "127.0.0.1:1"`, `"5s"`, `"6s"`, `"4KiB"`, `"8KiB"`).Replace(text)
	replace(t, path, changed)
	faults, err := r.Reload(t.Context())
	if err == nil {
		t.Fatal("taken")
	}
	for _, key := range []string{"listen", "admin.listen", "drain", "store.ballast"} {
		if !strings.Contains(faults.Error(), ": "+key+" can't change while running") {
			t.Errorf("no fault for %s in\n%v", key, faults)
		}
	}
	if len(faults) != 4 || faults[0].Line == 0 {
		t.Errorf("got\n%v", faults)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if faults, err = r.Reload(t.Context()); err == nil || !strings.Contains(faults.Error(), "can't be read") {
		t.Errorf("without a file: %v, %v", err, faults)
	}
	if err := r.stop(t); err != nil {
		t.Fatal(err)
	}
	if _, err = r.Reload(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("after the stop: %v", err)
	}
	other := run(t, base(t.TempDir()), Options{})
	if _, err = other.Reload(t.Context()); err == nil {
		t.Error("reloaded from nowhere")
	}
}

// TestNotify listens as a service manager would. It sets the environment of
// the process, so it runs alone.
func TestNotify(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "1000000")
	t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
	told := func(want string) {
		t.Helper()
		if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatalf("want %s: %v", want, err)
			}
			got := string(buf[:n])
			if strings.HasPrefix(got, want) {
				return
			}
			if got != "WATCHDOG=1" {
				t.Fatalf("told %q, want %q", got, want)
			}
		}
	}
	text := base(t.TempDir())
	r := run(t, text, Options{ConfigData: []byte(text)})
	told("READY=1")
	told("WATCHDOG=1")
	if _, err := r.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	told("RELOADING=1\nMONOTONIC_USEC=")
	told("READY=1")
	r.cancel() // told before the end: the watchdog fills a socket nobody reads
	told("STOPPING=1")
}
