//go:build torture

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// configuration is one of those a reload meets.
type configuration struct {
	name, text string
	good       bool
}

// configurations are two good ones that differ in the label of the secret and
// in the target, so that an event shows which it saw, and bad ones.
func (e *edge) configurations(a, b *edgeTarget) []configuration {
	source := func(label, target string) string {
		return e.text("drain = \"5s\"\n", fmt.Sprintf("[[source]]\nname = \"gh\"\nprovider = \"github\"\nsecrets = [{ id = %q, value = %q }]\ntargets = [%q]\n%s%s",
			label, e.gh.Secret, target, a.config("one"), b.config("two")))
	}
	one, two := source("one", "one"), source("two", "two")
	return []configuration{
		{"one", one, true},
		{"two", two, true},
		{"bad TOML", two + "\n[[source\n", false},
		{"one", one, true},
		{"a missing secret", strings.Replace(two, e.gh.Secret, "${env:ONCEWARD_NEVER_SET}", 1), false},
		{"two", two, true},
		{"a target that is not there", strings.Replace(one, `targets = ["one"]`, `targets = ["three"]`, 1), false},
		{"an unknown key", two + "\nnonsense = 1\n", false},
		{"another listener", strings.Replace(one, e.p.Public, "127.0.0.1:1", 1), false},
		{"changed targets", strings.Replace(one, "timeout = \"10s\"", "timeout = \"11s\"", 2), true},
	}
}

// bringSlowly sends a signed event whose body comes a while after its head, on
// a connection of its own.
func (e *edge) bringSlowly(id string, gap time.Duration) (int, error) {
	text := e.rawSigned(id, fmt.Sprintf(`{"slow":%q}`, id))
	c, err := net.Dial("tcp", e.p.Public)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	cut := strings.Index(text, "\r\n\r\n") + 6
	if _, err := io.WriteString(c, text[:cut]); err != nil {
		return 0, err
	}
	if err := Wait(e.t.Context(), gap); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(c, text[cut:]); err != nil {
		return 0, err
	}
	return status(c)
}

// headerTime is how long a request's head may take: one that the machine held
// up for longer may be cut for that.
const headerTime = 5 * time.Second

// reloads has the gateway read configurations while senders send, and returns
// how many events were acknowledged, which requests failed and which events saw
// two configurations.
func reloads(e *edge, n int, every time.Duration) (acked int, faults []string) {
	a, b := e.target(), e.target()
	all := e.configurations(a, b)
	must(e.t, os.WriteFile(e.p.Config, []byte(all[0].text), 0o600))
	e.boot()
	var mu sync.Mutex
	unanswered := 0
	fault := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		if len(faults) < 20 {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	ctx, enough := context.WithCancel(within(e.t, 5*time.Minute))
	var senders sync.WaitGroup
	for s := range 8 {
		senders.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("reload-%d-%d", s, i)
				var status int
				var err error
				began := time.Now()
				if s%2 == 0 {
					status, err = e.bringSlowly(id, every/2)
				} else {
					status, _, _, err = e.bring(e.http, id, noise(400))
				}
				if status == 0 && time.Since(began) > headerTime {
					mu.Lock()
					unanswered++
					mu.Unlock()
					continue
				}
				if status != http.StatusOK || err != nil {
					fault("%s was answered %d, %v", id, status, err)
					continue
				}
				mu.Lock()
				acked++
				mu.Unlock()
			}
		})
	}
	want := 0.0
	for i := range n {
		c := all[i%len(all)]
		must(e.t, os.WriteFile(e.p.Config+".new", []byte(c.text), 0o600))
		must(e.t, os.Rename(e.p.Config+".new", e.p.Config))
		must(e.t, e.p.cmd.Process.Signal(syscall.SIGHUP))
		if c.good {
			want = 1
		} else {
			want = 0
		}
		must(e.t, Wait(ctx, every))
		if i%10 < 4 { // and now and then look whether it did
			err := poll(within(e.t, 20*time.Second), 10*time.Millisecond, func() (bool, error) {
				return e.metrics()["onceward_config_last_reload_successful"] == want, nil
			})
			if err != nil {
				fault("reload %d (%s): never became %v", i, c.name, want)
			}
		}
	}
	enough()
	senders.Wait()
	return acked, append(faults, e.mixed(acked, unanswered)...)
}

// mixed lists events that saw two configurations, and counters that were lost.
// What was not answered may have been accepted.
func (e *edge) mixed(acked, unanswered int) (faults []string) {
	seen := map[string]int{}
	for _, s := range e.account() {
		target := ""
		if len(s.Deliveries) == 1 {
			target = s.Deliveries[0].Target
		}
		seen[s.Secret]++
		if s.Secret != target {
			faults = append(faults, fmt.Sprintf("event %s: secret of configuration %q, target of %q", s.ID, s.Secret, target))
		}
	}
	if n := seen["one"] + seen["two"]; n < acked || n > acked+unanswered || seen["one"] == 0 || seen["two"] == 0 {
		faults = append(faults, fmt.Sprintf("acknowledged %d, in the account %v", acked, seen))
	}
	if got := e.metrics()[`onceward_ingest_requests_total{outcome="accepted",source="gh"}`]; int(got) < acked || int(got) > acked+unanswered {
		faults = append(faults, fmt.Sprintf("the counter of accepted requests says %v, want %d, and at most %d more", got, acked, unanswered))
	}
	return faults
}

// TestEdgeReload reloads 300 times under load, good and bad configurations
// after each other: no request fails, each sees one configuration, a bad one
// changes nothing, and no counter starts again.
func TestEdgeReload(t *testing.T) {
	t.Parallel()
	const n = 300
	res := &Result{Fault: "reloads under load", Cycles: n}
	record(t, res)
	e := newEdge(t, asShipped, "", "")
	acked, faults := reloads(e, n, 100*time.Millisecond)
	for _, f := range faults[:min(len(faults), 10)] {
		t.Error(f)
	}
	res.Acknowledged = acked
	res.Note = fmt.Sprintf("%d reloads, %d requests, none failed", n, acked)
}

// TestControlEdgeReload lets a request see two configurations.
func TestControlEdgeReload(t *testing.T) {
	t.Parallel()
	e := newEdge(t, torn, "", "")
	acked, faults := reloads(e, 30, 100*time.Millisecond)
	mixed := 0
	for _, f := range faults {
		if strings.HasPrefix(f, "event ") {
			mixed++
		}
	}
	noticed(t, "a request sees two configurations", 0, mixed > 0, fmt.Sprintf("%d of %d events did", mixed, acked))
}
