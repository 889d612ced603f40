package main

import (
	"errors"
	"fmt"
)

// unheard is a body variant that choose never draws.
const unheard = 9

// Resend sends about n of the acknowledged events once more, and, where a
// source acknowledges conflicts, once more with a body never sent before.
// Every answer must say that it is a replayed one and name the stored event;
// the caller checks that nothing reaches a target. It returns how many
// requests it made.
func (r *Rig) Resend(e Evidence, n int) (sent int, err error) {
	d := sortEvidence(e)
	base := "http://" + r.Proc.Public
	for i := 0; i < len(e.Sent); i += max(1, len(e.Sent)/n) {
		s := e.Sent[i]
		u := d.find(s.Source, s.ID, s.Hash)
		if !u.acked || u.short || u.replayed {
			continue
		}
		m := Message{Source: d.bySource[s.Source], Run: r.Sender.cfg.Run, Number: s.Number, Variant: s.Variant}
		again := []Message{m}
		if m.Source.OnConflict == ConflictAck {
			other := m
			other.Variant = unheard
			again = append(again, other)
		}
		for _, m := range again {
			sent++
			if fault := u.resent(r.Sender.Send(base, m)); fault != "" {
				err = errors.Join(err, fmt.Errorf("re-send %s, variant %d: %s", m.ID(), m.Variant, fault))
			}
		}
	}
	if sent == 0 {
		return 0, errors.New("re-send: nothing was acknowledged")
	}
	return sent, err
}

// resent says what is wrong with the answer to a repeat; "" when nothing is.
func (u *unit) resent(a Sent) string {
	switch {
	case a.Status/100 != 2:
		return fmt.Sprintf("answered %d %s", a.Status, a.Error)
	case !a.Repeat:
		return "answered as new"
	case len(u.stored) != 1 || a.Ref != u.stored[0].Ref:
		return fmt.Sprintf("answered with ref %q, the account has %d events for it", a.Ref, len(u.stored))
	}
	return ""
}
