package audit

import (
	"context"
	"errors"
	"time"

	"github.com/onceward/onceward/dedupe"
)

// work takes a job over and brings it to its end, or as far as ctx lets it.
func (s *Jobs) work(ctx context.Context, k *kept) {
	sel, err := k.selection()
	if err != nil {
		s.end(ctx, k, JobFailed, err.Error())
		return
	}
	if !s.save(ctx, k) { // another gateway was faster, or it was cancelled
		return
	}
	if k.State == JobCounting && !s.count(ctx, k, sel) {
		return
	}
	s.send(ctx, k, sel)
}

// save keeps where the job stands and prolongs its hold, false when it is not
// ours any more or ctx has ended.
func (s *Jobs) save(ctx context.Context, k *kept) bool {
	now := s.cfg.Now()
	k.Owner, k.Until, k.UpdatedAt = s.owner, now.Add(jobLease), now
	n, err := s.cfg.Notes.PutNote(ctx, k.note())
	if err != nil {
		s.lost(ctx, k, err)
		return false
	}
	k.version = n.Version
	return true
}

func (s *Jobs) lost(ctx context.Context, k *kept, err error) {
	if ctx.Err() == nil && !errors.Is(err, dedupe.ErrStale) {
		s.cfg.Log.Warn("replay job waits", "job", k.ID, "error", err) // it is looked for again
	}
}

func (s *Jobs) end(ctx context.Context, k *kept, state JobState, why string) {
	k.State, k.Error, k.EndedAt = state, why, s.cfg.Now()
	if s.save(ctx, k) {
		s.cfg.Log.Info("replay job ended", "job", k.ID, "state", string(state), "opened", k.Opened, "events", k.Events, "reason", why)
	}
}

// replay is one call of the ledger for the job.
func (s *Jobs) replay(k *kept, sel dedupe.Selection, cursor string, limit int) dedupe.Replay {
	r := dedupe.Replay{Selection: sel, Target: k.Target, NewKey: k.NewKey, By: k.By(), Cursor: cursor, Limit: limit}
	if k.Reroute {
		r.Reroute = s.cfg.Route
	}
	return r
}

// count finds what the job selects. A restart counts anew.
func (s *Jobs) count(ctx context.Context, k *kept, sel dedupe.Selection) bool {
	var total JobCount
	saved := s.cfg.Now()
	for cursor := ""; ; {
		begun := s.cfg.Now()
		r := s.replay(k, sel, cursor, countChunk)
		r.DryRun = true
		n, err := s.cfg.Keeper.Replay(ctx, r)
		if err != nil {
			s.lost(ctx, k, err)
			return false
		}
		total.add(n)
		if cursor = n.Next; cursor == "" {
			break
		}
		if s.cfg.Now().Sub(saved) >= jobLook {
			if saved = s.cfg.Now(); !s.save(ctx, k) {
				return false
			}
		}
		s.rest(ctx, countRest*s.cfg.Now().Sub(begun))
	}
	k.Total, k.State, k.StartedAt = &total, JobRunning, s.cfg.Now()
	return s.save(ctx, k)
}

// send opens the deliveries, part by part, each with the note of it.
func (s *Jobs) send(ctx context.Context, k *kept, sel dedupe.Selection) {
	limit := k.limit()
	for errs := 0; ctx.Err() == nil; {
		begun := s.cfg.Now()
		next, opened, err := s.part(ctx, k, sel, limit)
		switch {
		case err == nil:
			errs, *k = 0, next
			if s.cfg.Told != nil {
				s.cfg.Told(opened)
			}
			if !k.State.Open() {
				s.cfg.Log.Info("replay job ended", "job", k.ID, "state", string(k.State), "opened", k.Opened, "events", k.Events)
				return
			}
			s.rest(ctx, k.pause(opened, s.cfg.Now().Sub(begun)))
		case errors.Is(err, dedupe.ErrTooLarge) && limit > 1:
			limit /= 2
		case errors.Is(err, dedupe.ErrStale), ctx.Err() != nil:
			return // cancelled, taken over, or to be gone on with after a restart
		default:
			if errs++; errs == jobErrors || errors.Is(err, dedupe.ErrTooLarge) {
				s.end(ctx, k, JobFailed, err.Error())
				return
			}
			if k.Error = err.Error(); !s.save(ctx, k) {
				return
			}
			s.rest(ctx, jobPatience)
		}
	}
}

// part opens what the next events bring and notes it, in one transaction, and
// returns the job as it then stands. A stop waits for it: what it opened is to
// be known and counted here.
func (s *Jobs) part(ctx context.Context, k *kept, sel dedupe.Selection, limit int) (next kept, opened int, err error) {
	r := s.replay(k, sel, k.Cursor, limit)
	r.Keep = func(n dedupe.ReplayCount) dedupe.Note {
		now := s.cfg.Now()
		next = *k
		next.add(n)
		next.Cursor, next.Error, next.Owner, next.Until, next.UpdatedAt = n.Next, "", s.owner, now.Add(jobLease), now
		if n.Next == "" {
			next.State, next.EndedAt, next.Owner = JobDone, now, ""
		}
		return next.note()
	}
	whole, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(jobPart, cut) })()
	n, err := s.cfg.Keeper.Replay(whole, r)
	next.version = k.version + 1
	return next, n.Opened, err
}

// limit is how many events one part looks at: at a low rate few, so that they
// are spread over time.
func (k *kept) limit() int {
	if k.Rate.IsZero() {
		return jobChunk
	}
	quarter := float64(k.Rate.Count) / k.Rate.Per.Seconds() / 4
	return min(max(int(quarter), 1), jobChunk)
}

// pause is the wait after a part that took so long and opened so many: what
// the rate asks for, and at least the rest after it. What a job opens is also
// forwarded: at full speed it would take the processors, and what is answered in
// 2 ms take 150.
func (k *kept) pause(opened int, took time.Duration) time.Duration {
	rest := min(jobRest*took, jobRestMost)
	if d, ok := k.Rate.Time(opened); ok {
		return max(d-took, rest)
	}
	return rest
}

// rest waits, or until ctx ends.
func (s *Jobs) rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
