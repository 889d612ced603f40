package forward

import (
	"strings"

	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/trace"
)

// attemptContext is the place of an attempt in its event's trace: a span of its
// own, below that of the request that brought the event. The delivery and the
// moment at which the attempt began name it, so that who sends it and who
// records it agree. False when the event has no trace.
func attemptContext(ev *event.Event, delivery string, startedAt int64) (ctx trace.Context, parent trace.SpanID, ok bool) {
	c, ok := trace.Parse(ev.Trace)
	if !ok {
		return c, parent, false
	}
	return c.ChildOf(delivery, startedAt), c.Span, true
}

// span records an attempt.
func (q *queue) span(ev *event.Event, d event.Delivery, a *event.Attempt) {
	if !q.spans.On() {
		return
	}
	ctx, parent, ok := attemptContext(ev, d.DeliveryID(), a.StartedAt.UnixNano())
	if !ok || !ctx.Sampled {
		return
	}
	s := &trace.Span{
		Name: "deliver " + a.Target, Kind: trace.Client, Context: ctx, Parent: parent,
		Start: a.StartedAt, End: a.StartedAt.Add(a.Duration), Attrs: make([]trace.Attr, 0, 14),
	}
	switch {
	case q.target.Pull:
		s.Text("onceward.lease", "pull")
	case q.target.Way.Socket != "":
		s.Text("http.request.method", q.build.method(ev))
		s.Text("server.address", q.target.Way.Socket)
	default:
		s.Text("http.request.method", q.build.method(ev))
		s.Text("server.address", q.target.URL.Hostname())
	}
	if a.Status != 0 {
		s.Num("http.response.status_code", int64(a.Status))
	}
	if a.Number > 1 {
		s.Num("http.request.resend_count", int64(a.Number-1))
	}
	if !a.Outcome.Success() {
		s.Text("error.type", string(a.Outcome))
		s.Error = string(a.Outcome)
	}
	s.Text("onceward.target", a.Target)
	s.Text("onceward.source", ev.Source)
	s.Text("onceward.event", ev.Ref.String())
	s.Text("onceward.delivery", d.DeliveryID())
	s.Num("onceward.attempt", int64(a.Number))
	s.Text("onceward.state", strings.ToLower(a.State.String()))
	s.Text("cloudevents.event_id", ev.ID)
	s.Text("cloudevents.event_type", ev.Type)
	q.spans.Record(s)
}
