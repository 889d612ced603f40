package receiver

import (
	"context"
	"errors"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

// testHeader marks an event as a test. It is believed only from a peer on
// loopback that is no proxy, and changes nothing but how the event is shown.
const testHeader = "Onceward-Test"

// admit hands the events of an authentic request to the ledger, all or none,
// and answers when they are durable.
func (c *call) admit(res *verify.Result) outcome {
	if len(res.Events) == 0 {
		return c.admitNothing()
	}
	if !res.Split && res.Events[0].ID == "" && c.src.noID == verify.NoIDRefuse {
		return c.refuse(reasonNoID, "", &answerNoID)
	}
	in := c.incoming(res)
	// A sender that hangs up meanwhile, where that is noticed, changes nothing.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.req.Context()), c.src.admission)
	err := c.r.cfg.Admit.Accept(ctx, in)
	cancel()
	if err == nil && len(in.Outcomes) != len(in.Items) {
		err = errNoOutcome
	}
	if err != nil {
		return c.notAdmitted(err)
	}
	return c.admitted(in)
}

var errNoOutcome = errors.New("ledger gave no outcome")

// admitNothing answers an authentic batch without elements.
func (c *call) admitNothing() outcome {
	c.answerBatch(nil, false)
	return outEmpty
}

// incoming is the request as the ledger takes it. The body is kept as it is,
// and events are slices of it.
func (c *call) incoming(res *verify.Result) *dedupe.Request {
	one := &struct {
		req   dedupe.Request
		items [1]dedupe.Item
	}{}
	in := &one.req
	in.Body, in.Retention, in.Answer, in.Batch = c.body, c.src.src.Retention, c.src.stored, res.Split
	in.Items = one.items[:]
	if len(res.Events) > 1 {
		in.Items = make([]dedupe.Item, len(res.Events))
	}
	base := c.baseEvent(res)
	for i := range res.Events {
		c.fillItem(&in.Items[i], &base, res, &res.Events[i])
	}
	return in
}

// baseEvent is what all events of a request have in common.
func (c *call) baseEvent(res *verify.Result) event.Event {
	ev := event.Event{
		Source: c.src.name, Provider: c.src.provider, Secret: res.Secret, ReceivedAt: c.start,
		Method: c.req.Method, Query: c.req.URL.RawQuery, Header: c.passing(), Answer: c.src.stored,
	}
	ev.Trace = c.trace().ctx.String()
	if c.src.keyed {
		ev.Caller = res.Caller
	}
	if c.src.keep {
		ev.Flags |= event.FlagKeepBatch
	}
	if c.req.Header[testHeader] != nil && c.peerIsLocal() {
		ev.Flags |= event.FlagTest
	}
	return ev
}

func (c *call) fillItem(it *dedupe.Item, base *event.Event, res *verify.Result, got *verify.Event) {
	src := c.src
	it.Event = *base
	ev := &it.Event
	ev.Body = event.Slice{Offset: int64(got.Offset), Length: int64(got.Length)}
	ev.BodyHash = event.HashOf(c.body[got.Offset : got.Offset+got.Length])
	ev.Type = got.Type
	it.Conflict, it.Keys, it.Window = src.conflict, src.src.Keys, src.window
	if got.ID != "" {
		c.claimID(it, got.ID)
	} else {
		c.claimWithoutID(it, res.Split)
	}
	c.guard(it, res, got.ID != "")
	c.route(ev, c.body[got.Offset:got.Offset+got.Length])
}

// route decides where the event goes, once everything else of it is known.
func (c *call) route(ev *event.Event, body []byte) {
	src := c.src
	if !oneGeneration {
		for _, now := range c.r.gen.Load().sources {
			if now.name == src.name {
				src = now
			}
		}
	}
	to := src.src.Select(ev, body)
	ev.Targets = to.Targets
	ev.Flags |= to.Flags
	ev.Orders = c.src.src.orders(ev, c.req.Header, body)
	var left int
	if ev.Index, left = c.src.src.Index.of(ev, c.req.Header, body); left > 0 {
		c.src.st.leftOut.Add(float64(left))
	}
	if to.Fault == nil {
		return
	}
	c.src.st.filterErrors.Inc()
	if held, ok := c.src.st.filterLog.speak(c.start); ok {
		c.r.log.Warn("condition of a route has no result, which is no match", "event", "ingest.filter_error", "source", c.src.name,
			"type", ev.Type, "event_id", ev.ID, "targets", len(ev.Targets), "error", to.Fault, "held_back", held)
	}
}

// claimID keys the event by the provider's ID, byte for byte.
func (c *call) claimID(it *dedupe.Item, id string) {
	framed, hashed := dedupe.FrameID(id)
	it.RawID, it.Event.ID = id, framed
	if hashed {
		it.Event.Flags |= event.FlagIDHashed
	}
	c.claim(it, dedupe.KindID, id)
	if it.Conflict == dedupe.ConflictDeliver {
		it.Distinct = dedupe.DistinctKeys(it.Event.Caller, id, it.Event.BodyHash, append([]string{c.src.name}, c.src.src.Former...)...)
	}
}

func (c *call) claim(it *dedupe.Item, kind dedupe.Kind, id string) {
	it.HasClaim = true
	it.Claim = dedupe.KeyOf(kind, c.src.name, it.Event.Caller, id)
	for _, name := range c.src.src.Former {
		it.Former = append(it.Former, dedupe.KeyOf(kind, name, it.Event.Caller, id))
	}
}

// claimWithoutID keys the event by body and type, or leaves it without a
// claim. In a batch a missing ID is never a reason to refuse the others; in
// doubt it is delivered twice rather than not at all.
func (c *call) claimWithoutID(it *dedupe.Item, split bool) {
	ev := &it.Event
	ev.Flags |= event.FlagNoID
	if c.src.noID != verify.NoIDBodyHash {
		ev.Flags |= event.FlagUndeduped
		return
	}
	it.Window = c.src.bodyWindow
	// The hash has a fixed length: no two pairs of body and type are the same.
	both := string(ev.BodyHash[:]) + ev.Type
	c.claim(it, dedupe.KindBody, both)
	if it.Keys == nil && ev.Type != "" {
		// The default key names the body alone. Two types with the same body
		// are two events and must not look like one to the target.
		ev.Key = ev.Source + ":h:" + event.HashOf([]byte(both)).String()
	}
}

// guard sets the replay guard. The signed bytes of a split batch are those of
// all its elements, and its IDs are among them.
func (c *call) guard(it *dedupe.Item, res *verify.Result, hasID bool) {
	policy := c.src.guard
	if !res.HasGuard || res.Split || policy == dedupe.GuardOff || policy == dedupe.GuardFlag && !hasID {
		return
	}
	it.Guard = policy
	it.GuardKey = dedupe.KeyOf(dedupe.KindGuard, c.src.name, it.Event.Caller, string(res.Guard[:]))
}

// notAdmitted answers when the outcome is unknown or nothing was written.
// Sending the same request again is safe in every case.
func (c *call) notAdmitted(err error) outcome {
	switch {
	case errors.Is(err, dedupe.ErrTooLarge):
		return c.refuse(string(verify.ReasonBatchTooLarge), "the ledger takes no transaction of that size", &answerElements)
	case errors.Is(err, dedupe.ErrAway):
		c.complain("ledger is away", err)
		return c.busy(outAway, retrySoon)
	case errors.Is(err, dedupe.ErrDiskLow):
		c.complain("disk is low, intake is refused", err)
		return c.busy(outOverloaded, retryLater)
	case errors.Is(err, dedupe.ErrOverloaded):
		c.complain("ledger is overloaded", err)
		return c.busy(outOverloaded, retrySoon)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		c.complain("admission took longer than the provider waits", err)
		return c.busy(outOverloaded, retrySoon)
	}
	c.complain("ledger did not accept", err)
	return c.busy(outError, retryLater)
}

// admitted counts and answers durable outcomes.
func (c *call) admitted(in *dedupe.Request) outcome {
	if c.r.cfg.Spans.On() {
		c.first = firstEvent{in.Outcomes[0].Ref, in.Outcomes[0].ID, in.Items[0].Event.Type, len(in.Items)}
	}
	var fresh, hits, conflicts, rejected int
	for i := range in.Outcomes {
		out := &in.Outcomes[i]
		switch out.Verdict {
		case dedupe.New:
			fresh++
			if out.Flags.Has(event.FlagConflict) {
				conflicts++
			}
		case dedupe.Differs:
			conflicts++
		case dedupe.Rejected:
			conflicts++
			rejected++
		default:
			hits++
		}
	}
	c.count(fresh, hits, conflicts)
	if conflicts > 0 {
		c.logConflict(in)
	}
	switch {
	case rejected > 0:
		c.r.send(c.w, c.req, &answerConflict)
	case in.Batch:
		c.answerBatch(in.Outcomes, fresh == 0)
	default:
		c.answerOne(&in.Outcomes[0], fresh == 0)
	}
	c.logAccepted(in)
	switch {
	case conflicts > 0:
		return outConflict
	case fresh > 0:
		return outAccepted
	}
	return outRepeat
}

func (c *call) count(fresh, hits, conflicts int) {
	st := c.src.st
	if fresh > 0 {
		st.lastNew.Store(c.start.UnixNano())
		st.last.Set(float64(c.start.UnixMilli()) / 1000)
	}
	if hits > 0 {
		st.hits.Add(float64(hits))
	}
	if conflicts > 0 {
		st.conflict.Add(float64(conflicts))
	}
}

func (c *call) logConflict(in *dedupe.Request) {
	held, ok := c.src.st.conflictLog.speak(c.start)
	if !ok {
		return
	}
	for i := range in.Outcomes {
		out := &in.Outcomes[i]
		if out.Verdict == dedupe.Differs || out.Verdict == dedupe.Rejected || out.Flags.Has(event.FlagConflict) {
			c.r.log.Warn("event id came again with another body", "event", "ingest.conflict", "source", c.src.name,
				"event_id", out.ID, "ref", out.Ref, "verdict", out.Verdict.String(),
				"body_sha256", in.Items[i].Event.BodyHash, "held_back", held)
			return
		}
	}
}

func (c *call) logAccepted(in *dedupe.Request) {
	if !c.r.debugs(c.req.Context()) {
		return
	}
	for i := range in.Outcomes {
		out, ev := &in.Outcomes[i], &in.Items[i].Event
		c.r.log.Debug("event admitted", "event", "ingest.admitted", "source", c.src.name, "ref", out.Ref,
			"event_id", out.ID, "type", ev.Type, "verdict", out.Verdict.String(), "body_bytes", ev.Body.Length)
	}
}
