package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// The bounds of jobs.
const (
	MaxJobs  = 8   // that are open at once
	keptJobs = 100 // that have ended and are still shown
)

const (
	// jobChunk is how many events a job looks at in one transaction. Intake
	// waits for each, so they are small.
	jobChunk = 20
	// jobLease is how long a job stays with a gateway that is not heard of.
	jobLease = 10 * time.Second
	// jobLook is how often open jobs are looked for that nobody works on, and
	// how often one at work says that it is.
	jobLook = time.Second
	// jobPatience is how long a job waits after an error of the ledger, and
	// jobErrors after how many in a row it has failed.
	jobPatience = 5 * time.Second
	// jobPart is how long a stop waits at most for the part that is under way.
	jobPart   = 5 * time.Second
	jobErrors = 100
	// countChunk is how many events are counted in one go, and countRest how many
	// times as long as that took comes after: nothing waits for it but for a
	// processor.
	countChunk = 200
	countRest  = 2
	// jobRest is how many times as long as it worked a job rests, and jobRestMost
	// for how long at most: while the ledger is busy a part mostly waits, and what
	// is waited need not be rested.
	jobRest     = 12
	jobRestMost = 100 * time.Millisecond
)

// ErrJobs says that too many jobs are open.
var ErrJobs = errors.New("too many replay jobs are open")

// JobsConfig is what Jobs are made of.
type JobsConfig struct {
	Keeper Keeper          // required
	Notes  dedupe.Notebook // required; of the same ledger
	// Alone says that no other process has the ledger: what another was at work
	// on is gone on with at once.
	Alone bool
	Now   func() time.Time
	// Route names today's targets, for jobs that reroute; nil: none can.
	Route func(ev *event.Event, body func() ([]byte, error)) []string
	Log   *slog.Logger
	// Told, if set, is told how many deliveries a job has just opened, by several
	// jobs at once.
	Told func(opened int)
}

// Jobs runs replays in the background. On a ledger that several gateways
// share each job is worked on by one of them. It is safe for concurrent use.
type Jobs struct {
	cfg   JobsConfig // read-only after NewJobs
	owner string
	wake  chan struct{}

	mu   sync.Mutex // guards all below
	busy map[string]context.CancelFunc
}

