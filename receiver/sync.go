package receiver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

// Sync makes a source synchronous: its requests go to one target while the
// caller waits, and the answer is the target's. Zero fields take the default
// named here. The source's Window is how long a key is remembered.
type Sync struct {
	Target     string
	RequireKey bool          // a request that takes part needs a key; else it passes once
	Wait       time.Duration // how long a repeat waits for the first's answer; 0: it gets 409
	Methods    []string      // that take part; POST and PATCH. Others pass
	ReleaseOn  []int         // statuses that say that nothing was executed; 425 and 429. Empty and not nil: none
	Idempotent bool          // the target executes a key once
	// MaxResponse is how much of an answer is held in memory, 1 MiB, and
	// MaxSpool how large one may be that is spooled to the ledger, 32 MiB.
	MaxResponse, MaxSpool int64
	// PassHeaders and AnswerHeaders add to the headers that pass to the target
	// and back.
	PassHeaders, AnswerHeaders []string
}

// The defaults of Sync.
const (
	DefaultMaxResponse = 1 << 20
	DefaultMaxSpool    = 32 << 20
)

// Keys is what the receiver needs of a ledger for synchronous routes.
type Keys interface {
	// Step applies steps durably; see dedupe.Writer.
	Step(ctx context.Context, steps ...*dedupe.KeyStep) error
	SyncKey(ctx context.Context, k dedupe.Key) (dedupe.SyncKey, error)
	SyncChunk(ctx context.Context, k *dedupe.SyncKey, chunk int) ([]byte, error)
}

// Outgoing is one request for a target.
type Outgoing struct {
	Method, Path, Query string // path and query are raw
	Header              []event.Field
	Body                []byte
	Source, Key, Trace  string // Key is "" for requests that take no part
	Attempt             uint32
	ReceivedAt          time.Time
}

// CallError is why there is no answer. Sent false promises that nothing of the
// request reached the target.
type CallError struct {
	Sent  bool
	Class string // of a closed set
}

// Error is the class.
func (e *CallError) Error() string { return e.Class }

// Outbound makes the calls of synchronous routes: one request on the wire
// each, or none. Its errors are *CallError; the body of an answer is under the
// target's time-out as well.
type Outbound interface {
	Call(ctx context.Context, target string, out *Outgoing) (*http.Response, error)
	// CallTimeout is how long a call may take, 0 when there is no such target.
	CallTimeout(target string) time.Duration
}

// leaseMargin is what a lease is longer than its call: the time to store the
// answer, on a slow disk too.
const leaseMargin = 15 * time.Second

// defaultReleaseOn are statuses with which a server says that it did nothing.
var defaultReleaseOn = []int{http.StatusTooEarly, http.StatusTooManyRequests}

// requestHeaders pass to the target of a synchronous route beside those of all
// sources; answerHeaders pass back. Neither holds a cookie or a header of one
// hop.
var (
	requestHeaders = []string{"Accept", "Accept-Language", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since",
		"If-Range", "Prefer", "Range"}
	answerHeaders = []string{"Accept-Ranges", "Allow", "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language",
		"Content-Location", "Content-Range", "Content-Type", "Date", "Deprecation", "Etag", "Expires", "Last-Modified", "Link", "Location",
		"Preference-Applied", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", "Retry-After", "Sunset", "Vary", "Warning",
		"X-Request-Id"}
)

// neverBack are headers of answers that belong to one connection, one caller
// or to the gateway, whatever a list says.
var neverBack = map[string]bool{
	"Set-Cookie": true, "Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Proxy-Authenticate": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Content-Length": true, "Idempotent-Replayed": true, "Onceward-Key-Expires": true,
}

