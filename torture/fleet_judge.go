package main

import (
	"fmt"
	"net/http"
	"time"
)

// FleetEvidence is what a verdict on several gateways rests on.
type FleetEvidence struct {
	Evidence
	Gateways map[string][]Life // by name
	Outages  []Outage
}

// FleetVerdict is what it amounts to. Of Verdict, what is about one process
// stays zero. The three figures after it must be zero as well.
type FleetVerdict struct {
	Verdict

	Unexplained int // sent again after a 2xx, with no lease that a kill or an outage left open
	Unfounded   int // 2xx to what was sent and answered while there was no database
	Odd         int // answers that are neither 2xx nor 503

	Refused int // 503
	Silent  int // of those, sent and answered while there was no database
	Deepest int // of all deliveries sent again: most others the same gateway had begun since
}

// maxOpen is how many requests to one target a gateway may have made between
// one whose result was lost with it and its end. It works on 16 at once and
// commits what comes back together; a second batch may wait behind that.
const maxOpen = 64

// JudgeFleet compares what several gateways promised with what there is, once
// nothing is pending any more.
func JudgeFleet(e FleetEvidence) FleetVerdict {
	d := sortEvidence(e.Evidence)
	v := FleetVerdict{Verdict: Verdict{Stored: len(e.Stored), Requests: len(e.Requests), Strange: len(d.strange)}}
	for _, s := range d.strange {
		v.fault("%s", s)
	}
	made := requestsBy(e.Requests)
	for _, u := range d.order {
		v.delivered(u)
		v.once(u)
		v.bytes(u)
		for _, target := range u.targets {
			v.again(&e, made, u, target)
			v.counted(&e, u, target)
		}
	}
	v.literalIDs(e.Stored)
	v.keys(e.Evidence)
	v.answers(&e)
	return v
}

// OK reports whether every promise was kept.
func (v *FleetVerdict) OK() bool {
	return v.Verdict.OK() && v.Unexplained+v.Unfounded+v.Odd == 0
}

// String is the verdict on a few lines, faults first.
func (v *FleetVerdict) String() string {
	return v.Verdict.String() + fmt.Sprintf("sent again without cause %d, 2xx without a database %d, other answers %d; answered 503 %d, %d of them without a database; deepest lease left open %d\n",
		v.Unexplained, v.Unfounded, v.Odd, v.Refused, v.Silent, v.Deepest)
}

// line is what one gateway sends to one target.
type line struct{ from, target string }

// requestsBy is when each gateway made a request to each target.
func requestsBy(all []Request) map[line][]time.Duration {
	out := map[line][]time.Duration{}
	for _, r := range all {
		l := line{r.From, r.Target}
		out[l] = append(out[l], r.At)
	}
	return out
}

// again holds what was sent again after a 2xx against the kills and outages: the
// result of the request before must have been lost in one.
func (v *FleetVerdict) again(e *FleetEvidence, made map[line][]time.Duration, u *unit, target string) {
	last := -1 // the last request answered 2xx
	rs := u.requests[target]
	for i, r := range rs {
		if last >= 0 {
			v.Copies++
			depth, why := e.cut(made, rs[last], r)
			if depth >= 0 && depth <= maxOpen {
				v.Deepest = max(v.Deepest, depth)
			} else {
				v.Unexplained++
				v.fault("%s: target %s answered %s 2xx at %v and got it again from %s at %v: %s",
					u, target, rs[last].From, rs[last].At, r.From, r.At, why)
			}
		}
		if r.Status/100 == 2 {
			last = i
		}
	}
}

// cut looks for the kill or outage between two requests in which the first one's
// result was lost. It returns how many others its gateway made in between
// before, the fewest; -1 when there was neither.
func (e *FleetEvidence) cut(made map[line][]time.Duration, before, r Request) (depth int, why string) {
	depth, why = -1, "there was no kill and no outage between"
	see := func(from, to time.Duration) {
		if to < before.At || from > r.At {
			return
		}
		n := 0
		for _, at := range made[line{before.From, before.Target}] {
			if at > before.At && at < from {
				n++
			}
		}
		if depth < 0 || n < depth {
			depth = n
			why = fmt.Sprintf("its gateway had made %d requests since when it was cut off", n)
		}
	}
	for _, l := range e.Gateways[before.From] {
		if l.Killed {
			see(l.End, max(l.End, l.Gone))
		}
	}
	for _, o := range e.Outages {
		see(o.Began, o.Ready)
	}
	return depth, why
}

// disturbed counts kills, of any gateway, and outages between two moments.
func (e *FleetEvidence) disturbed(from, to time.Duration) (kills, outages int) {
	for _, lives := range e.Gateways {
		for _, l := range lives {
			if l.Killed && max(l.End, l.Gone) >= from && l.End <= to {
				kills++
			}
		}
	}
	for _, o := range e.Outages {
		if o.Ready >= from && o.Began <= to {
			outages++
		}
	}
	return kills, outages
}

// counted holds attempts against requests. A gateway that is killed may have
// noted one it did not send; a database that crashes may lose the note of one
// that was sent, and its number is given again.
func (v *FleetVerdict) counted(e *FleetEvidence, u *unit, target string) {
	rs := u.requests[target]
	if len(rs) == 0 {
		return
	}
	for i, r := range rs[1:] {
		before := rs[i]
		kills, outages := e.disturbed(before.At, r.At)
		if r.Attempt > before.Attempt-outages && r.Attempt <= before.Attempt+1+kills+outages {
			continue
		}
		v.Miscount++
		v.fault("%s: target %s got attempt %d after attempt %d, %d kills and %d outages between", u, target, r.Attempt, before.Attempt, kills, outages)
	}
	kills, outages := e.disturbed(0, rs[len(rs)-1].At)
	_, near := e.disturbed(rs[0].At, rs[len(rs)-1].At)
	v.miscount(u, target, len(rs)-near, len(rs)+kills+outages)
}

// answers looks for answers a sender must not get.
func (v *FleetVerdict) answers(e *FleetEvidence) {
	for _, s := range e.Sent {
		dark := false // there was no database all the time
		for _, o := range e.Outages {
			dark = dark || s.SentAt > o.Gone && s.AnsweredAt < o.Back
		}
		switch {
		case s.Status == http.StatusServiceUnavailable:
			v.Refused++
			if dark {
				v.Silent++
			}
		case s.Status/100 == 2 && dark:
			v.Unfounded++
			v.fault("%s %s sent to %s at %v was answered %d at %v, while there was no database", s.Source, s.ID, s.To, s.SentAt, s.Status, s.AnsweredAt)
		case s.Status != 0 && s.Status/100 != 2:
			v.Odd++
			v.fault("%s %s sent to %s was answered %d: %s", s.Source, s.ID, s.To, s.Status, s.Error)
		}
	}
}
