package receiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/onceward/onceward/verify"
)

// call is one request of a source on its way through. It lives in one
// goroutine and does not outlive the request.
type call struct {
	r      *Receiver
	gen    *generation
	src    *compiled
	w      http.ResponseWriter
	req    *http.Request
	start  time.Time
	body   []byte            // once read
	whole  bool              // body was read to its end
	held   int64             // what it took from the budget
	suffix string            // of a synchronous route: the raw path after the source's own
	echo   map[string]string // headers that the answer to accepted events carries

	traced traced     // of its events
	first  firstEvent // of those that were admitted
}

// serveSource handles a request of a source and counts what became of it.
func (r *Receiver) serveSource(w http.ResponseWriter, req *http.Request, gen *generation, src *compiled) {
	c := &call{r: r, gen: gen, src: src, w: w, req: req, start: r.cfg.Now()}
	out := outError
	if r.cfg.Spans.On() {
		c.w = &statusWriter{ResponseWriter: w}
	}
	r.m.inFlight.Inc()
	defer func() {
		if v := recover(); v != nil {
			c.panicked(v)
		}
		r.m.inFlight.Dec()
		src.st.counts[out].inc()
		end := r.cfg.Now()
		src.st.duration[out].Observe(end.Sub(c.start).Seconds())
		c.span(out, end)
	}()
	out = c.receive()
}

// panicked answers 500 and tells the operator where it happened. What was
// thrown is shown only when the runtime threw it: anything else might quote
// the request.
func (c *call) panicked(v any) {
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return
	}
	what := fmt.Sprintf("%T", v)
	if err, ok := v.(runtime.Error); ok {
		what = err.Error()
	}
	c.r.m.panics.Inc()
	c.r.log.Error("request failed inside the gateway", "event", "ingest.panic", "source", c.src.name,
		"panic", what, "stack", string(debug.Stack()))
	c.r.send(c.w, c.req, c.shaped(&answerFault))
}

// receive takes the steps in the order that costs an unproven sender the most
// and us the least.
func (c *call) receive() outcome {
	src := c.src
	if panics && c.req.Header.Get("Onceward-Panic") != "" {
		panic(c.req)
	}
	if !contains(src.allowed, c.req.Method) {
		return c.refuse(reasonMethod, "", &src.notAllowed)
	}
	if src.verifier == nil {
		c.offline(src.offline)
		return c.busy(outOffline, retryOffline)
	}
	if !src.takesEncoding(c.req.Header["Content-Encoding"]) {
		return c.refuse(reasonEncoding, "the provider is not known to send encoded bodies", &answerEncoding)
	}
	if src.sync != nil {
		if out, done := c.refuseEarly(); done {
			return out
		}
	}
	body, held, err := c.r.readBody(c.req, src.limit)
	c.held = held
	defer func() { c.r.budget.give(c.held) }()
	c.body = body
	if err != nil {
		return c.bodyFault(err)
	}
	c.whole = true
	src.st.bytes.Observe(float64(len(body)))
	res, ok := c.verify()
	if !ok {
		c.complain("too many requests wait for keys", errBusy)
		return c.busy(outOverloaded, retrySoon)
	}
	if src.sync != nil {
		return c.decideSync(&res)
	}
	return c.decide(&res)
}

// takesEncoding reports whether the row names the body's encoding. No list of
// encodings is taken: no provider stacks them.
func (c *compiled) takesEncoding(values []string) bool {
	if len(values) == 0 || !edgeLimits {
		return true
	}
	enc := strings.ToLower(strings.TrimSpace(values[0]))
	return len(values) == 1 && (enc == "" || enc == "identity" || contains(c.encodings, enc))
}

func (c *call) bodyFault(err error) outcome {
	switch {
	case errors.Is(err, errBodyTooLarge):
		return c.refuse(reasonBodyTooLarge, fmt.Sprintf("the limit is %d bytes", c.src.limit), &answerTooLarge)
	case errors.Is(err, errBodyTimeout):
		return c.refuse(reasonBodyTimeout, "", &answerSlow)
	case errors.Is(err, errBusy):
		c.complain("too many body bytes in flight", err)
		c.readRest()
		c.w.Header()["Connection"] = headerClose
		return c.busy(outOverloaded, retrySoon)
	}
	return c.refuse(reasonBodyBroken, "", &answerBroken)
}

// decide acts on what verification found.
func (c *call) decide(res *verify.Result) outcome {
	src := c.src
	takes := contains(src.methods, c.req.Method)
	switch {
	case res.Handshake != nil && res.Reason == verify.OK:
		return c.shakeHands(res)
	case !takes && res.Reason != verify.ReasonHandshakeFailed:
		return c.refuse(reasonMethod, "not a handshake", &src.notAllowed)
	case res.Reason != verify.OK:
		return c.refuseResult(res, c.refusalOf(res))
	case len(res.Events) > src.elements:
		res.Reason = verify.ReasonBatchTooLarge
		return c.refuseResult(res, &answerElements)
	}
	src.st.secretUsed(res.Secret)
	c.echo = res.Echo
	return c.admit(res)
}

// refusalOf picks the answer to a result that is not OK. Only a sender that
// proved to hold the secret learns more than that it was refused.
func (c *call) refusalOf(res *verify.Result) *answer {
	authentic := res.Secret != "" || c.src.unsigned
	switch {
	case res.Reason == verify.ReasonBatchTooLarge && authentic:
		return &answerElements
	case res.Reason == verify.ReasonBodyMalformed && authentic:
		return &answerMalformed
	case res.Refusal != nil:
		a := newAnswer(*res.Refusal, http.StatusUnauthorized)
		return &a
	}
	return &c.src.refusal
}

// serveUnknown answers requests for no source of ours.
func (r *Receiver) serveUnknown(w http.ResponseWriter, req *http.Request, gen *generation) {
	r.unknown.counts[outRefused].inc()
	r.noteUnknown(req, gen)
	r.send(w, req, &answerUnknown)
}

func (r *Receiver) serveLive(w http.ResponseWriter, req *http.Request) { r.send(w, req, &answerLive) }

func (r *Receiver) serveReady(w http.ResponseWriter, req *http.Request) {
	if r.draining.Load() || r.cfg.Ready() != nil {
		r.send(w, req, &answerNotReady)
		return
	}
	r.send(w, req, &answerLive)
}

func (r *Receiver) serveHealthMethod(w http.ResponseWriter, req *http.Request) {
	a := answerMethod.with("Allow", "GET, HEAD")
	r.send(w, req, &a)
}

// complain logs what keeps the source from being served, once in a while.
func (c *call) complain(what string, err error) {
	if held, ok := c.src.st.errorLog.speak(c.start); ok {
		c.r.log.Error(what, "event", "ingest.unavailable", "source", c.src.name, "error", err, "held_back", held)
	}
}

// offline says that requests of a source without its secret are turned away.
func (c *call) offline(why string) {
	if held, ok := c.src.st.errorLog.speak(c.start); ok {
		c.r.log.Error("source is offline, requests are answered 503", "event", "source.offline",
			"source", c.src.name, "reason", why, "held_back", held)
	}
}

func (r *Receiver) debugs(ctx context.Context) bool { return r.log.Enabled(ctx, slog.LevelDebug) }