// NewJobs makes Jobs. It starts nothing.
func NewJobs(cfg JobsConfig) (*Jobs, error) {
	if cfg.Keeper == nil || cfg.Notes == nil {
		return nil, errors.New("audit: jobs need a ledger")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Jobs{cfg: cfg, owner: strconv.FormatUint(rand.Uint64(), 36), wake: make(chan struct{}, 1), busy: map[string]context.CancelFunc{}}, nil
}

// Start keeps a new job of r's conditions, which Run then works on. The
// selection ends now: events accepted later are not in it.
func (s *Jobs) Start(ctx context.Context, a Args, r Replay, rate JobRate) (Job, error) {
	switch {
	case a.IsZero():
		return Job{}, invalid("a replay job needs at least one condition")
	case r.Reroute != nil && s.cfg.Route == nil:
		return Job{}, invalid("this gateway cannot reroute")
	}
	now := s.cfg.Now()
	a, err := absolute(a, now)
	if err != nil {
		return Job{}, err
	}
	open, err := s.tidy(ctx)
	if err != nil {
		return Job{}, err
	}
	if open >= MaxJobs {
		return Job{}, fmt.Errorf("%w: %d, at most %d; cancel one or wait", ErrJobs, open, MaxJobs)
	}
	k := &kept{Job: Job{
		ID: newJobID(now, rand.Uint64()), State: JobCounting, Filter: a, Target: r.Target, NewKey: r.NewKey,
		Reroute: r.Reroute != nil, Rate: rate, Actor: r.By.Actor, Reason: r.By.Reason, CreatedAt: now, UpdatedAt: now,
	}}
	if _, err := s.cfg.Notes.PutNote(ctx, k.note()); err != nil {
		return Job{}, fmt.Errorf("keep replay job: %w", err)
	}
	s.cfg.Log.Info("replay job started", "job", k.ID, "rate", rate.String(), "new_key", k.NewKey, "actor", k.Actor)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return k.Job, nil
}

// tidy counts the open jobs and drops the oldest of those that ended.
func (s *Jobs) tidy(ctx context.Context) (open int, err error) {
	notes, err := s.cfg.Notes.Notes(ctx, noteKind)
	if err != nil {
		return 0, fmt.Errorf("read replay jobs: %w", err)
	}
	var ended []dedupe.Note
	for _, n := range notes {
		if k, err := readJob(n); err != nil || !k.State.Open() {
			ended = append(ended, n)
			continue
		}
		open++
	}
	for len(ended) > keptJobs { // by name, which is by age
		if err := s.cfg.Notes.DropNote(ctx, ended[0]); err != nil && !errors.Is(err, dedupe.ErrStale) && !errors.Is(err, dedupe.ErrNotFound) {
			return 0, fmt.Errorf("drop replay job: %w", err)
		}
		ended = ended[1:]
	}
	return open, nil
}

// List is every job that is kept, newest first.
func (s *Jobs) List(ctx context.Context) ([]Job, error) {
	notes, err := s.cfg.Notes.Notes(ctx, noteKind)
	if err != nil {
		return nil, fmt.Errorf("read replay jobs: %w", err)
	}
	out := make([]Job, 0, len(notes))
	for _, n := range notes {
		k, err := readJob(n)
		if err != nil {
			return nil, err
		}
		out = append(out, k.Job)
	}
	slices.SortFunc(out, func(a, b Job) int { return cmp.Compare(b.ID, a.ID) })
	return out, nil
}

// Get is one job; dedupe.ErrNotFound when there is none.
func (s *Jobs) Get(ctx context.Context, id string) (Job, error) {
	k, err := s.load(ctx, id)
	if err != nil {
		return Job{}, err
	}
	return k.Job, nil
}

func (s *Jobs) load(ctx context.Context, id string) (*kept, error) {
	n, err := s.cfg.Notes.Note(ctx, noteKind, id)
	if err != nil {
		return nil, fmt.Errorf("replay job %q: %w", id, err)
	}
	return readJob(n)
}

// Cancel ends an open job: when it has returned the job opens nothing more.
// What was opened stays open. A job that has ended stays as it is.
func (s *Jobs) Cancel(ctx context.Context, id string, by dedupe.By) (Job, error) {
	for {
		k, err := s.load(ctx, id)
		if err != nil || !k.State.Open() {
			if err != nil {
				return Job{}, err
			}
			return k.Job, nil
		}
		k.State, k.EndedAt, k.UpdatedAt, k.Owner = JobCancelled, s.cfg.Now(), s.cfg.Now(), ""
		k.Error = "cancelled by " + cmp.Or(by.Actor, "an operator")
		_, err = s.cfg.Notes.PutNote(ctx, k.note())
		if errors.Is(err, dedupe.ErrStale) {
			continue // it went on meanwhile
		}
		if err != nil {
			return Job{}, fmt.Errorf("cancel replay job: %w", err)
		}
		s.mu.Lock()
		if stop := s.busy[id]; stop != nil {
			stop()
		}
		s.mu.Unlock()
		s.cfg.Log.Info("replay job cancelled", "job", id, "opened", k.Opened, "actor", by.Actor)
		return k.Job, nil
	}
}

// Busy is how many jobs are worked on here.
func (s *Jobs) Busy() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.busy)
}

// Run works on open jobs until ctx ends: those started here, those left by a
// process before, and on a shared ledger those whose gateway is not heard of.
func (s *Jobs) Run(ctx context.Context) error {
	var work sync.WaitGroup
	defer work.Wait()
	tick := time.NewTicker(jobLook)
	defer tick.Stop()
	for {
		if err := s.look(ctx, &work); err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("replay jobs can't be read", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-s.wake:
		}
	}
}

// look starts work on the jobs that nobody works on.
func (s *Jobs) look(ctx context.Context, work *sync.WaitGroup) error {
	notes, err := s.cfg.Notes.Notes(ctx, noteKind)
	if err != nil {
		return err
	}
	for _, n := range notes {
		k, err := readJob(n)
		if err != nil {
			s.cfg.Log.Error("replay job can't be read", "job", n.Name, "error", err)
			continue
		}
		if !k.State.Open() || !s.cfg.Alone && k.Owner != "" && k.Owner != s.owner && s.cfg.Now().Before(k.Until) {
			continue
		}
		s.mu.Lock()
		if s.busy[k.ID] == nil {
			mine, stop := context.WithCancel(ctx)
			s.busy[k.ID] = stop
			work.Go(func() {
				s.work(mine, k)
				s.mu.Lock()
				delete(s.busy, k.ID)
				s.mu.Unlock()
				stop()
			})
		}
		s.mu.Unlock()
	}
	return nil
}
