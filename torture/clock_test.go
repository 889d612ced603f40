//go:build torture && linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// testClock is a gateway whose wall clock is moved by a file.
const testClock = "testclock"

// jumpingRig is a rig whose gateway's clock is set by setClock. The providers'
// clocks are right all the time.
func jumpingRig(t *testing.T, s uint64, tags string) (*Rig, func(time.Duration)) {
	t.Helper()
	bin := built(t, tags)
	dir := keep(t)
	r := newRig(t, bin, Layout{Dir: dir, Data: filepath.Join(dir, "data")}, s)
	file := filepath.Join(dir, "clock")
	set := func(d time.Duration) {
		must(t, os.WriteFile(file+".new", []byte(d.String()), 0o600))
		must(t, os.Rename(file+".new", file))
	}
	set(0)
	r.Proc.Env = []string{"ONCEWARD_TESTCLOCK=" + file}
	return r, set
}

// TestClockJumps sets the gateway's clock wrong and right again, forward and
// back, under load and while it is down: nothing is forgotten or delivered
// again, no retry is stuck, refusals for the time say so, and every jump is
// counted.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	each := 2
	if long() {
		each = 4
	}
	s := seed(t)
	res := &Result{Fault: "clock set wrong and right again", Seed: s}
	record(t, res)
	built(t, testClock) // not in the time of the first
	for i, by := range []time.Duration{24 * time.Hour, -24 * time.Hour, 400 * time.Second, -400 * time.Second, 25 * time.Hour, 960 * time.Hour} {
		for _, atStart := range []bool{false, true} {
			if atStart && by > 48*time.Hour {
				continue // as long a time down, for all anybody can tell
			}
			name := by.String() + " under load"
			if atStart {
				name = by.String() + " at start"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r, set := jumpingRig(t, s+uint64(i), testClock)
				v := clockJumps(t, r, set, by, atStart, each)
				res.cycle(each)
				res.add(v)
				if !v.OK() {
					t.Errorf("the gateway broke its promises:\n%s", v.String())
				}
			})
		}
	}
}

func clockJumps(t *testing.T, r *Rig, set func(time.Duration), by time.Duration, atStart bool, each int) Verdict {
	t.Helper()
	ctx := within(t, 2*time.Minute)
	random := rand.New(rand.NewPCG(uint64(by), 5000))
	must(t, r.Boot(ctx))
	r.Load()
	must(t, Wait(ctx, 300*time.Millisecond))
	for range each {
		jump := func(to time.Duration) {
			if atStart {
				must(t, r.Kill(ctx))
			}
			set(to)
			if atStart {
				must(t, r.Boot(ctx))
			}
			must(t, Wait(ctx, between(random, 200*time.Millisecond, 400*time.Millisecond)))
		}
		jump(by)
		if !atStart {
			must(t, counted(ctx, r, by)) // it looks every second
		}
		jump(0)
	}
	must(t, refusedForTime(ctx, r, by))
	if atStart && by != 24*time.Hour && by != 400*time.Second {
		must(t, warned(r))
	}
	r.EndLoad()
	v, _ := settle(t, r, 0, 50)
	return v
}

// counted waits until the gateway has counted a jump in the direction of by.
func counted(ctx context.Context, r *Rig, by time.Duration) error {
	direction := "forward"
	if by < 0 {
		direction = "back"
	}
	err := poll(ctx, 50*time.Millisecond, func() (bool, error) {
		n, err := metric(ctx, r, `onceward_clock_jumps_total{direction="`+direction+`"}`)
		return n > 0, err
	})
	if err != nil {
		return fmt.Errorf("jump by %v is not counted: %w", by, err)
	}
	return warned(r)
}

func metric(ctx context.Context, r *Rig, series string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Proc.Admin+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("no series %s", series)
}

// warned wants the log to speak of the clock.
func warned(r *Rig) error {
	log, err := os.ReadFile(r.Proc.Log)
	if err != nil {
		return err
	}
	if !containsAny(string(log), "clock is behind", "clock was set", "clock is far ahead") {
		return errors.New("nothing in the log speaks of the clock")
	}
	return nil
}

// refusedForTime wants requests with a time in their signature refused with
// that reason and the skew, and requests without one taken.
func refusedForTime(ctx context.Context, r *Rig, by time.Duration) error {
	out, err := r.Proc.Ask(ctx, "refusals", "list", "--limit", "500", "-o", "jsonl")
	if err != nil {
		return err
	}
	want := "timestamp_old"
	if by < 0 {
		want = "timestamp_future"
	}
	sent, err := r.Sender.Sent()
	if err != nil {
		return err
	}
	refused := 0
	for _, a := range sent {
		if a.Status == http.StatusUnauthorized {
			refused++
			if a.Source == "github" {
				return fmt.Errorf("%s carries no time and was refused", a.ID)
			}
		}
	}
	if refused == 0 {
		return errors.New("no request was refused for its time: the jump was not seen")
	}
	if len(out) > 0 && !strings.Contains(string(out), want) { // kept in memory: a restart empties it
		return fmt.Errorf("no refusal says %s:\n%.600s", want, out)
	}
	return nil
}

// TestControlClockJumps has a gateway whose ledger goes by the wall clock: a
// clock set 40 days ahead makes it forget, and what it knew is taken for new.
func TestControlClockJumps(t *testing.T) {
	t.Parallel()
	s := seed(t)
	res := &Result{Fault: "clock set wrong, ledger time by the wall clock", Seed: s, Control: true, Cycles: 1}
	record(t, res)
	r, set := jumpingRig(t, s, testClock+","+unguarded)
	ctx := within(t, time.Minute)
	must(t, r.Boot(ctx))
	r.Load()
	must(t, Wait(ctx, 300*time.Millisecond))
	r.EndLoad()
	must(t, r.Quiesce(ctx))
	e, err := r.Evidence(ctx, 0)
	must(t, err)
	set(960 * time.Hour)
	r.Load()
	must(t, Wait(ctx, 300*time.Millisecond))
	r.EndLoad()
	set(0)
	n, err := r.Resend(e, 50)
	res.Seen = err != nil && strings.Contains(err.Error(), "answered as new")
	res.Note = fmt.Sprintf("of %d events sent again some were taken for new", n)
	if !res.Seen {
		t.Errorf("nothing was taken for new: the suite would not see it: %v", err)
	}
}
