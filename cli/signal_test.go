package cli_test

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program starts the program in a fresh directory with its own TMPDIR and hands
// out the lines of one of its outputs.
type program struct {
	cmd *exec.Cmd
	dir string
	out *bufio.Reader
	end *os.File
}

func start(t *testing.T, stderr bool, env []string, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command("onceward", args...), dir: t.TempDir()}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := filepath.Abs("../config.toml")
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Dir = p.dir
	p.cmd.Env = append([]string{"TMPDIR=" + p.dir, "SHIPPED_CONFIG=" + shipped}, env...)
	if stderr {
		p.cmd.Stderr = w
	} else {
		p.cmd.Stdout = w
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	p.out, p.end = bufio.NewReader(r), r
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // an error means that it has ended, as it should
		r.Close()
	})
	return p
}

// line waits for a line that holds text.
func (p *program) line(t *testing.T, text string) string {
	t.Helper()
	if err := p.end.SetReadDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	for {
		got, err := p.out.ReadString('\n')
		if strings.Contains(got, text) {
			return got
		}
		if err != nil {
			t.Fatalf("no line with %q: %v", text, err)
		}
	}
}

// code waits for the program to end.
func (p *program) code(t *testing.T) int {
	t.Helper()
	ended := make(chan int, 1)
	go func() {
		_ = p.cmd.Wait() // the code says it
		ended <- p.cmd.ProcessState.ExitCode()
	}()
	select {
	case code := <-ended:
		return code
	case <-time.After(deadline):
		t.Fatal("the program did not end")
		return -1
	}
}

func (p *program) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// leftovers are the demo's directories that are still there.
func (p *program) leftovers(t *testing.T) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(p.dir, "onceward-demo-*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// TestDemoInterrupted: Ctrl-C in the middle ends the demo in order, says that it
// proves nothing, and leaves nothing behind.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	p := start(t, false, nil, "demo")
	p.line(t, "accepted")
	if len(p.leftovers(t)) != 1 {
		t.Fatal("the demo has no directory while it runs: the test looks in the wrong place")
	}
	p.signal(t, syscall.SIGINT)
	if code := p.code(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if left := p.leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestDemoReaderGoesAway: so does a reader that has seen enough.
func TestDemoReaderGoesAway(t *testing.T) {
	t.Parallel()
	p := start(t, false, nil, "demo")
	p.line(t, "accepted")
	if err := p.end.Close(); err != nil {
		t.Fatal(err)
	}
	if code := p.code(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if left := p.leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

const slowConfig = `
listen = "127.0.0.1:0"
drain  = "1h"
[admin]
listen = "127.0.0.1:0"
[store]
memory_limit = "128MiB"
[[source]]
name     = "shop"
provider = "none"
targets  = ["slow"]
[[target]]
name    = "slow"
url     = "${env:SLOW}"
timeout = "10m"
`

// TestSecondSignal: the first signal drains, here for ever, since a target does
// not answer; the second ends the program at once, with the signal's own code.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			reached, release := make(chan struct{}, 8), make(chan struct{})
			slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				reached <- struct{}{}
				<-release
			}))
			defer slow.Close()
			defer close(release)
			p := start(t, true, []string{"SLOW=" + slow.URL, "ONCEWARD_CONFIG=" + writeFile(t, slowConfig)}, "serve")
			line := p.line(t, "/in/shop")
			url := line[strings.Index(line, "http://"):]
			resp, err := http.Post(strings.TrimSpace(url), "application/json", strings.NewReader(`{"id":"e1"}`))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			<-reached
			p.signal(t, sig)
			p.line(t, "gateway stopping")
			p.signal(t, sig)
			if code := p.code(t); code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
		})
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestServeListenerTaken: a taken address is a plain failure, said in words.
func TestServeListenerTaken(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	config := strings.Replace(slowConfig, "127.0.0.1:0", ln.Addr().String(), 1)
	p := start(t, true, []string{"SLOW=http://127.0.0.1:1/", "ONCEWARD_CONFIG=" + writeFile(t, config)}, "serve")
	p.line(t, "address already in use")
	if code := p.code(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
}
