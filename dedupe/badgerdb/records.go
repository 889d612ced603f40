package badgerdb

import (
	"cmp"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// indexedFlag stands beside the flags of an event that has indexed fields.
const indexedFlag = 1 << 16

// relatedFlag stands there when another event is named, in a record with packed
// texts; in one without, it always is.
const relatedFlag = 1 << 17

func encodeEvent(e *enc, batch uint64, ev *event.Event) {
	e.known = known{source: ev.Source}
	e.uint(batch)
	e.str(ev.Source)
	e.text(ev.Provider)
	e.text(ev.ID)
	e.known.id = ev.ID
	e.text(ev.Type)
	e.text(ev.Caller)
	e.text(ev.Secret)
	e.text(ev.Key)
	e.time(ev.ReceivedAt)
	e.text(ev.Method)
	e.text(ev.Path)
	e.text(ev.Query)
	e.uint(uint64(len(ev.Header)))
	for _, f := range ev.Header {
		e.text(f.Name)
		e.text(f.Value)
	}
	e.raw(ev.BodyHash[:])
	e.near(ev.Body.Request, ev.Ref)
	e.uint(uint64(ev.Body.Offset))
	e.uint(uint64(ev.Body.Length))
	e.uint(uint64(len(ev.Targets)))
	for _, t := range ev.Targets {
		e.text(t)
	}
	e.uint(uint64(ev.Answer.Status))
	e.text(ev.Answer.ContentType)
	e.text(string(ev.Answer.Body))
	e.text(ev.Trace)
	flags := uint64(ev.Flags)
	if len(ev.Index) > 0 {
		flags |= indexedFlag
	}
	if !ev.Related.IsZero() {
		flags |= relatedFlag
	}
	e.uint(flags)
	if flags&relatedFlag != 0 {
		e.raw(ev.Related[:])
	}
	if len(ev.Index) > 0 {
		e.uint(uint64(len(ev.Index)))
		for _, f := range ev.Index {
			e.text(f.Name)
			e.text(f.Value)
		}
	}
	for _, o := range ev.Orders { // nothing for an event that is ordered at no target
		e.order(o)
	}
}

// farRef stands before a ref that is not near.
const farRef = 1 << event.CounterBits

// near writes a ref that is another's, or of the same millisecond and before it, as
// the distance.
func (e *enc) near(r, of event.Ref) {
	if r.Milli() == of.Milli() && r.Writer() == of.Writer() && r.Counter() <= of.Counter() {
		e.uint(uint64(of.Counter() - r.Counter()))
		return
	}
	e.uint(farRef)
	e.raw(r[:])
}

func (d *dec) near(of event.Ref) (r event.Ref) {
	if !d.texts {
		d.raw(r[:])
		return r
	}
	switch n := d.uint(); {
	case n == farRef:
		d.raw(r[:])
	case n <= uint64(of.Counter()):
		r = event.NewRef(of.Milli(), of.Counter()-uint32(n), of.Writer())
	default:
		d.fail()
	}
	return r
}

// eventHead is what stands at the head of an event's record: all that a filter
// asks of it but the indexed fields.
func (d *dec) eventHead(ev *event.Event) (batch uint64) {
	batch = d.uint()
	ev.Source = d.str()
	d.known.source = ev.Source
	ev.Provider, ev.ID = d.text(), d.text()
	d.known.id = ev.ID
	ev.Type, ev.Caller, ev.Secret, ev.Key = d.text(), d.text(), d.text(), d.text()
	ev.ReceivedAt = d.time()
	return batch
}

// decodeEventHead is the head of an event whose record is whole.
func decodeEventHead(key, val []byte) (ev event.Event, err error) {
	d, err := decoder(key, val)
	if err != nil {
		return ev, err
	}
	d.eventHead(&ev)
	if d.bad {
		return ev, damaged(key, "payload does not decode")
	}
	return ev, nil
}

func decodeEvent(key, val []byte, ref event.Ref) (ev event.Event, batch uint64, err error) {
	d, err := decoder(key, val)
	if err != nil {
		return ev, 0, err
	}
	ev.Ref = ref
	batch = d.eventHead(&ev)
	ev.Method, ev.Path, ev.Query = d.text(), d.text(), d.text()
	ev.Header = d.fields()
	d.raw(ev.BodyHash[:])
	ev.Body.Request = d.near(ref)
	ev.Body.Offset, ev.Body.Length = int64(d.uint()), int64(d.uint())
	if n := d.count(); n > 0 {
		ev.Targets = make([]string, n)
		for i := range ev.Targets {
			ev.Targets[i] = d.text()
		}
	}
	ev.Answer = event.Answer{Status: int(d.uint()), ContentType: d.text(), Body: d.textBytes()}
	ev.Trace = d.text()
	flags := d.uint()
	ev.Flags = event.Flags(flags)
	if !d.texts || flags&relatedFlag != 0 {
		d.raw(ev.Related[:])
	}
	if flags&indexedFlag != 0 {
		ev.Index = d.fields()
	}
	if n := len(ev.Targets); n > 0 && len(d.b) > 0 {
		ev.Orders = make([]event.Order, n)
		for i := range ev.Orders {
			ev.Orders[i] = d.order()
		}
	}
	return ev, batch, d.end(key)
}

func (d *dec) fields() []event.Field {
	n := d.count()
	if n == 0 {
		return nil
	}
	out := make([]event.Field, n)
	for i := range out {
		out[i] = event.Field{Name: d.text(), Value: d.text()}
	}
	return out
}

func encodeState(e *enc, s *event.Delivery) {
	e.uint(uint64(s.State))
	e.uint(uint64(s.Generation))
	e.uint(uint64(s.Attempts))
	e.bool(s.NewKey)
	e.time(s.DueAt)
	e.time(s.OpenedAt)
	e.time(s.UpdatedAt)
	e.uint(uint64(s.LastStatus))
	e.str(s.LastError)
}

func decodeState(key, val []byte, ref event.Ref, target string) (event.Delivery, error) {
	payload, err := unseal(key, val)
	if err != nil {
		return event.Delivery{}, err
	}
	d := &dec{b: payload}
	out := event.Delivery{Event: ref, Target: target, State: event.State(d.uint()), Generation: uint16(d.uint()),
		Attempts: uint32(d.uint()), NewKey: d.bool(), DueAt: d.time(), OpenedAt: d.time(), UpdatedAt: d.time(),
		LastStatus: int(d.uint()), LastError: d.str()}
	return out, d.end(key)
}

// recorded is an attempt, its place in the order of recording, and when that
// was.
type recorded struct {
	event.Attempt
	batch uint64
	n     uint16    // in the batch
	at    time.Time // ledger time
}

// before orders attempts as they were recorded.
func (r *recorded) before(o *recorded) int {
	return cmp.Or(cmp.Compare(r.batch, o.batch), cmp.Compare(r.n, o.n))
}

func encodeAttempt(e *enc, a *recorded) {
	e.uint(a.batch)
	e.uint(uint64(a.n))
	e.uint(uint64(a.Number))
	e.time(a.StartedAt)
	e.int(int64(a.Duration))
	e.int(int64(a.at.Sub(a.StartedAt)))
	e.uint(uint64(a.Status))
	e.text(string(a.Outcome))
	e.text(a.Error)
	e.text(string(a.Response))
	e.uint(uint64(a.State))
	e.int(int64(a.RetryIn))
	e.phases(a.Late, &a.Phases)
}

func decodeAttempt(key, val []byte) (a recorded, err error) {
	d, err := decoder(key, val)
	if err != nil {
		return a, err
	}
	ref, target, gen, ok := parseAttemptKey(key)
	if !ok {
		return a, damaged(key, "malformed key")
	}
	a = recorded{batch: d.uint(), n: uint16(d.uint())}
	a.Attempt = event.Attempt{Event: ref, Target: target, Generation: gen, Number: uint32(d.uint()), StartedAt: d.time(),
		Duration: time.Duration(d.int())}
	a.at = a.StartedAt.Add(time.Duration(d.int()))
	a.Status, a.Outcome, a.Error = int(d.uint()), event.Outcome(d.text()), d.text()
	a.Response, a.State, a.RetryIn = d.textBytes(), event.State(d.uint()), time.Duration(d.int())
	a.Late, a.Phases = d.phases()
	return a, d.end(key)
}

// phases is one byte of flags, the first of them late, and the phases that
// there were in microseconds.
func (e *enc) phases(late bool, p *event.Phases) {
	at := len(e.b)
	e.b = append(e.b, 0)
	if late {
		e.b[at] = 1
	}
	for i, d := range [...]time.Duration{p.DNS, p.Connect, p.TLS, p.FirstByte} {
		if us := d.Microseconds(); us > 0 {
			e.b[at] |= 2 << i
			e.uint(uint64(us))
		}
	}
}

func (d *dec) phases() (late bool, p event.Phases) {
	if len(d.b) == 0 {
		d.fail()
		return false, p
	}
	flags := d.b[0]
	d.b = d.b[1:]
	if flags >= 2<<4 {
		d.fail()
		return false, p
	}
	for i, to := range [...]*time.Duration{&p.DNS, &p.Connect, &p.TLS, &p.FirstByte} {
		if flags&(2<<i) != 0 {
			*to = time.Duration(d.uint()) * time.Microsecond
		}
	}
	return flags&1 != 0, p
}

// delivery is the delivery that its first attempt closed.
func (r *recorded) delivery() event.Delivery {
	d := firstDelivery(r.Event, r.Target)
	d.State, d.DueAt, d.UpdatedAt, d.Attempts = r.State, time.Time{}, r.at, 1
	if d.LastStatus = r.Status; !r.Outcome.Success() {
		d.LastError = string(r.Outcome)
	}
	return d
}

func sealClaim(key []byte, c *dedupe.Claim) []byte {
	e := newEnc(80)
	e.raw(c.Ref[:])
	e.raw(c.BodyHash[:])
	e.int(c.Window.Milliseconds())
	e.int(c.Expires.UnixMilli())
	return e.seal(key, 0)
}

func decodeClaim(key, val []byte) (c dedupe.Claim, err error) {
	payload, err := unseal(key, val)
	if err != nil {
		return c, err
	}
	copy(c.Key[:], key[1+4:])
	d := &dec{b: payload}
	d.raw(c.Ref[:])
	d.raw(c.BodyHash[:])
	c.Window = time.Duration(d.int()) * time.Millisecond
	c.Expires = time.UnixMilli(d.int())
	return c, d.end(key)
}

// tally is what is counted of an event, and the targets it was given after
// admission.
type tally struct {
	event.Tally
	extra []string
}

func (t *tally) seal(key []byte) []byte {
	e := newEnc(24)
	e.uint(t.Repeats)
	e.uint(t.Conflicts)
	e.time(t.LastAt)
	e.uint(uint64(len(t.extra)))
	for _, name := range t.extra {
		e.str(name)
	}
	return e.seal(key, 0)
}

func decodeTally(key, val []byte) (t tally, err error) {
	payload, err := unseal(key, val)
	if err != nil {
		return t, err
	}
	d := &dec{b: payload}
	t.Tally = event.Tally{Repeats: d.uint(), Conflicts: d.uint(), LastAt: d.time()}
	for range d.count() {
		t.extra = append(t.extra, d.str())
	}
	return t, d.end(key)
}

// carried says where a carried event and its body stand.
type carried struct {
	class  uint8
	eventT uint32 // 0: at home
	bodyT  uint32 // 0: at home
}

func sealCarried(key []byte, c carried) []byte {
	e := newEnc(16)
	e.uint(uint64(c.class))
	e.uint(uint64(c.eventT))
	e.uint(uint64(c.bodyT))
	return e.seal(key, 0)
}

func decodeCarried(key, val []byte) (c carried, err error) {
	payload, err := unseal(key, val)
	if err != nil {
		return c, err
	}
	d := &dec{b: payload}
	c = carried{class: uint8(d.uint()), eventT: uint32(d.uint()), bodyT: uint32(d.uint())}
	return c, d.end(key)
}
