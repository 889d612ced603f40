package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/forward"
	"github.com/onceward/onceward/receiver"
	"github.com/onceward/onceward/verify"
)

// The sources and targets of every run. Each source has another conflict
// policy.
var (
	sourceNames = [...]string{"shop", "hook", "keyed"}
	targetNames = [...]string{"billing", "crm", "late"}
	conflicts   = [...]dedupe.Conflict{dedupe.ConflictAck, dedupe.ConflictDeliver, dedupe.ConflictReject}
)

const (
	window  = 2 * time.Hour
	giveUp  = time.Hour
	timeout = 5 * time.Second
)

// targetsOf are the targets of a source's events while late is configured, or
// not.
func targetsOf(source int, late bool) []string {
	out := [][]string{{"billing", "crm"}, {"crm"}, {"billing"}}[source]
	if late && source == 0 {
		out = append(slices.Clone(out), "late")
	}
	return out
}

func targetIndex(name string) int { return slices.Index(targetNames[:], name) }

// engine is a ledger that can be killed.
type engine interface {
	dedupe.Ledger
	// revive opens what this one had committed, as after a kill.
	revive() engine
	// lowDisk and breakNext are faults; an engine may not have them.
	lowDisk(bool)
	breakNext(error)
}

// request is one request of a sender, and what it was told.
type request struct {
	source, id, body int
	sum              event.Hash
	sent, told       time.Time // in ledger time
	began, ended     time.Time // in time that nobody sets
	status           int
	repeat           bool
	ref              string
	late             bool // whether the target late was configured
	unsure           bool // the configuration changed meanwhile
	quiet            bool // nothing of the same ID was open or under way before it
}

// setting is what a reload changes.
type setting struct {
	turn  int // of the secrets
	late  bool
	swaps int // begun and ended; odd while one is under way
}

// world is one run under way. Its steps are carried out by one goroutine.
type world struct {
	plan plan
	town *town

	skew   atomic.Int64 // of the wall clock
	life   int
	now    *life
	kills  int
	story  []string
	latest time.Time // ledger time of the newest event that was acknowledged
	held   time.Time // ledger time until which claims may stand past their window: the process started on a clock far ahead

	senders sync.WaitGroup
	flying  atomic.Int64 // requests of senders under way

	mu       sync.Mutex // guards what senders read and write
	set      setting
	requests []request
	faults   []string

	replays, cancels map[string]int // by ref: deliveries opened again, closed
}

// life is one process.
type life struct {
	ledger    engine
	writer    *dedupe.Writer
	forwarder *forward.Forwarder
	receiver  *receiver.Receiver
	stop      func(kill bool)
}

// A ledger whose mark is as far behind the clock at its start takes the clock
// to be wrong for so long: no claim ends meanwhile.
const (
	clockLead = 24 * time.Hour
	clockHold = time.Hour
)

func (w *world) wall() time.Time { return time.Now().Add(time.Duration(w.skew.Load())) }

// steady is the wall clock as a ledger that starts now will see it: read at
// its start, and from there on by the monotonic clock, which nobody sets.
func (w *world) steady() func() time.Time {
	booted := time.Duration(w.skew.Load())
	return func() time.Time { return time.Now().Add(booted) }
}

func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) < 10 {
		w.faults = append(w.faults, fmt.Sprintf(format, args...))
	}
}

// spine is a ledger whose results go through the group commit.
type spine struct {
	dedupe.Ledger
	writer *dedupe.Writer
}

func (s spine) Finish(ctx context.Context, rs ...*dedupe.Result) error {
	return s.writer.Finish(ctx, rs...)
}

// boot starts a process on the ledger.
func (w *world) boot(l engine) error {
	w.life++
	w.town.setLife(w.life, l.Now)
	if l.Now().Before(w.latest) {
		w.fault("the ledger's clock went back from %v to %v", w.latest, l.Now())
	}
	n := &life{ledger: l}
	var err error
	if n.writer, err = dedupe.NewWriter(dedupe.WriterConfig{Ledger: l, Now: w.wall}); err != nil {
		return err
	}
	n.forwarder, err = forward.New(forward.Config{
		Ledger: spine{l, n.writer}, Now: w.wall, Rand: w.plan.draws("jitter", fmt.Sprint(w.life)).Float64,
		Drain: 2 * timeout, GiveUp: giveUp, Dial: w.town.dial,
	})
	if err != nil {
		return err
	}
	if n.receiver, err = receiver.New(receiver.Config{Admit: n.writer, Sources: w.sources(), Now: w.wall}); err != nil {
		return err
	}
	if err := n.forwarder.SetTargets(w.targets()); err != nil {
		return err
	}
	forwarding, endForwarding := context.WithCancel(context.Background())
	writing, endWriting := context.WithCancel(context.Background())
	forwarded, written := make(chan error, 1), make(chan error, 1)
	go func() { written <- n.writer.Run(writing) }()
	go func() { forwarded <- n.forwarder.Run(forwarding) }()
	n.stop = func(kill bool) {
		endForwarding()
		if kill {
			endWriting()
		}
		if err := <-forwarded; err != nil && !errors.Is(err, dedupe.ErrFatal) && !errors.Is(err, dedupe.ErrClosed) {
			w.fault("forwarder ended with %v", err)
		}
		endWriting()
		if err := <-written; err != nil && !errors.Is(err, dedupe.ErrFatal) {
			w.fault("writer ended with %v", err)
		}
	}
	w.now = n
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := l.Now(); !w.latest.IsZero() && now.Sub(w.latest) > clockLead {
		w.held = now.Add(clockHold)
	}
	return nil
}

