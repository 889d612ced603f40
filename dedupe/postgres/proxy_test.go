package postgres_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/onceward/onceward/dedupe/postgres"
	"github.com/onceward/onceward/dedupe/postgres/pgtest"
)

// fate is what a proxy does to the next commit.
type fate int

const (
	passes   fate = iota
	unheard       // it is carried out, and the answer is lost
	unspoken      // it never arrives
)

// proxy stands between a gateway and its database, on a socket of its own.
type proxy struct {
	ln net.Listener
	to string

	mu    sync.Mutex
	next  fate
	text  []byte // what a statement says that is cut
	down  bool
	after bool // it goes down with the commit that it cuts
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

// between starts a proxy before the test's database and returns a
// configuration that goes through it. Statements carry their text, so that the
// proxy sees a commit.
func between(t *testing.T, cfg postgres.Config) (*proxy, postgres.Config) {
	t.Helper()
	host, ok := strings.CutPrefix(strings.Fields(cfg.URL)[0], "host=")
	if !ok {
		const why = "the database to test with is not on a Unix socket of the tests' own"
		if pgtest.Required() {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	dir, err := os.MkdirTemp("", "owpx")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{ln: ln, text: commitText, to: filepath.Join(host, ".s.PGSQL.5432"), conns: map[net.Conn]bool{}}
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		_ = ln.Close()
		p.set(func() { p.down = true })
		p.wg.Wait()
		_ = os.RemoveAll(dir)
	})
	cfg.URL = fmt.Sprintf("host=%s user=onceward dbname=postgres", dir)
	cfg.ExecMode = postgres.ExecDescribe
	return p, cfg
}

// set changes what the proxy does; one that is down cuts what there is.
func (p *proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	if p.down {
		for c := range p.conns {
			_ = c.Close()
		}
		clear(p.conns)
	}
}

func (p *proxy) serve() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("unix", p.to)
		p.mu.Lock()
		if err != nil || p.down {
			_ = c.Close()
			if err == nil {
				_ = s.Close()
			}
			p.mu.Unlock()
			continue
		}
		p.conns[c], p.conns[s] = true, true
		p.mu.Unlock()
		l := &line{p: p, client: c, server: s}
		p.wg.Go(l.up)
		p.wg.Go(l.back)
	}
}

// line is one connection through the proxy.
type line struct {
	p              *proxy
	client, server net.Conn

	mu   sync.Mutex
	deaf bool // the next answer is lost, and with it the connection
}

var commitText = []byte("\x00commit\x00")

// up carries what the client says.
func (l *line) up() {
	defer l.end()
	buf, tail := make([]byte, 64<<10), []byte(nil)
	for {
		n, err := l.client.Read(buf)
		if err != nil {
			return
		}
		seen := append(tail, buf[:n]...)
		if text := l.p.cuts(); bytes.Contains(seen, text) {
			switch l.p.take() {
			case unspoken:
				l.p.fell()
				return
			case unheard:
				l.mu.Lock()
				l.deaf = true
				l.mu.Unlock()
			}
		}
		tail = append([]byte(nil), seen[max(0, len(seen)-len(l.p.cuts())+1):]...)
		if _, err := l.server.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) cuts() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text
}

// take is what happens to the commit that just came by.
func (p *proxy) take() fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.next
	p.next = passes
	return f
}

// fell is called when a commit was cut.
func (p *proxy) fell() {
	p.mu.Lock()
	after := p.after
	p.mu.Unlock()
	if after {
		p.set(func() { p.down = true })
	}
}

// back carries what the server says.
func (l *line) back() {
	defer l.end()
	buf := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buf)
		l.mu.Lock()
		deaf := l.deaf
		l.mu.Unlock()
		if deaf { // the server has answered: it is done
			l.p.fell()
			return
		}
		if err != nil {
			return
		}
		if _, err := l.client.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (l *line) end() {
	_ = l.client.Close()
	_ = l.server.Close()
}
