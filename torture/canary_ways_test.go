//go:build torture

package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// listener keeps all headers and bodies that are sent to it: a collector of
// traces, a service that events are streamed to.
type listener struct {
	answer int

	mu   sync.Mutex
	text bytes.Buffer
	n    int
}

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Header.Del("X-Traces") // the collector's own
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	r.Header.Write(&l.text) // to a buffer: never fails
	l.text.Write(body)
	w.WriteHeader(l.answer)
}

func (l *listener) got() (text []byte, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.text.Bytes()), l.n
}

// ways are the canaries of what is not a plain source with a plain target:
// synchronous routes, targets that fetch, credentials of attempts, traces, and a
// secret that a provider hands over.
func (c *canaryRun) ways() (general, parts string) {
	more := canaries{
		"token of a synchronous route":           "cnry-sync-5d1e8a7c3b9f4062",
		"bearer credential of a target":          "cnry-tbea-8c0b6d5e2f7a4139",
		"password of a target":                   "cnry-tpas-2a9f4e7d1c6b4805",
		"token of a target that fetches":         "cnry-pull-e7b3c5a9d0124f68",
		"token of a stranger that fetches":       "cnry-wpul-90d4b1e8f6c2437a",
		"header of the traces":                   "cnry-otlp-b6f2d8c0e4a1473e",
		"secret that a provider hands over":      hex.EncodeToString([]byte("cnry-hand-71c5e9b3d7f04a26-canry")),
		"password in the URL of a service":       "cnry-lurl-4f8d2c6a0e1b4957",
		"bearer credential of a caller of /sync": "cnry-wsyn-3e7a9d5c1b0f4862",
	}
	for what, secret := range more {
		c.secrets[what] = secret
	}
	c.collector, c.service = c.serve(http.StatusOK), c.serve(http.StatusOK)
	general = fmt.Sprintf("[traces]\nendpoint = \"http://%s\"\nheaders = { X-Traces = %q }\n", c.addrs[c.collector], more["header of the traces"])
	parts = fmt.Sprintf(`[[source]]
name = "now"
provider = "idempotency-key"
mode = "sync"
auth = "bearer"
secrets = [{ caller = "shop", value = %q }]
targets = ["now"]
[[source]]
name = "fetched"
provider = "none"
options = { id = "json:id" }
targets = ["desk", "bearer", "basic"]
%s[[target]]
name = "now"
url = "http://%s/now"
[[target]]
name = "desk"
pull = true
pull_token = %q
[[target]]
name = "bearer"
url = "http://%s/bearer"
auth = { bearer = %q }
[[target]]
name = "basic"
url = "http://%s/basic"
auth = { user = "u", password = %q }
`, more["token of a synchronous route"], handing, c.targets.addr, more["token of a target that fetches"],
		c.targets.addr, more["bearer credential of a target"], c.targets.addr, more["password of a target"])
	return general, parts
}

// serve makes a listener that lives as long as the test.
func (c *canaryRun) serve(answer int) *listener {
	l := &listener{answer: answer}
	c.addrs[l] = listen(c.t, l)
	return l
}

