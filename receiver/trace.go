package receiver

import (
	"net/http"
	"strconv"
	"time"

	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/trace"
)

const headerTrace = "Traceparent"

// traced is a request's place in a trace.
type traced struct {
	ctx    trace.Context // of the request itself; its events carry it; zero before it is needed
	parent trace.SpanID  // of a caller whose trace goes on
	link   trace.Context // the caller's, where it doesn't
}

// trace places an authentic request. The caller's trace goes on only where the
// source trusts it: IDs and sampling flag are chosen by whoever sends. Elsewhere
// it is a link of a new one.
func (c *call) trace() *traced {
	if !c.traced.ctx.IsZero() {
		return &c.traced
	}
	return c.place(c.src.src.TrustTrace)
}

func (c *call) place(trust bool) *traced {
	theirs, ok := trace.Context{}, false
	if values := c.req.Header[headerTrace]; len(values) == 1 {
		theirs, ok = trace.Parse(values[0])
	}
	switch {
	case ok && trust:
		c.traced.ctx, c.traced.parent = theirs.Child(), theirs.Span
	case ok:
		c.traced.ctx, c.traced.link = c.r.cfg.Spans.Root(), theirs
	default:
		c.traced.ctx = c.r.cfg.Spans.Root()
	}
	return &c.traced
}

// span records the request. One that was not admitted is placed on its own:
// nobody has proved to be the one who is trusted.
func (c *call) span(out outcome, end time.Time) {
	if !c.r.cfg.Spans.On() {
		return
	}
	tr := &c.traced
	if tr.ctx.IsZero() {
		tr = c.place(false)
	}
	if !tr.ctx.Sampled {
		return
	}
	method := c.req.Method
	if !contains(c.src.allowed, method) {
		method = "_OTHER"
	}
	s := &trace.Span{
		Name: method + " " + c.src.path, Kind: trace.Server, Context: tr.ctx, Parent: tr.parent, Link: tr.link,
		Start: c.start, End: end, Attrs: make([]trace.Attr, 0, 10),
	}
	s.Text("http.request.method", method)
	s.Text("http.route", c.src.path)
	s.Text("onceward.source", c.src.name)
	s.Text("onceward.provider", c.src.provider)
	s.Text("onceward.outcome", outcomeNames[out])
	s.Num("http.request.body.size", int64(len(c.body)))
	if c.first.ref != (event.Ref{}) {
		s.Text("onceward.event", c.first.ref.String())
		s.Text("cloudevents.event_id", c.first.id)
		s.Text("cloudevents.event_type", c.first.typ)
		s.Num("onceward.events", int64(c.first.of))
	}
	if w, ok := c.w.(*statusWriter); ok && w.status != 0 {
		s.Num("http.response.status_code", int64(w.status))
		if w.status >= http.StatusInternalServerError {
			s.Text("error.type", strconv.Itoa(w.status))
			s.Error = outcomeNames[out]
		}
	}
	c.r.cfg.Spans.Record(s)
}

// firstEvent is what a span says of a request's events.
type firstEvent struct {
	ref     event.Ref
	id, typ string
	of      int
}

// statusWriter remembers the status of an answer. It stands in the way only
// while requests are recorded.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets deadlines be set through it.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
