package receiver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// storeTime is how long the end of a call that was cut may wait for a ledger
// that is away.
const storeTime = 10 * time.Second

// roomTime is the same for one that has no room, on a disk that is nearly full.
const roomTime = 2 * time.Second

// flights are the keys that requests of this process are working on.
type flights struct {
	// mu guards what follows; held for bookkeeping only.
	mu    sync.Mutex
	keys  map[dedupe.Key]*flight
	jobs  int           // under way
	ended bool          // no job begins any more
	idle  chan struct{} // closed when ended and no job is under way

	ctx context.Context
	cut context.CancelFunc // ends the calls of all jobs

	storing context.Context
	giveUp  context.CancelFunc // ends their waits for a ledger that is away
}

// flight is one key being worked on. Its print never changes; end is set
// before done is closed.
type flight struct {
	key   dedupe.Key
	print event.Hash
	done  chan struct{}
	end   ending
}

func (f *flights) init() {
	f.keys, f.idle = map[dedupe.Key]*flight{}, make(chan struct{})
	f.ctx, f.cut = context.WithCancel(context.Background())
	f.storing, f.giveUp = context.WithCancel(context.Background())
}

// start has a job done, false when none begins any more.
func (f *flights) start(run func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false
	}
	f.jobs++
	go func() {
		defer f.finish()
		run()
	}()
	return true
}

func (f *flights) finish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.jobs--; f.ended && f.jobs == 0 {
		close(f.idle)
	}
}

// begin is the flight of a key, a new one when first.
func (f *flights) begin(k dedupe.Key, print event.Hash) (fl *flight, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl := f.keys[k]; fl != nil {
		return fl, false
	}
	fl = &flight{key: k, print: print, done: make(chan struct{})}
	f.keys[k] = fl
	return fl, true
}

// over ends a flight: who waits for it looks again.
func (f *flights) over(fl *flight) {
	f.mu.Lock()
	delete(f.keys, fl.key)
	f.mu.Unlock()
	close(fl.done)
}

// drain lets no job begin any more and waits for those under way; what takes
// longer than ctx is cut, and its key is of unknown outcome. So is one whose
// answer the ledger does not take soon after that; patience says how soon.
func (f *flights) drain(ctx context.Context, patience func() time.Duration) error {
	f.mu.Lock()
	if !f.ended && f.jobs == 0 {
		close(f.idle)
	}
	f.ended = true
	f.mu.Unlock()
	select {
	case <-f.idle:
		return nil
	default:
	}
	select {
	case <-f.idle:
		return nil
	case <-ctx.Done():
	}
	f.cut()
	last := time.AfterFunc(patience(), f.giveUp)
	defer last.Stop()
	<-f.idle
	return errors.New("calls of synchronous routes were cut")
}

// endingKind is how a look at a key, or the work on it, ended.
type endingKind uint8

const (
	endAgain   endingKind = iota // look again
	endBusy                      // somebody else works on it
	endStored                    // rec holds the answer
	endPassed                    // problem is the target's own answer, which frees the key
	endProblem                   // problem is ours
	endFailed                    // the ledger could not say
)

// ending is what a caller is told.
type ending struct {
	kind     endingKind
	done     <-chan struct{} // endBusy: closed when it is worth looking again; nil: unknown
	rec      *dedupe.SyncKey
	replayed bool
	problem  *answer
	out      outcome
	err      error
}

// job is the work on one claimed key. It lives on when its caller leaves.
type job struct {
	r      *Receiver
	src    *compiled
	flight *flight
	claim  *dedupe.KeyStep
	out    *Outgoing
	held   int64     // body bytes taken from the budget
	sent   time.Time // when the call began
}

// run forwards the request, concludes the claim, and ends the flight.
func (j *job) run() {
	defer func() {
		if v := recover(); v != nil { // the lease is left to end: unknown is the truth
			j.r.m.panics.Inc()
			j.r.log.Error("call of a synchronous route failed inside the gateway", "event", "sync.panic", "source", j.src.name)
			j.flight.end = ending{kind: endProblem, problem: &problemForgotten, out: outError}
		}
		j.r.budget.give(j.held)
		j.r.flights.over(j.flight)
	}()
	j.flight.end = j.call()
}

func (j *job) call() ending {
	j.sent = j.r.cfg.Now()
	resp, err := j.r.cfg.Outbound.Call(j.r.flights.ctx, j.src.sync.Target, j.out)
	var ce *CallError
	switch {
	case err != nil && errors.As(err, &ce) && !ce.Sent:
		step := j.step(dedupe.StepRelease)
		step.Detail = ce.Class
		return j.conclude(step, ending{kind: endProblem, problem: &problemReach, out: outUnreachable})
	case err != nil:
		return j.unknown(err)
	}
	defer resp.Body.Close()
	if slices.Contains(j.src.sync.ReleaseOn, resp.StatusCode) {
		return j.released(resp)
	}
	answer, err := j.read(resp)
	if err != nil {
		return j.unknown(err)
	}
	step := j.step(dedupe.StepAnswer)
	step.Answer, step.ForwardedAt = answer, j.sent
	return j.conclude(step, ending{kind: endStored, rec: &step.Record})
}

