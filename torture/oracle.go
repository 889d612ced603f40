package main

import (
	"fmt"
	"strings"
	"time"
)

// Verdict is what the evidence amounts to. All but the figures of the first
// line and the times must be zero.
type Verdict struct {
	Acknowledged int // events, or bodies where a source delivers conflicts
	Stored       int // events in the account
	Requests     int // at the targets
	Copies       int // requests after a target had answered 2xx: the price of a crash

	Lost     int // acknowledged, and not in the account or not delivered everywhere
	Twice    int // (source, event ID) accepted more than once
	Keys     int // events whose Idempotency-Key was not one and its own
	Bytes    int // events stored or delivered with bytes other than those acknowledged or sent
	Torn     int // not acknowledged, in the account, and not delivered everywhere
	Again    int // delivered again by the same process after a 2xx
	Miscount int // deliveries whose attempts differ from the requests the target saw
	Strange  int // stored or delivered, and never sent
	Stuck    int // restarts after which no open delivery moved in time

	SlowestStart time.Duration // from starting a process until it is ready
	FirstOrphan  time.Duration // worst, over restarts, until some delivery left open by the kill moved
	LastOrphan   time.Duration // after the last restart, until all of them had moved

	Faults []string // the first maxFaults, in words
	more   int
}

const (
	maxFaults = 20
	// MaxOrphanDelay is how soon after a restart deliveries must go on. Of a hurried
	// gateway the time in which all of it stood still does not count, up to
	// MaxSilence.
	MaxOrphanDelay = 2 * time.Second
	MaxSilence     = 8 * time.Second
)

// Judge compares what was promised with what there is, once the gateway has
// nothing pending any more.
func Judge(e Evidence) Verdict {
	d := sortEvidence(e)
	v := Verdict{Stored: len(e.Stored), Requests: len(e.Requests), Strange: len(d.strange)}
	for _, s := range d.strange {
		v.fault("%s", s)
	}
	for _, u := range d.order {
		v.delivered(u)
		v.once(u)
		v.bytes(u)
		v.attempts(d, u)
	}
	v.literalIDs(e.Stored)
	v.keys(e)
	v.restarts(d)
	return v
}

// OK reports whether every promise was kept.
func (v *Verdict) OK() bool {
	return v.Lost+v.Twice+v.Keys+v.Bytes+v.Torn+v.Again+v.Miscount+v.Strange+v.Stuck == 0
}

// String is the verdict on a few lines, faults first.
func (v *Verdict) String() string {
	var b strings.Builder
	for _, f := range v.Faults {
		fmt.Fprintf(&b, "fault: %s\n", f)
	}
	if v.more > 0 {
		fmt.Fprintf(&b, "fault: … and %d more\n", v.more)
	}
	fmt.Fprintf(&b, "acknowledged %d, stored %d, requests at the targets %d, of them copies after a crash %d\n",
		v.Acknowledged, v.Stored, v.Requests, v.Copies)
	fmt.Fprintf(&b, "lost %d, accepted twice %d, key mismatches %d, byte mismatches %d, torn %d\n",
		v.Lost, v.Twice, v.Keys, v.Bytes, v.Torn)
	fmt.Fprintf(&b, "delivered again %d, attempts miscounted %d, never sent %d, stuck restarts %d\n",
		v.Again, v.Miscount, v.Strange, v.Stuck)
	fmt.Fprintf(&b, "max start %v, max orphan delay %v, all orphans of the last kill moved after %v\n",
		v.SlowestStart.Round(time.Millisecond), v.FirstOrphan.Round(time.Millisecond), v.LastOrphan.Round(time.Millisecond))
	return b.String()
}

func (v *Verdict) fault(format string, args ...any) {
	if len(v.Faults) == maxFaults {
		v.more++
		return
	}
	v.Faults = append(v.Faults, fmt.Sprintf(format, args...))
}

