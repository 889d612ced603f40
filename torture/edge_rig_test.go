//go:build torture

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Builds of the gateway without guards of the edge, each of which shows by a
// sign of its own. They are two, because every build takes its time.
const (
	// noFraming leaves framing to net/http; a request may see two
	// configurations; a stop cuts connections at once; every connection leaves
	// a goroutine behind.
	noFraming = "onceward_unsafe_framing,onceward_unsafe_torn,onceward_unsafe_drain,onceward_unsafe_leak"
	torn      = noFraming
	noDrain   = noFraming
	leaking   = noFraming
	// noLimits has no time-outs and no bounds on headers, bodies and queues;
	// requests of one batch do not see each other's claims.
	noLimits = "onceward_unsafe_limits,onceward_unsafe_blind"
	blind    = noLimits
	// panicking panics with a whole request when it is asked to.
	panicking = "onceward_unsafe_panic"
)

const edgeSecret = "edge-suite-secret-0123456789abcdef"

// edge is a gateway whose configuration is the test's own.
type edge struct {
	t    *testing.T
	p    *Proc
	dir  string
	gh   *Source // signs as GitHub does; its secret is in every configuration
	http *http.Client
}

// newEdge makes a gateway with a configuration file of general settings and
// what the test adds. It starts nothing.
func newEdge(t *testing.T, tags, general, parts string) *edge {
	t.Helper()
	dir := keep(t)
	e := &edge{t: t, dir: dir, gh: &Source{
		Name: "gh", Provider: GitHub, Secret: edgeSecret,
	}}
	var err error
	e.p, err = NewProc(built(t, tags), Layout{Dir: dir, Data: filepath.Join(dir, "data")}, nil, "")
	must(t, err)
	e.configure(general, parts)
	e.http = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}}
	t.Cleanup(func() {
		e.http.CloseIdleConnections()
		if err := e.p.Kill(); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	return e
}

// configure writes the configuration file.
func (e *edge) configure(general, parts string) {
	e.t.Helper()
	must(e.t, os.WriteFile(e.p.Config, []byte(e.text(general, parts)), 0o600))
}

func (e *edge) text(general, parts string) string {
	return fmt.Sprintf("listen = %q\n%s\n[admin]\nlisten = %q\ntoken_file = %q\n[store]\ndriver = \"badger\"\npath = %q\nreserve = \"32MiB\"\nballast = \"16MiB\"\nmemory_limit = \"256MiB\"\n[log]\nlevel = \"info\"\nformat = \"json\"\n%s",
		e.p.Public, general, e.p.Admin, filepath.Join(e.dir, "admin.token"), filepath.Join(e.dir, "data"), parts)
}

// open and signed are the sources most tests use.
const openSource = "[[source]]\nname = \"open\"\nprovider = \"none\"\ntargets = []\n"

func (e *edge) signedSource(targets string) string {
	return fmt.Sprintf("[[source]]\nname = \"gh\"\nprovider = \"github\"\nsecrets = [%q]\ntargets = [%s]\n", e.gh.Secret, targets)
}

func (e *edge) boot() {
	e.t.Helper()
	must(e.t, e.p.Start())
	must(e.t, e.p.WaitReady(within(e.t, 30*time.Second)))
}

func (e *edge) url(path string) string { return "http://" + e.p.Public + path }

// bring sends one signed event on a client's kept-alive connections.
func (e *edge) bring(c *http.Client, id string, body []byte) (status int, repeat bool, ref string, err error) {
	req, err := http.NewRequest(http.MethodPost, e.url("/in/gh"), bytes.NewReader(body))
	if err != nil {
		return 0, false, "", err
	}
	req.GetBody = nil
	e.sign(req.Header, id, body)
	resp, err := c.Do(req)
	if err != nil {
		return 0, false, "", err
	}
	defer resp.Body.Close()
	var doc struct {
		Ref string `json:"ref"`
	}
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 == 2 {
		err = json.Unmarshal(text, &doc)
	}
	if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "" {
		err = fmt.Errorf("503 without Retry-After")
	}
	return resp.StatusCode, resp.Header.Get("Idempotent-Replayed") == "true", doc.Ref, err
}

func (e *edge) sign(h http.Header, id string, body []byte) {
	h.Set("Content-Type", "application/json")
	h.Set("X-GitHub-Event", "push")
	h.Set("X-GitHub-Delivery", id)
	h.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac([]byte(e.gh.Secret), string(body))))
}