// waysTraffic has the ways used: a synchronous request, again, and by a
// stranger; a fetch, an ack, and a stranger's fetch; a secret handed over.
func (c *canaryRun) waysTraffic() {
	c.t.Helper()
	s := c.secrets
	for i, token := range []string{s["token of a synchronous route"], s["token of a synchronous route"], s["bearer credential of a caller of /sync"]} {
		c.post(fmt.Sprint("synchronous request ", i), "/in/now", map[string]string{"Authorization": "Bearer " + token, "Idempotency-Key": "sync-1"}, `{"pay":1}`)
	}
	if text := c.out["answer to synchronous request 1"]; !bytes.Contains(text, []byte("200")) {
		c.t.Errorf("a synchronous request sent again was answered %s", text)
	}
	for i := range 3 {
		if got := c.post(fmt.Sprint("fetched ", i), "/in/fetched", nil, fmt.Sprintf(`{"id":"fetched-%d"}`, i)); got != http.StatusOK {
			c.t.Errorf("an event to be fetched was answered %d", got)
		}
	}
	c.post("hand over", "/in/handed", map[string]string{"X-Hook-Secret": s["secret that a provider hands over"]}, "{}")
	// A provider's challenge is answered with what it sent: that one answer is the
	// provider's own.
	delete(c.out, "answer to hand over")
	for _, token := range []string{"token of a target that fetches", "token of a stranger that fetches"} {
		for _, call := range []struct{ method, path, body string }{
			{http.MethodGet, "?n=2&lease=20s", ""}, {http.MethodPost, "/ack", `{"leases":["nothing"]}`}, {http.MethodPost, "/nack", "no JSON"},
		} {
			req, err := http.NewRequest(call.method, "http://"+c.p.Admin+"/api/v1/pull/desk"+call.path, strings.NewReader(call.body))
			must(c.t, err)
			req.Header.Set("Authorization", "Bearer "+s[token])
			resp, err := c.http.Do(req)
			must(c.t, err)
			c.keepAnswer(fmt.Sprint(call.method, " of ", call.path, " with the ", token), resp)
		}
	}
	must(c.t, poll(within(c.t, 20*time.Second), 50*time.Millisecond, func() (bool, error) {
		_, n := c.collector.got()
		return n > 0, nil
	}))
}

// copies makes everything that leaves with a copy of events: receipts, exports,
// a backup, a ledger restored of it, and streams.
func (c *canaryRun) copies() {
	c.t.Helper()
	dir := c.t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	account := c.account()
	for _, args := range [][]string{
		{"events", "prove", account[0].Ref},
		{"events", "prove", account[len(account)-1].Ref, "-o", "json"},
		{"events", "body", account[0].Ref},
		{"export", "--file", in("export.jsonl"), "-o", "jsonl"},
		{"export", "-o", "csv"},
		{"audit", "export"},
		{"backup", "--to", in("backup")},
		{"backup", "verify", in("backup")},
		{"tail", "--from", "start", "--count", "5"},
		{"tail", "--from", "start", "--count", "5", "-o", "json"},
		{"replay", "--source", "gh", "--yes"},
		{"replay", "status", "-o", "json"},
	} {
		ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
		out, err := c.command(ctx, append(args, "--config", c.p.Config)...).CombinedOutput()
		cancel()
		name := "copy: " + strings.ReplaceAll(strings.Join(args, " "), dir, "")
		if c.out[name] = out; err != nil || len(out) == 0 && args[0] != "export" {
			c.t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	c.listens(in("cursor"))
	for _, name := range []string{"export.jsonl", "backup", "cursor"} {
		text, err := os.ReadFile(in(name))
		must(c.t, err)
		if name == "backup" {
			c.whole[name] = text
		} else {
			c.out["the file "+name] = text
		}
		if len(text) == 0 {
			c.t.Errorf("the file %s is empty", name)
		}
	}
}

// listens streams events to a service whose URL has a password in it, until
// some have come.
func (c *canaryRun) listens(cursor string) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	to := fmt.Sprintf("http://%s/service?key=%s", c.addrs[c.service], c.secrets["password in the URL of a service"])
	cmd := c.command(ctx, "listen", "--forward-to", to, "--from", "start", "--cursor", cursor, "--config", c.p.Config)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	must(c.t, cmd.Start())
	err := poll(ctx, 50*time.Millisecond, func() (bool, error) {
		_, n := c.service.got()
		return n >= 5, nil
	})
	cancel()
	_ = cmd.Wait() // interrupted
	if c.out["listen"] = out.Bytes(); err != nil {
		c.t.Errorf("listen streamed nothing: %v\n%s", err, out.Bytes())
	}
}

// heard is what left the gateway for others, to be searched when it has ended.
func (c *canaryRun) heard() {
	c.whole["what the service of listen got"], _ = c.service.got()
	text, n := c.collector.got()
	if c.out["traces"] = text; n == 0 || !bytes.Contains(text, []byte("onceward")) {
		c.t.Errorf("%d exports of traces: that proves little", n)
	}
}