// kill ends the process as SIGKILL would, as far as the ledger can tell, and
// starts the next.
func (w *world) kill() error {
	old := w.now.ledger
	next := old.revive() // from here on the old process commits nothing
	w.kills++
	w.now.stop(true)
	w.senders.Wait()
	if err := old.Close(); err != nil && !errors.Is(err, dedupe.ErrFatal) {
		return err
	}
	return w.boot(next)
}

// restart stops the process in order and starts the next.
func (w *world) restart() error {
	w.senders.Wait() // as the receiver drains
	w.now.stop(false)
	if err := w.now.ledger.Close(); err != nil {
		return err
	}
	return w.boot(w.now.ledger.revive())
}

// sources is the configuration of the present turn. Secrets rotate: the
// present and the one before are good.
func (w *world) sources() []*receiver.Source {
	set := w.setting()
	out := make([]*receiver.Source, len(sourceNames))
	for i, name := range sourceNames {
		s := &receiver.Source{Name: name, Verifier: verifier(i, set), Window: window, Conflict: conflicts[i]}
		for _, t := range targetsOf(i, set.late) {
			s.Routes = append(s.Routes, receiver.Route{Target: t})
		}
		out[i] = s
	}
	return out
}

func verifier(source int, set setting) *verify.Verifier {
	cfg := verify.Config{Options: map[string]string{"id": "json:id"}}
	name := "hmac"
	if sourceNames[source] == "keyed" {
		name, cfg.Options, cfg.Auth = "idempotency-key", nil, "bearer"
	}
	for i := max(0, set.turn-1); i <= set.turn; i++ {
		cfg.Secrets = append(cfg.Secrets, verify.Secret{
			ID: fmt.Sprint(i), Caller: "only", Value: verify.NewSecretString(fmt.Sprintf("secret-%s-%d-0123456789abcdef", name, i)),
		})
	}
	cfg.Row, _ = verify.Lookup(name)
	v, err := verify.New(cfg)
	if err != nil {
		panic(err)
	}
	return v
}

func (w *world) targets() []forward.Target {
	var out []forward.Target
	set := w.setting()
	for _, name := range targetNames {
		if name == "late" && !set.late {
			continue
		}
		out = append(out, forward.Target{
			Name: name, URL: &url.URL{Scheme: "http", Host: name + ".test", Path: "/"}, Timeout: timeout, Concurrency: 4,
			GiveUp: giveUp, Schedule: forward.Schedule{Initial: time.Second, Factor: 2, Max: 10 * time.Minute},
		})
	}
	return out
}

func (w *world) reload() error {
	w.mu.Lock()
	w.set = setting{w.set.turn + 1, !w.set.late, w.set.swaps + 1}
	w.mu.Unlock()
	err := errors.Join(w.now.forwarder.SetTargets(w.targets()), w.now.receiver.SetSources(w.sources(), nil))
	w.mu.Lock()
	w.set.swaps++
	w.mu.Unlock()
	return err
}

func (w *world) setting() setting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.set
}

// idOf is the event ID as the sender writes it.
func idOf(source, id int) string { return fmt.Sprintf("evt-%s-%d", sourceNames[source], id) }

func bodyOf(source, id, body int) []byte {
	return fmt.Appendf(nil, `{"id":%q,"variant":%d}`, idOf(source, id), body)
}

// signed is an authentic request of a source.
func (w *world) signed(source, id int, body []byte) *http.Request {
	out, err := verifier(source, w.setting()).Sign(verify.SignRequest{
		Now: w.wall(), ID: idOf(source, id), Body: body, URL: "http://gateway.test/in/" + sourceNames[source],
	})
	if err != nil {
		panic(err)
	}
	req := httptest.NewRequest(http.MethodPost, "/in/"+sourceNames[source], io.NopCloser(bytes.NewReader(out.Body)))
	req.ContentLength = int64(len(out.Body))
	for k, v := range out.Header {
		req.Header[k] = v
	}
	return req
}

// send plays one request of a sender and notes what it was told.
func (w *world) send(n *life, s step, quiet bool) {
	text := bodyOf(s.Source, s.ID, s.Body)
	set := w.setting()
	rec := request{
		source: s.Source, id: s.ID, body: s.Body, sum: event.HashOf(text), sent: n.ledger.Now(), began: time.Now(), quiet: quiet, late: set.late,
	}
	answer := httptest.NewRecorder()
	n.receiver.Handler().ServeHTTP(answer, w.signed(s.Source, s.ID, text))
	rec.told, rec.ended, rec.status = n.ledger.Now(), time.Now(), answer.Code
	rec.repeat = answer.Header().Get("Idempotent-Replayed") != ""
	rec.unsure = set.swaps%2 == 1 || w.setting() != set
	var doc struct {
		Ref string `json:"ref"`
	}
	if rec.status/100 == 2 {
		if err := json.Unmarshal(answer.Body.Bytes(), &doc); err != nil || doc.Ref == "" {
			w.fault("answer %d names no event: %s", rec.status, answer.Body)
		}
	}
	rec.ref = doc.Ref
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, rec)
	if ref, err := event.ParseRef(rec.ref); err == nil && ref.Time().After(w.latest) {
		w.latest = ref.Time()
	}
}

// forge sends what must be refused and leave nothing behind: a request whose
// credential ends in other bytes.
func (w *world) forge(n *life, s step) {
	req := w.signed(s.Source, s.ID, bodyOf(s.Source, s.ID, s.Body))
	for name, values := range req.Header {
		for i, v := range values {
			if len(v) > 24 {
				req.Header[name][i] = v[:len(v)-2] + "zz"
			}
		}
	}
	answer := httptest.NewRecorder()
	n.receiver.Handler().ServeHTTP(answer, req)
	if answer.Code != http.StatusUnauthorized {
		w.fault("a forged request was answered %d", answer.Code)
	}
}
