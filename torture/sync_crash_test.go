//go:build torture

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const syncToken = "sync-caller-0123456789abcdef"

// syncTarget executes what synchronous routes bring, and dies now and then: it
// breaks connections off before it has executed a request, and after.
type syncTarget struct {
	mu       sync.Mutex // guards the rest
	rand     *rand.Rand
	requests map[string]int // by key: how often one came that it executed
	effects  map[string]int // by key: how often that had an effect
	deduped  map[string]string
}

// serve executes a request. Below /safe a key has its effect once, and is
// answered the same each time; below /plain every request has one.
func (s *syncTarget) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	key := r.Header.Get("Idempotency-Key")
	s.mu.Lock()
	early, late := s.rand.IntN(20) == 0, s.rand.IntN(20) == 0
	pause := time.Duration(s.rand.IntN(15)) * time.Millisecond
	s.mu.Unlock()
	if early {
		panic(http.ErrAbortHandler)
	}
	s.mu.Lock()
	s.requests[key]++
	answer, known := s.deduped[key]
	if !known || !strings.HasPrefix(r.URL.Path, "/safe") {
		s.effects[key]++
		answer = fmt.Sprintf("effect %d of %s", s.effects[key], key)
		s.deduped[key] = answer
	}
	s.mu.Unlock()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	<-timer.C
	if late {
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, answer)
}

// syncConfig adds the two routes; plain says idempotent only in the control,
// where it is a lie.
func syncConfig(addr string, lie bool) string {
	var b strings.Builder
	for _, route := range []struct {
		name       string
		idempotent bool
	}{{"safe", true}, {"plain", lie}} {
		fmt.Fprintf(&b, `[[source]]
name = %q
provider = "idempotency-key"
mode = "sync"
auth = "bearer"
secrets = [%q]
targets = [%q]
require_key = true
[[target]]
name = %q
url = "http://%s/%s"
timeout = "5s"
idempotent = %v
`, route.name, syncToken, route.name, route.name, addr, route.name, route.idempotent)
	}
	return b.String()
}

// syncRun is callers, a gateway and a target.
type syncRun struct {
	t      *testing.T
	proc   *Proc
	target *syncTarget
	client *http.Client
	next   atomic.Int64 // number of the next key
	stop   atomic.Bool

	mu      sync.Mutex // guards the rest
	answers map[string]string
	stuck   map[string]bool
	wrong   []string
}

func (s *syncRun) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wrong) < 20 {
		s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
	}
}

// send sends one request; false when nothing is known of it.
func (s *syncRun) send(route, key string) (status int, body string, replayed, ok bool) {
	req, err := http.NewRequest(http.MethodPost, "http://"+s.proc.Public+"/in/"+route+"/charges", strings.NewReader(key))
	if err != nil {
		s.note("%v", err)
		return 0, "", false, false
	}
	req.Header.Set("Authorization", "Bearer "+syncToken)
	req.Header.Set("Idempotency-Key", key)
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, "", false, false
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), resp.Header.Get("Idempotent-Replayed") == "true", err == nil
}

// call brings keys until it is told to stop, each until it is concluded.
func (s *syncRun) call() {
	for !s.stop.Load() {
		n := s.next.Add(1)
		route := []string{"safe", "plain"}[n%2]
		s.conclude(route, fmt.Sprintf("%s-%d", route, n))
	}
}

func (s *syncRun) conclude(route, key string) {
	for try := 0; ; try++ {
		status, body, _, ok := s.send(route, key)
		switch {
		case !ok, status == http.StatusServiceUnavailable, status == http.StatusConflict,
			status == http.StatusBadGateway && strings.Contains(body, "try-again"):
		case status == http.StatusOK:
			s.mu.Lock()
			s.answers[key] = body
			s.mu.Unlock()
			return
		case status == http.StatusBadGateway && strings.Contains(body, "outcome-unknown"):
			s.mu.Lock()
			s.stuck[key] = true
			s.mu.Unlock()
			return
		default:
			s.note("key %s: status %d: %s", key, status, body)
			return
		}
		if try > 2000 {
			s.note("key %s has no end: %d %s", key, status, body)
			return
		}
		timer := time.NewTimer(5 * time.Millisecond)
		<-timer.C
	}
}