func (j *job) step(kind dedupe.StepKind) *dedupe.KeyStep {
	return &dedupe.KeyStep{Kind: kind, Key: j.claim.Record.Key, Token: j.claim.Record.Token}
}

// conclude makes the end of the work durable before anybody is told. A claim
// that was lost meanwhile has another end by now.
func (j *job) conclude(step *dedupe.KeyStep, end ending) ending {
	if err := j.r.cfg.Keys.Step(j.r.flights.storing, step); err != nil {
		j.r.log.Error("end of a synchronous call not stored", "event", "sync.not_stored", "source", j.src.name, "error", err)
		return ending{kind: endProblem, problem: &problemForgotten, out: outError}
	}
	if step.Verdict == dedupe.KeyStale {
		return ending{kind: endAgain}
	}
	return end
}

// unknown concludes a call that may have been executed.
func (j *job) unknown(err error) ending {
	step := j.step(dedupe.StepUnknown)
	var ce *CallError
	switch {
	case j.r.flights.ctx.Err() != nil:
		step.Detail = classInterrupted
	case errors.As(err, &ce):
		step.Detail = ce.Class
	default:
		step.Detail = classBroken
	}
	step.ForwardedAt = j.sent
	end := ending{kind: endProblem, problem: &problemUnknown, out: outUnknown}
	if j.src.sync.Idempotent {
		end.problem = &problemTryAgain
	} else if held, ok := j.src.st.errorLog.speak(j.r.cfg.Now()); ok {
		j.r.log.Warn("outcome of a synchronous call is unknown: settle its key", "event", "sync.unknown", "source", j.src.name,
			"target", j.src.sync.Target, "class", step.Detail, "held_back", held)
	}
	return j.conclude(step, end)
}

// The classes of unknown outcomes that the call itself does not name.
const (
	classInterrupted = "interrupted"
	classBroken      = "answer_broken"
)

// released passes the answer of a target that says it did nothing, and frees
// the key.
func (j *job) released(resp *http.Response) ending {
	step := j.step(dedupe.StepRelease)
	step.Detail, step.ForwardedAt = http.StatusText(resp.StatusCode), j.sent
	end := ending{kind: endProblem, problem: &problemReach, out: outUnreachable}
	body, err := io.ReadAll(io.LimitReader(resp.Body, j.src.sync.MaxResponse+1))
	if err == nil && int64(len(body)) <= j.src.sync.MaxResponse {
		a := answer{status: resp.StatusCode, body: body}
		for _, f := range j.back(resp) {
			a = a.with(f.Name, f.Value)
		}
		end = ending{kind: endPassed, problem: &a, out: outReleased}
	}
	return j.conclude(step, end)
}

// back is the headers of an answer that pass, in order.
func (j *job) back(resp *http.Response) []event.Field {
	var out []event.Field
	for _, name := range j.src.sync.AnswerHeaders {
		if namedByConnection(resp.Header["Connection"], name) {
			continue
		}
		for _, v := range resp.Header[name] {
			if len(out) < maxFields {
				out = append(out, event.Field{Name: name, Value: v})
			}
		}
	}
	return out
}

// read reads an answer whole: into memory, or what is more than that to the
// ledger, chunk by chunk. What can't be kept is answered with a problem, which
// is kept in its place: the target has executed the request.
func (j *job) read(resp *http.Response) (*dedupe.KeyAnswer, error) {
	if isEventStream(resp.Header.Get("Content-Type")) {
		return stored(&problemStream), nil
	}
	a := &dedupe.KeyAnswer{Status: resp.StatusCode, Header: j.back(resp)}
	s := &spool{job: j, hash: newHash()}
	switch err := s.copy(resp.Body); {
	case errors.Is(err, errBodyTooLarge):
		return stored(&problemLarge), nil
	case err != nil:
		return nil, err
	}
	a.Length, a.Body = s.length, s.buf
	s.hash.Sum(a.Hash[:0])
	if s.chunks > 0 {
		a.Body = nil
	}
	return a, nil
}

// stored is a problem as the answer of a key.
func stored(p *answer) *dedupe.KeyAnswer {
	return &dedupe.KeyAnswer{Status: p.status, Header: []event.Field{{Name: "Content-Type", Value: typeProblem}},
		Length: int64(len(p.body)), Hash: event.HashOf(p.body), Body: p.body}
}
