package audit

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Act is the view of an act that people and programs get; its field names are
// a contract. Fields that a kind does not have are left out.
type Act struct {
	Kind       string     `json:"kind"`
	At         time.Time  `json:"at"` // ledger time
	Ref        event.Ref  `json:"ref,omitzero"`
	Source     string     `json:"source,omitempty"`
	Target     string     `json:"target,omitempty"`
	Provider   string     `json:"provider,omitempty"`
	EventID    string     `json:"event_id,omitempty"`
	Type       string     `json:"type,omitempty"`
	Secret     string     `json:"secret,omitempty"` // label
	BodySHA256 event.Hash `json:"body_sha256,omitzero"`
	BodyBytes  int64      `json:"body_bytes,omitempty"`
	Received   time.Time  `json:"received_at,omitzero"`
	Started    time.Time  `json:"started_at,omitzero"`
	Minute     time.Time  `json:"minute,omitzero"` // of which requests were counted
	Duration   float64    `json:"duration_s,omitempty"`
	Generation uint16     `json:"generation,omitempty"`
	Number     uint64     `json:"number,omitempty"` // of the attempt; of a key, its fencing token or how many
	Count      uint64     `json:"count,omitempty"`
	Status     int        `json:"status,omitempty"`
	Outcome    string     `json:"outcome,omitempty"`
	Response   event.Hash `json:"response_sha256,omitzero"` // of the head of the answer, as kept
	State      string     `json:"state,omitempty"`          // of the delivery after it
	RetryIn    float64    `json:"retry_in_s,omitempty"`
	Flags      []string   `json:"flags,omitempty"`
	Related    event.Ref  `json:"related,omitzero"`
	Late       bool       `json:"late,omitempty"`
	SHA256     event.Hash `json:"sha256,omitzero"` // of a key: of the request it was claimed for, or of its answer
	Config     event.Hash `json:"config_sha256,omitzero"`
	Actor      string     `json:"actor,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	Detail     string     `json:"detail,omitempty"`
}

// viewAct shows an act. Equal acts have equal views.
func viewAct(a *dedupe.Act) Act {
	v := Act{
		Kind: a.Kind.String(), At: a.At.UTC(), Ref: a.Event, Source: readable(a.Source), Target: readable(a.Target),
		Provider: readable(a.Provider), EventID: readable(a.ID), Type: readable(a.Type), Secret: readable(a.Secret), BodyBytes: a.Bytes, Duration: a.Duration.Seconds(), Generation: a.Generation, Status: a.Status,
		Outcome: readable(a.Outcome), RetryIn: a.RetryIn.Seconds(), Flags: a.Flags.Names(), Related: a.Related, Late: a.Late,
		Actor: readable(a.Actor), Reason: readable(a.Reason), Detail: readable(a.Detail),
	}
	when := utc(a.Time)
	switch a.Kind {
	case dedupe.ActAccepted, dedupe.ActRepeated, dedupe.ActConflicting:
		v.Received, v.BodySHA256 = when, a.Hash
	case dedupe.ActRefused:
		v.Minute, v.Count = when, a.Number
	case dedupe.ActAttempted, dedupe.ActDelivered, dedupe.ActDead, dedupe.ActCancelled, dedupe.ActReplayed:
		v.Started, v.Number, v.Response, v.State = when, a.Number, a.Hash, a.State.String()
	case dedupe.ActKeyed, dedupe.ActSettled:
		v.Started, v.Number, v.SHA256 = when, a.Number, a.Hash
	default:
		v.Started, v.Count, v.Config = when, a.Number, a.Hash
	}
	return v
}

// readable keeps text as it is, but for bytes that are no UTF-8: they are shown
// by their value, since JSON would make them all the same.
func readable(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[0])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// LogAct is a recorded act with its place in a log.
type LogAct struct {
	Log   string `json:"log"`
	Index uint64 `json:"index"`
	Act
}