func (c *compiled) compileSync() {
	if c.src.Sync == nil {
		return
	}
	s := *c.src.Sync
	if len(s.Methods) == 0 {
		s.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if s.ReleaseOn == nil {
		s.ReleaseOn = defaultReleaseOn
	}
	orDefault(&s.MaxResponse, DefaultMaxResponse)
	orDefault(&s.MaxSpool, DefaultMaxSpool)
	s.MaxSpool = max(s.MaxSpool, s.MaxResponse)
	back := slices.Clone(answerHeaders)
	for _, name := range s.AnswerHeaders {
		back = append(back, http.CanonicalHeaderKey(name))
	}
	back = slices.DeleteFunc(back, func(name string) bool { return neverBack[name] })
	slices.Sort(back)
	s.AnswerHeaders = slices.Compact(back)
	for _, name := range slices.Concat(requestHeaders, s.PassHeaders) {
		if name = http.CanonicalHeaderKey(name); !neverPass[name] && !slices.Contains(c.pass, name) && !c.credential(name) {
			c.pass = append(c.pass, name)
		}
	}
	slices.Sort(c.pass)
	for _, m := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
		if !contains(c.allowed, m) {
			c.allowed = append(c.allowed, m)
		}
	}
	c.allow = strings.Join(c.allowed, ", ")
	c.notAllowed = answerMethod.with("Allow", c.allow)
	c.sync = &s
}

// credential reports whether the row says that a header is one.
func (c *compiled) credential(name string) bool {
	return slices.ContainsFunc(c.row.CredentialHeaders, func(h string) bool { return http.CanonicalHeaderKey(h) == name })
}

// refuseEarly answers what no synchronous route can do, before the body is
// read.
func (c *call) refuseEarly() (outcome, bool) {
	suffix, ok := suffixOf(c.req.URL, c.src.path)
	c.suffix = suffix
	switch {
	case !ok:
		return c.refuse(reasonPath, "", &problemPath), true
	case upgrades(c.req):
		return c.refuse(reasonStream, "a protocol upgrade", &problemUpgrade), true
	case wantsStream(c.req):
		return c.refuse(reasonStream, "a stream of events", &problemStream), true
	}
	return 0, false
}

// decideSync acts on what verification found.
func (c *call) decideSync(res *verify.Result) outcome {
	switch {
	case res.Handshake != nil && res.Reason == verify.OK:
		return c.shakeHands(res)
	case res.Reason != verify.OK:
		return c.refuseResult(res, c.refusalOf(res))
	case res.Split || len(res.Events) > 1:
		return c.refuse(reasonBatch, "", &problemBatch)
	}
	c.src.st.secretUsed(res.Secret)
	c.echo = res.Echo
	// The body is in: from here on the answer takes what the target takes.
	rc := http.NewResponseController(c.w)
	_ = rc.SetReadDeadline(time.Time{}) // writers that have none need no lifting
	_ = rc.SetWriteDeadline(time.Now().Add(c.src.sync.Wait + c.r.cfg.Outbound.CallTimeout(c.src.sync.Target) + leaseMargin + writeTime))
	if !contains(c.src.sync.Methods, c.req.Method) {
		return c.passOn(outPassed)
	}
	id, bad := c.syncID(res)
	switch {
	case bad != nil:
		return c.refuse(reasonKey, "", bad)
	case id == "" && c.src.sync.RequireKey:
		return c.refuse(reasonNoID, "", &problemKeyMissing)
	case id == "":
		return c.passOn(outUndeduped)
	}
	return c.once(c.claimOf(res, id))
}

// once answers a request with a key: with the target's answer to the first
// request, with what stands in its way, or by making it the first.
func (c *call) once(claim *dedupe.KeyStep) outcome {
	ctx := c.req.Context()
	patience := newPatience(ctx, c.src.sync.Wait)
	defer patience.end()
	for {
		f, first := c.r.flights.begin(claim.Key, claim.Claim.Print)
		var end ending
		if first {
			end = c.lead(f, claim)
		} else if f.print != claim.Claim.Print {
			return c.conflict()
		} else {
			end = ending{kind: endBusy, done: f.done}
		}
		switch end.kind {
		case endBusy:
			if patience.wait(end.done) {
				continue
			}
			if ctx.Err() != nil {
				return outGone
			}
			c.r.send(c.w, c.req, &problemInFlight)
			return outBusy
		case endAgain:
			if ctx.Err() != nil {
				return outGone
			}
			continue
		}
		return c.tell(&end)
	}
}

