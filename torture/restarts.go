package main

import (
	"slices"
	"time"
)

// attempts holds the attempts in the account against the target's log. A
// process that was killed may have left its last request of a delivery
// unrecorded; every other one must be there, and none that never came.
func (v *Verdict) attempts(d *docket, u *unit) {
	if u.replayed {
		return // only the account knows how often
	}
	for _, target := range u.targets {
		rs := u.requests[target]
		most, least := len(rs), 0
		lastLife, done := -1, false
		for i, r := range rs {
			life := d.life(r.At)
			if life != lastLife {
				lastLife, done = life, false
			}
			if done {
				v.Again++
				v.fault("%s: target %s got it again from the same process, %v after the start of the run", u, target, r.At)
			}
			done = done || r.Status/100 == 2
			if i > 0 {
				v.numbered(d, u, rs[i-1], r)
			}
			// What a killed process had sent is shown, whatever it still wrote
			// itself; a power cut may take the note of it.
			endsLife := i == len(rs)-1 || d.life(rs[i+1].At) != life
			if !d.cut() || !endsLife || life < 0 || !d.Lives[life].Killed {
				least++
			}
		}
		v.Copies += copies(rs)
		v.miscount(u, target, least, most+d.unsent(u, target))
	}
}

// cut reports whether the run ended in a power cut.
func (d *docket) cut() bool { return d.Until != 0 }

// kills counts the processes killed between two moments.
func (d *docket) kills(from, to time.Duration) (n int) {
	for _, l := range d.Lives {
		if l.Killed && max(l.End, l.Gone) >= from && l.End <= to {
			n++
		}
	}
	return n
}

// unsent is how many attempts a target may not have seen: each kill while the
// delivery was open may have come after the attempt was noted and before its
// request arrived.
func (d *docket) unsent(u *unit, target string) int {
	open := time.Duration(1<<63 - 1)
	if rs := u.requests[target]; len(rs) > 0 {
		open = rs[len(rs)-1].At
	}
	return d.kills(0, open)
}

// numbered holds the numbers of two attempts in a row against each other: one
// process counts on, and so does the next, past attempts that were noted and
// not sent: one a kill, after an attempt that was answered before it. After a power cut the last number may be given again.
func (v *Verdict) numbered(d *docket, u *unit, before, r Request) {
	kills := d.kills(before.At, r.At)
	unsent := kills
	if before.Status/100 == 2 {
		unsent = max(0, kills-1) // its own result is what the first of them took
	}
	if r.Attempt > before.Attempt && r.Attempt <= before.Attempt+1+unsent || d.cut() && kills > 0 && r.Attempt == before.Attempt {
		return
	}
	v.Miscount++
	v.fault("%s: target %s got attempt %d after attempt %d, %d kills between", u, r.Target, r.Attempt, before.Attempt, kills)
}

func copies(rs []Request) (n int) {
	for _, r := range rs {
		if r.Status/100 == 2 {
			n++
		}
	}
	return max(0, n-1)
}

func (v *Verdict) miscount(u *unit, target string, least, most int) {
	for _, s := range u.stored {
		for _, sd := range s.Deliveries {
			if sd.Target == target && (sd.Attempts < least || sd.Attempts > most) {
				v.Miscount++
				v.fault("%s: %d attempts shown for target %s, which saw %d requests, at least %d of which must be shown",
					u, sd.Attempts, target, most, least)
			}
		}
	}
}

// restarts measures how soon after each restart the gateway was ready and
// went on with what the kill had left open.
func (v *Verdict) restarts(d *docket) {
	for i, l := range d.Lives {
		if l.Ready > 0 {
			v.SlowestStart = max(v.SlowestStart, l.Ready-l.Start)
		}
		if i == 0 || l.Ready == 0 {
			continue
		}
		m := d.orphans(i)
		if m.open == 0 {
			continue
		}
		switch {
		case m.moved > 0:
			v.FirstOrphan = max(v.FirstOrphan, m.first-l.Ready)
			if silent := d.silence(l.Ready, m.first); m.first-l.Ready > MaxOrphanDelay+silent {
				v.Stuck++
				v.fault("process %d: %d deliveries were open, the first moved %v after it was ready, %v of which it did nothing else either", i, m.open, m.first-l.Ready, silent)
			}
		case l.End-l.Ready > MaxOrphanDelay+d.silence(l.Ready, l.End):
			v.Stuck++
			v.fault("process %d: %d deliveries were open, none moved in %v", i, m.open, l.End-l.Ready)
		}
		if i == len(d.Lives)-1 {
			v.LastOrphan = max(0, m.last-l.Ready)
		}
	}
}

// silence is how much of the time between two moments a hurried gateway did
// nothing that anybody saw: no answer to a sender and no request at a target.
func (d *docket) silence(from, to time.Duration) (silent time.Duration) {
	if !d.Hurried {
		return 0
	}
	const breath = 100 * time.Millisecond // between two of what a busy gateway does
	seen := []time.Duration{from, to}
	for _, s := range d.Sent {
		if s.Status != 0 && s.AnsweredAt > from && s.AnsweredAt < to {
			seen = append(seen, s.AnsweredAt)
		}
	}
	for _, r := range d.Requests {
		if r.At > from && r.At < to {
			seen = append(seen, r.At)
		}
	}
	slices.Sort(seen)
	for i := range len(seen) - 1 {
		silent += max(0, seen[i+1]-seen[i]-breath)
	}
	return min(silent, MaxSilence)
}

// movement is what became of the deliveries that one process left open, in
// the time of the next.
type movement struct {
	open, moved int
	first, last time.Duration // request of some, and of every one of those that moved
}

// orphans looks at the deliveries that were acknowledged and not done when
// process i-1 ended.
func (d *docket) orphans(i int) (m movement) {
	end, l := d.Lives[i-1].End, d.Lives[i]
	for _, u := range d.order {
		if !u.acked || u.ackedAt >= end {
			continue
		}
		for _, target := range u.targets {
			if at, ok := u.done(target); ok && at < end {
				continue
			}
			m.open++
			at, ok := firstWithin(u.requests[target], l)
			if !ok {
				continue
			}
			if m.moved == 0 || at < m.first {
				m.first = at
			}
			m.last = max(m.last, at)
			m.moved++
		}
	}
	return m
}

func firstWithin(rs []Request, l Life) (time.Duration, bool) {
	for _, r := range rs {
		if r.At >= l.Start && r.At < l.End {
			return r.At, true
		}
	}
	return 0, false
}
