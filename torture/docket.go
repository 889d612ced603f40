package main

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// docket is the evidence sorted by what must happen once.
type docket struct {
	Evidence
	bySource map[string]*Source
	units    map[unitKey]*unit
	order    []*unit // as first heard of
	strange  []string
}

// unitKey names one thing that must happen once: an event ID of a source;
// where the source delivers conflicts, an event ID with one body.
type unitKey struct{ source, id, hash string }

// unit is all that is known about one of them.
type unit struct {
	unitKey
	targets  []string
	short    bool            // may be gone from the account
	replayed bool            // may be sent again by an operator
	bodies   map[string]bool // hashes the sender sent for it
	acked    bool            // some answer said 2xx
	ackedAt  time.Duration   // the first of those
	fresh    []string        // body of each answer that said the event was new
	refs     map[string]bool // in answers
	stored   []Stored
	requests map[string][]Request // by target, in time order
}

func sortEvidence(e Evidence) *docket {
	d := &docket{Evidence: e, bySource: map[string]*Source{}, units: map[unitKey]*unit{}}
	for i := range e.Sources {
		d.bySource[e.Sources[i].Name] = &e.Sources[i]
	}
	for _, s := range e.Sent {
		d.addSent(s)
	}
	for _, s := range e.Stored {
		if u := d.find(s.Source, s.ID, s.Hash); u != nil {
			u.stored = append(u.stored, s)
		} else {
			d.strange = append(d.strange, "stored and never sent: "+s.Source+" "+s.ID+" body "+s.Hash)
		}
	}
	for _, r := range e.Requests {
		if u := d.find(r.Source, r.EventID, r.Hash); u != nil {
			u.requests[r.Target] = append(u.requests[r.Target], r)
		} else {
			d.strange = append(d.strange, "delivered and never sent: "+r.Source+" "+r.EventID+" body "+r.Hash)
		}
	}
	for _, u := range d.units {
		for _, rs := range u.requests {
			slices.SortStableFunc(rs, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
		}
	}
	return d
}

// key names the unit an ID belongs to, as sent or as the gateway keeps it.
func (d *docket) key(source, id, hash string) unitKey {
	if src := d.bySource[source]; src != nil && src.OnConflict == ConflictDeliver {
		base, _, _ := strings.Cut(id, "~")
		return unitKey{source, base, hash}
	}
	return unitKey{source, id, ""}
}

func (d *docket) find(source, id, hash string) *unit { return d.units[d.key(source, id, hash)] }

func (d *docket) addSent(s Sent) {
	k := d.key(s.Source, s.ID, s.Hash)
	u := d.units[k]
	if u == nil {
		u = &unit{unitKey: k, bodies: map[string]bool{}, refs: map[string]bool{}, requests: map[string][]Request{}}
		if src := d.bySource[s.Source]; src != nil {
			u.targets, u.short, u.replayed = src.Targets, src.Short, src.Replayed
		}
		d.units[k] = u
		d.order = append(d.order, u)
	}
	u.bodies[s.Hash] = true
	if s.Status/100 != 2 || d.Until != 0 && s.AnsweredAt >= d.Until {
		return
	}
	if !u.acked || s.AnsweredAt < u.ackedAt {
		u.acked, u.ackedAt = true, s.AnsweredAt
	}
	if !s.Repeat {
		u.fresh = append(u.fresh, s.Hash)
	}
	if s.Ref != "" {
		u.refs[s.Ref] = true
	}
}

// done is when target first answered 2xx to the unit, false when it never did.
func (u *unit) done(target string) (time.Duration, bool) {
	for _, r := range u.requests[target] {
		if r.Status/100 == 2 {
			return r.At, true
		}
	}
	return 0, false
}

// life is the number of the process that made a request at that time.
func (d *docket) life(at time.Duration) int {
	n, _ := slices.BinarySearchFunc(d.Lives, at, func(l Life, at time.Duration) int {
		if l.Start <= at {
			return -1
		}
		return 1
	})
	return n - 1
}

func (u *unit) String() string {
	if u.hash == "" {
		return u.source + " " + u.id
	}
	return u.source + " " + u.id + " body " + u.hash[:min(16, len(u.hash))]
}
