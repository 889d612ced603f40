package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/event"
)

// Standing is how far one log reaches, and how far it is signed.
type Standing struct {
	Log   string // name of the log: the writer in hexadecimal
	Own   bool   // this gateway writes it
	First uint64 // the oldest act kept
	Next  uint64 // acts so far
	// Signed is the size of the newest checkpoint, 0 without one; SignedAt when
	// it was made, Root its root.
	Signed   uint64
	SignedAt time.Time
	Root     string
}

// Standings are those of all logs. It signs nothing and verifies nothing: that
// is for somebody else to do, with the records.
func (l *Log) Standings(ctx context.Context) ([]Standing, error) {
	logs, err := l.logs(ctx)
	if err != nil {
		return nil, err
	}
	var out []Standing
	for _, g := range logs {
		s := Standing{Log: logName(g.Writer), Own: g.Own, First: g.First, Next: g.Next}
		c, ok, err := l.newest(ctx, s.Log)
		if err != nil {
			return nil, fmt.Errorf("checkpoints of log %s: %w", s.Log, err)
		}
		if ok {
			s.Signed, s.SignedAt, s.Root = c.Size, c.At, event.Hash(c.Root).String()
		}
		out = append(out, s)
	}
	return out, nil
}