// delivered holds an acknowledged or stored event against the targets' logs:
// an acknowledgement must end in the account and at every target, and so must
// what was stored without one.
func (v *Verdict) delivered(u *unit) {
	if u.acked {
		v.Acknowledged++
	}
	if !u.acked && len(u.stored) == 0 {
		return
	}
	var missing []string
	if len(u.stored) == 0 && !u.short {
		missing = append(missing, "not in the account")
	}
	for _, t := range u.targets {
		if _, ok := u.done(t); !ok {
			missing = append(missing, "never taken by target "+t)
		}
	}
	for _, s := range u.stored {
		missing = append(missing, openIn(s, u.targets)...)
	}
	switch {
	case len(missing) == 0:
	case u.acked:
		v.Lost++
		v.fault("acknowledged %s: %s", u, strings.Join(missing, ", "))
	default:
		v.Torn++
		v.fault("not acknowledged %s: %s", u, strings.Join(missing, ", "))
	}
}

// openIn names the targets for which the account has no finished delivery.
func openIn(s Stored, targets []string) (out []string) {
	for _, t := range targets {
		state := "no delivery"
		for _, d := range s.Deliveries {
			if d.Target == t {
				state = d.State
			}
		}
		if state != "delivered" {
			out = append(out, fmt.Sprintf("in the account %s has %q for target %s", s.Ref, state, t))
		}
	}
	return out
}

// once looks for a second acceptance: in the account, in the answers that
// said "new", and in the refs the answers named.
func (v *Verdict) once(u *unit) {
	var why []string
	if n := len(u.stored); n > 1 {
		why = append(why, fmt.Sprintf("in the account %d times", n))
	}
	if n := len(u.fresh); n > 1 {
		why = append(why, fmt.Sprintf("answered as new %d times", n))
	}
	for ref := range u.refs {
		if len(u.refs) > 1 || len(u.stored) == 1 && u.stored[0].Ref != ref {
			why = append(why, "answered with ref "+ref)
		}
	}
	if len(why) > 0 {
		v.Twice++
		v.fault("accepted twice %s: %s", u, strings.Join(why, ", "))
	}
}

// literalIDs looks for two events of one source under the very same ID.
func (v *Verdict) literalIDs(stored []Stored) {
	type name struct{ source, id string }
	first := map[name]Stored{}
	for _, s := range stored {
		k := name{s.Source, s.ID}
		f, known := first[k]
		switch {
		case !known:
			first[k] = s
		case f.Hash != s.Hash: // the same bytes were counted with their unit
			v.Twice++
			v.fault("accepted twice %s %s: %s and %s", s.Source, s.ID, f.Ref, s.Ref)
		}
	}
}

// bytes holds what is stored against what was acknowledged as new, and what
// was delivered against what is stored.
func (v *Verdict) bytes(u *unit) {
	bad := ""
	for _, s := range u.stored {
		if !u.bodies[s.Hash] {
			bad = "stored bytes nobody sent"
		}
		if len(u.fresh) == 1 && u.fresh[0] != s.Hash {
			bad = "stored bytes are not those acknowledged as new"
		}
	}
	for target, rs := range u.requests {
		for _, r := range rs {
			if !u.bodies[r.Hash] || len(u.stored) == 1 && r.Hash != u.stored[0].Hash {
				bad = "target " + target + " got other bytes"
			}
		}
	}
	if bad != "" {
		v.Bytes++
		v.fault("%s: %s", u, bad)
	}
}

// keys looks for an event with two keys, and for a key of two events.
func (v *Verdict) keys(e Evidence) {
	type name struct{ source, id string }
	keyOf, owner, bad := map[name]string{}, map[string]name{}, map[name]bool{}
	see := func(n name, key, where string) {
		k, known := keyOf[n]
		o, owned := owner[key]
		if !known {
			keyOf[n] = key
		}
		if !owned {
			owner[key] = n
		}
		if (key == "" || known && k != key || owned && o != n) && !bad[n] {
			bad[n] = true
			v.Keys++
			v.fault("%s %s: %s has key %q, before it was %q, and that key was of %s %s", n.source, n.id, where, key, k, o.source, o.id)
		}
	}
	for _, s := range e.Stored {
		see(name{s.Source, s.ID}, s.Key, "the account")
	}
	for _, r := range e.Requests {
		see(name{r.Source, r.EventID}, r.Key, "target "+r.Target)
	}
}