// rawSigned is a signed request as text for the wire.
func (e *edge) rawSigned(id, body string) string {
	h := http.Header{}
	e.sign(h, id, []byte(body))
	var b strings.Builder
	fmt.Fprintf(&b, "POST /in/gh HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", len(body))
	must(e.t, h.Write(&b))
	return b.String() + "\r\n" + body
}

func (e *edge) dial() net.Conn {
	e.t.Helper()
	c, err := net.Dial("tcp", e.p.Public)
	must(e.t, err)
	must(e.t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

// quiet is how long a gateway that has answered and has not closed the
// connection is waited for.
const quiet = 5 * time.Second

// exchange writes text on a connection of its own and reads all answers until
// the gateway closes, or is silent for a while.
func (e *edge) exchange(text string) (answers []*http.Response, closed bool) {
	e.t.Helper()
	c := e.dial()
	defer c.Close()
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		io.WriteString(c, text) // a gateway that closes early takes no more
	}()
	br := bufio.NewReader(c)
	for {
		if len(answers) > 0 { // else the minute of dial
			must(e.t, c.SetReadDeadline(time.Now().Add(quiet)))
		}
		if _, err := br.Peek(1); err != nil {
			c.Close()
			<-wrote
			return answers, !os.IsTimeout(err)
		}
		must(e.t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodPost})
		if err != nil {
			c.Close()
			<-wrote
			return answers, true
		}
		io.Copy(io.Discard, resp.Body)
		answers = append(answers, resp)
	}
}

// account reads the gateway's account of all events.
func (e *edge) account() []Stored {
	e.t.Helper()
	all, err := e.p.Account(within(e.t, 2*time.Minute))
	must(e.t, err)
	return all
}

// metrics reads every sample of the operator's listener.
func (e *edge) metrics() map[string]float64 {
	e.t.Helper()
	resp, err := e.http.Get("http://" + e.p.Admin + "/metrics")
	must(e.t, err)
	defer resp.Body.Close()
	out := map[string]float64{}
	sc := bufio.NewScanner(resp.Body)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if name, value, ok := cutLast(sc.Text(), " "); ok && !strings.HasPrefix(name, "#") {
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				out[name] = v
			}
		}
	}
	must(e.t, sc.Err())
	return out
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// fds is how many descriptors the process has open, but for the tables of the
// ledger: they are as many as it is large, and no leak.
func (e *edge) fds() (n int) {
	e.t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", e.p.cmd.Process.Pid)
	all, err := os.ReadDir(dir)
	must(e.t, err)
	for _, fd := range all {
		if file, _ := os.Readlink(filepath.Join(dir, fd.Name())); filepath.Ext(file) != ".sst" {
			n++
		}
	}
	return n
}

// memory is what the process holds that no file backs.
func (e *edge) memory() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.p.cmd.Process.Pid))
	_, rest, ok := strings.Cut(string(text), "RssAnon:")
	if err != nil || !ok {
		return 0 // it is gone
	}
	kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	return kb << 10
}

// watch samples the peak of memory until its stop is called, and once more
// then: on a busy machine the last tick may be long ago.
func (e *edge) watch() (stop func() int64) {
	ctx, cancel := context.WithCancel(e.t.Context())
	var peak int64
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			peak = max(peak, e.memory())
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() int64 {
		cancel()
		done.Wait()
		return max(peak, e.memory())
	}
}

// noise is n bytes of JSON that no compression makes small, never the same.
func noise(n int) []byte {
	raw := make([]byte, n/2)
	rand.Read(raw)
	return fmt.Appendf(nil, `{"noise":"%s"}`, hex.EncodeToString(raw))
}

// noticed records a control.
func noticed(t *testing.T, fault string, s uint64, seen bool, note string) {
	t.Helper()
	record(t, &Result{Fault: fault, Seed: s, Control: true, Seen: seen, Note: note})
	fmt.Printf("control, %s: noticed %v: %s\n", fault, seen, note)
	if !seen {
		t.Errorf("%s: the suite did not notice", fault)
	}
}

// stopTime is how long a stop in order may take.
func (e *edge) stopTime() time.Duration { return time.Minute }