// runSync kills a gateway with synchronous routes and returns what was seen,
// after every key has its end.
func runSync(t *testing.T, cycles int, seed uint64, lie bool) *syncRun {
	rnd := rand.New(rand.NewPCG(seed, 6))
	target := &syncTarget{rand: rand.New(rand.NewPCG(seed, 7)), requests: map[string]int{}, effects: map[string]int{}, deduped: map[string]string{}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	srv := &http.Server{Handler: http.HandlerFunc(target.serve), ErrorLog: nil}
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })

	dir := keep(t)
	p, err := NewProc(built(t, asShipped), Layout{Dir: dir, Data: filepath.Join(dir, "data"), Extra: syncConfig(ln.Addr().String(), lie)}, nil, ln.Addr().String())
	must(t, err)
	t.Cleanup(func() { _ = p.Kill() })
	must(t, p.Start())
	must(t, p.WaitReady(within(t, 30*time.Second)))
	s := &syncRun{t: t, proc: p, target: target, answers: map[string]string{}, stuck: map[string]bool{},
		client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(s.call)
	}
	for range cycles {
		timer := time.NewTimer(time.Duration(50+rnd.IntN(350)) * time.Millisecond)
		<-timer.C
		must(t, p.Kill())
		must(t, p.Start())
		must(t, p.WaitReady(within(t, 30*time.Second)))
	}
	s.stop.Store(true)
	callers.Wait()
	return s
}

// open is the keys of unknown outcome that the gateway lists.
func (s *syncRun) open() map[string]bool {
	out, err := s.proc.Ask(within(s.t, 30*time.Second), "keys", "list", "--all", "-o", "jsonl")
	must(s.t, err)
	keys := map[string]bool{}
	for line := range bytes.Lines(out) {
		var k struct{ ID, State string }
		must(s.t, json.Unmarshal(line, &k))
		if k.State != "unknown" {
			s.note("key %s is listed as %s when nobody works on it", k.ID, k.State)
		}
		keys[k.ID] = true
	}
	return keys
}

// twice counts the keys of a route that had more than one effect.
func (s *syncRun) twice(route string) (n int) {
	s.target.mu.Lock()
	defer s.target.mu.Unlock()
	for key, effects := range s.target.effects {
		if strings.Contains(key, route) && effects > 1 {
			n++
		}
	}
	return n
}

// TestSyncCrash is the promise of synchronous routes under kills of the gateway
// and a target that dies: where the target executes a key once, every key ends
// with its one effect; where it doesn't, no key is executed twice, and each one
// of unknown outcome is listed.
func TestSyncCrash(t *testing.T) {
	t.Parallel()
	cycles := count(t, "TORTURE_CYCLES", 40)
	if long() {
		cycles = count(t, "TORTURE_CYCLES", 200)
	}
	s := seed(t)
	res := &Result{Fault: "kill -9 with synchronous routes, and a target that dies", Seed: s, Cycles: cycles}
	record(t, res)
	run := runSync(t, cycles, s, false)
	open := run.open()
	lost := 0
	for key := range run.stuck {
		if !open[key] {
			t.Errorf("key %s is of unknown outcome and is not listed", key)
			lost++
		}
	}
	for key := range open {
		if strings.HasPrefix(key, "safe-") {
			t.Errorf("key %s of an idempotent target is left without an end", key)
		}
		if !run.stuck[key] {
			t.Errorf("key %s is listed as unknown and was answered %q", key, run.answers[key])
		}
	}
	for key, body := range run.answers { // each is still there, byte for byte
		status, again, replayed, ok := run.send(strings.SplitN(key, "-", 2)[0], key)
		if !ok || status != http.StatusOK || again != body || !replayed {
			lost++
			t.Errorf("key %s was answered %q and is now %d %q, replayed %v", key, body, status, again, replayed)
		}
		if lost > 10 {
			break
		}
	}
	res.Acknowledged, res.Lost, res.Twice = len(run.answers), lost, run.twice("safe")+run.twice("plain")
	if res.Twice > 0 {
		t.Errorf("%d keys of /safe and %d of /plain had two effects", run.twice("safe"), run.twice("plain"))
	}
	for _, w := range run.wrong {
		t.Error(w)
	}
	res.Note = fmt.Sprintf("%d keys, %d of unknown outcome, all listed", run.next.Load(), len(run.stuck))
	if len(run.answers) < cycles || len(run.stuck) == 0 {
		t.Errorf("%d keys answered and %d of unknown outcome: too few to prove anything", len(run.answers), len(run.stuck))
	}
	t.Logf("%d kills, %d keys answered, %d unknown and listed, %d executed twice", cycles, len(run.answers), len(run.stuck), res.Twice)
	must(t, run.proc.Stop(within(t, 60*time.Second)))
}

// TestControlSyncCrash says of a target that executes every request that it
// executes a key once: the second executions must be seen.
func TestControlSyncCrash(t *testing.T) {
	t.Parallel()
	s := seed(t)
	res := &Result{Fault: "kill -9 with synchronous routes, and a target that dies", Seed: s, Cycles: 10, Control: true}
	record(t, res)
	run := runSync(t, 10, s, true)
	n := run.twice("plain")
	res.Seen, res.Note = n > 0, fmt.Sprintf("a target wrongly called idempotent: %d keys executed twice", n)
	if n == 0 {
		t.Errorf("no second execution was seen at a target that is wrongly called idempotent")
	}
	if run.twice("safe") > 0 {
		t.Errorf("%d keys of the target that keeps its word had two effects", run.twice("safe"))
	}
}