// lead looks the key up, and claims it and has the work done if it is free. f
// is over when lead returns, or will be when the work is.
func (c *call) lead(f *flight, claim *dedupe.KeyStep) ending {
	handedOn := false
	defer func() {
		if !handedOn {
			c.r.flights.over(f)
		}
	}()
	ctx, cancel := context.WithTimeout(c.req.Context(), c.src.admission)
	defer cancel()
	rec, err := c.r.cfg.Keys.SyncKey(ctx, claim.Key)
	if err == nil && (rec.State == dedupe.KeyAnswered || rec.State == dedupe.KeySettled || rec.State == dedupe.KeyInFlight) {
		return standing(&rec, claim)
	}
	if err != nil && !errors.Is(err, dedupe.ErrNotFound) {
		return ending{kind: endFailed, err: err}
	}
	claim.Claim.Lease = c.r.cfg.Outbound.CallTimeout(c.src.sync.Target) + leaseMargin
	if err := c.r.cfg.Keys.Step(ctx, claim); err != nil {
		return ending{kind: endFailed, err: err}
	}
	switch claim.Verdict {
	case dedupe.KeyClaimed:
		handedOn = true
		return c.work(f, claim)
	case dedupe.KeyStuck:
		return ending{kind: endProblem, problem: &problemUnknown, out: outUnknown}
	}
	return standing(&claim.Record, claim)
}

// standing is what a record that stands in the way means for the request.
func standing(rec *dedupe.SyncKey, claim *dedupe.KeyStep) ending {
	switch {
	case rec.Print != claim.Claim.Print:
		return ending{kind: endProblem, problem: &problemReused, out: outConflict}
	case rec.State == dedupe.KeyInFlight:
		return ending{kind: endBusy}
	}
	return ending{kind: endStored, rec: rec, replayed: true}
}

// work has the claimed request forwarded and waits for its end, or until the
// caller leaves or the lease ends, because the ledger is away and does not take
// the answer: the work goes on without it.
func (c *call) work(f *flight, claim *dedupe.KeyStep) ending {
	job := &job{r: c.r, src: c.src, flight: f, claim: claim, held: c.held, out: &Outgoing{
		Method: c.req.Method, Path: c.suffix, Query: c.req.URL.RawQuery, Header: c.passing(), Body: c.body, Source: c.src.name,
		Key: claim.Record.Downstream, Trace: c.trace().ctx.String(), Attempt: claim.Record.Claims(), ReceivedAt: c.start,
	}}
	held := c.held
	c.held = 0 // the job gives it back
	if !c.r.flights.start(job.run) {
		c.held = held
		end := job.conclude(job.step(dedupe.StepRelease), ending{kind: endProblem, problem: &problemReach, out: outUnreachable})
		c.r.flights.over(f)
		return end
	}
	lease := time.NewTimer(claim.Claim.Lease)
	defer lease.Stop()
	select {
	case <-f.done:
		return f.end
	case <-lease.C:
		return ending{kind: endFailed, err: errNotStored}
	case <-c.req.Context().Done():
		return ending{kind: endAgain}
	}
}

// errNotStored says that the answer of a call still waits for the ledger.
var errNotStored = fmt.Errorf("answer of a call is not stored yet: %w", dedupe.ErrAway)

// tell answers with an ending.
func (c *call) tell(end *ending) outcome {
	switch end.kind {
	case endStored:
		return c.giveStored(end.rec, end.replayed)
	case endPassed:
		c.r.send(c.w, c.req, end.problem)
		return end.out
	case endFailed:
		return c.notAdmitted(end.err)
	}
	if end.out == outConflict {
		return c.conflict()
	}
	c.r.send(c.w, c.req, end.problem)
	return end.out
}

func (c *call) conflict() outcome {
	c.src.st.conflict.Inc()
	c.r.send(c.w, c.req, &problemReused)
	return outConflict
}

// patience is how long a repeat waits for the first's answer.
type patience struct {
	ctx   context.Context
	timer *time.Timer // nil: not at all
}

func newPatience(ctx context.Context, d time.Duration) *patience {
	p := &patience{ctx: ctx}
	if d > 0 {
		p.timer = time.NewTimer(d)
	}
	return p
}

func (p *patience) end() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// lookEvery is how often a key that is in flight in another process is looked
// at.
const lookEvery = 100 * time.Millisecond

// wait waits until done is closed, a moment when that is nil. False when
// patience or the caller has gone.
func (p *patience) wait(done <-chan struct{}) bool {
	if p.timer == nil {
		return false
	}
	var look <-chan time.Time
	if done == nil {
		t := time.NewTimer(lookEvery)
		defer t.Stop()
		look = t.C
	}
	select {
	case <-done:
	case <-look:
	case <-p.timer.C:
		return false
	case <-p.ctx.Done():
		return false
	}
	return true
}
