package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// FailoverConfig is what a run over a failover of the database is made of.
type FailoverConfig struct {
	Binary   string
	Dir      string // of configs and logs
	Gateways int
	Seed     uint64
	For      time.Duration // of the run, the failover in its middle
	Gap      time.Duration // at least so long there is no primary
	Rate     float64       // new events a second; 0 is 80 % of what is measured before
	// Renew has the gateways killed and started once everything is acknowledged.
	Renew bool
	// Behind is the control: the standby does not confirm what it has, and is
	// behind when it is promoted.
	Behind bool
	Told   func(format string, args ...any)
}

// FailoverRun is what happened.
type FailoverRun struct {
	Fleet    *Fleet // still running
	Capacity float64
	Rate     float64
	From     time.Duration // when the run's load began
	Noticed  int           // gateways that ended because the database had lost what they wrote

	primary, standby *Postgres
	cfg              FailoverConfig
}

// measured is for how long capacity is measured, and with how many requests
// at once.
const (
	measured    = 20 * time.Second
	fullWorkers = 32
)

// Failover runs gateways on a primary that a standby follows synchronously,
// stops the primary as a crash does and promotes the standby. It returns when
// everything is acknowledged and nothing pending; Close ends it.
func Failover(ctx context.Context, cfg FailoverConfig) (*FailoverRun, error) {
	r := &FailoverRun{cfg: cfg, Rate: cfg.Rate}
	err := r.pair(ctx)
	if err == nil {
		err = r.run(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

const standbyName = "standby"

// pair starts both databases.
func (r *FailoverRun) pair(ctx context.Context) (err error) {
	if r.primary, err = NewPostgres(ctx); err != nil {
		return err
	}
	if err := r.primary.Start(ctx); err != nil {
		return err
	}
	if r.standby, err = r.primary.Standby(ctx, standbyName); err != nil {
		return err
	}
	if err := r.standby.Start(ctx); err != nil {
		return err
	}
	want := "async"
	if !r.cfg.Behind {
		want = "sync"
		if err := r.primary.Set(ctx, "synchronous_standby_names", standbyName); err != nil {
			return err
		}
	}
	return poll(ctx, 50*time.Millisecond, func() (bool, error) {
		state, err := r.primary.Query(ctx, "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'")
		return state == want, err
	})
}

func (r *FailoverRun) run(ctx context.Context) (err error) {
	cfg := r.cfg
	r.Fleet, err = NewFleet(FleetConfig{Binary: cfg.Binary, Dir: cfg.Dir, DSN: DSN(r.primary, r.standby), Gateways: cfg.Gateways, Seed: cfg.Seed})
	if err != nil {
		return err
	}
	if err := r.Fleet.Boot(ctx); err != nil {
		return err
	}
	stream := NewStream(r.Fleet.Sender, r.Fleet.bases())
	if err := r.measure(ctx, stream); err != nil {
		return err
	}
	r.From = r.Fleet.Clock()
	loading, stop := context.WithCancel(ctx)
	defer stop()
	var load sync.WaitGroup
	load.Go(func() { stream.Steady(loading, cfg.For, r.Rate) })
	err = Wait(ctx, cfg.For/2)
	if err == nil {
		err = r.failover(ctx, stream)
	}
	if err != nil {
		stop()
	}
	load.Wait()
	if err == nil && cfg.Renew {
		err = r.Fleet.Renew(ctx)
	}
	if err != nil {
		return err
	}
	return r.Fleet.Quiesce(ctx)
}

// measure finds out what the gateways take and deliver, unless a rate is given.
func (r *FailoverRun) measure(ctx context.Context, stream *Stream) error {
	if r.Rate > 0 {
		return nil
	}
	r.cfg.Told("measuring for %v", measured)
	begin := time.Now()
	stream.Full(ctx, measured, fullWorkers)
	acked := stream.acked.Load()
	if err := r.Fleet.Quiesce(ctx); err != nil {
		return err
	}
	// The time until all of it was delivered counts: what is taken and not
	// delivered for long is no capacity.
	r.Capacity = float64(acked) / time.Since(begin).Seconds()
	r.Rate = math.Floor(0.8 * r.Capacity)
	r.cfg.Told("%.0f events a second are accepted and delivered; the run sends %.0f", r.Capacity, r.Rate)
	return nil
}

// failover stops the primary and promotes the standby, once every gateway has
// answered without a database.
func (r *FailoverRun) failover(ctx context.Context, stream *Stream) error {
	if r.cfg.Behind {
		if err := r.detach(ctx, stream); err != nil {
			return err
		}
	}
	f := r.Fleet
	if err := f.Cut(ctx, r.primary); err != nil {
		return err
	}
	r.cfg.Told("primary stopped")
	if err := errors.Join(Wait(ctx, r.cfg.Gap), f.Refused(ctx, 5, f.Members...)); err != nil {
		return err
	}
	if err := f.Return(ctx, r.standby.Promote); err != nil {
		return err
	}
	r.cfg.Told("standby promoted")
	if r.cfg.Behind {
		return r.revive(ctx)
	}
	return f.WaitReady(ctx)
}

// revive waits until every gateway has seen by itself that the database lost
// what it had committed, and ended, and starts it again.
func (r *FailoverRun) revive(ctx context.Context) error {
	for _, m := range r.Fleet.Members {
		if err := r.Fleet.Died(ctx, m); err != nil {
			return err
		}
		r.Noticed++
		if err := r.Fleet.Start(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// detach lets the standby fall behind by some acknowledged events.
func (r *FailoverRun) detach(ctx context.Context, stream *Stream) error {
	if err := r.standby.Set(ctx, "primary_conninfo", ""); err != nil {
		return err
	}
	err := poll(ctx, 50*time.Millisecond, func() (bool, error) {
		n, err := r.standby.Query(ctx, "SELECT count(*) FROM pg_stat_wal_receiver")
		return n == "0", err
	})
	if err != nil {
		return err
	}
	before := stream.acked.Load()
	return poll(ctx, 20*time.Millisecond, func() (bool, error) { return stream.acked.Load() >= before+100, nil })
}

// Close ends gateways and databases.
func (r *FailoverRun) Close() (err error) {
	if r.Fleet != nil {
		err = r.Fleet.Close()
	}
	for _, db := range []*Postgres{r.standby, r.primary} {
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	return err
}

// Chart draws what was accepted, refused and delivered in each second.
func (r *FailoverRun) Chart(e FleetEvidence) string {
	accepted, refused, delivered := Series{Name: "accepted", Colour: "#1f77b4"}, Series{Name: "answered 503", Colour: "#d62728"}, Series{Name: "delivered", Colour: "#2ca02c"}
	for _, s := range e.Sent {
		switch {
		case s.Status/100 == 2 && !s.Repeat:
			accepted.add(s.AnsweredAt - r.From)
		case s.Status == http.StatusServiceUnavailable:
			refused.add(s.AnsweredAt - r.From)
		}
	}
	for _, q := range e.Requests {
		if q.Status/100 == 2 {
			delivered.add(q.At - r.From)
		}
	}
	o := e.Outages[0]
	return Chart(fmt.Sprintf("%d gateways on PostgreSQL at %.0f events a second (80 %% of capacity), a failover in the middle", len(r.Fleet.Members), r.Rate),
		[]Series{accepted, delivered, refused},
		[]Mark{{o.Began - r.From, "primary stopped"}, {o.Ready - r.From, "standby promoted"}})
}

// failoverRun is the command: it builds the gateway, runs over a failover,
// judges, and draws the chart.
func failoverRun(ctx context.Context, root, chart string, length time.Duration, seed uint64) error {
	dir, err := os.MkdirTemp("", "onceward-failover-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "onceward")
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, ".")
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the gateway: %w\n%s", err, text)
	}
	r, err := Failover(ctx, FailoverConfig{Binary: bin, Dir: dir, Gateways: 2, Seed: seed, For: length, Gap: 10 * time.Second,
		Told: func(format string, args ...any) {
			fmt.Printf(time.Now().UTC().Format("15:04:05 ")+format+"\n", args...)
		}})
	if err != nil {
		return err
	}
	e, err := r.Fleet.Evidence(ctx, r.Fleet.Members[0])
	if err != nil {
		return errors.Join(err, r.Close())
	}
	v := JudgeFleet(e)
	fmt.Printf("capacity %.0f/s, sent %.0f/s for %v\n%s%s\n", r.Capacity, r.Rate, length, v.String(), r.Recovery(e))
	if chart != "" {
		err = os.WriteFile(under(root, chart), []byte(r.Chart(e)), 0o644)
	}
	if !v.OK() {
		err = errors.Join(err, errors.New("promises were broken; see above"))
	}
	return errors.Join(err, r.Close())
}

// Recovery says how long nothing was accepted or delivered over the failover.
func (r *FailoverRun) Recovery(e FleetEvidence) string {
	o := e.Outages[0]
	accepted, delivered := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for _, s := range e.Sent {
		if s.Status/100 == 2 && s.SentAt > o.Gone {
			accepted = min(accepted, s.AnsweredAt)
		}
	}
	for _, q := range e.Requests {
		if q.Status/100 == 2 && q.At > o.Back {
			delivered = min(delivered, q.At)
		}
	}
	return fmt.Sprintf("no primary for %v; accepting again %v after the promotion, delivering after %v",
		(o.Ready - o.Began).Round(time.Millisecond), (accepted - o.Ready).Round(time.Millisecond), (delivered - o.Ready).Round(time.Millisecond))
}
