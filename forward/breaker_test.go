package forward

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// machine is a breaker with the default rules and a clock.
type machine struct {
	breaker
	now time.Time
}

func newMachine(cfg Breaker) *machine {
	cfg.fill()
	m := &machine{now: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)}
	m.configure(cfg, m.at())
	return m
}

func (m *machine) at() moment { return moment{m.now, m.now} }

// results takes in results, s for good ones and f for failures, and returns
// after how many it opened, 0 for never.
func (m *machine) results(rs string) int {
	for i, r := range rs {
		if m.record(r == 'f', 0, m.at(), "status 503"); m.open {
			return i + 1
		}
	}
	return 0
}

func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	rep := func(s string, n int) (out string) {
		for range n {
			out += s
		}
		return out
	}
	for _, tt := range []struct {
		name    string
		cfg     Breaker
		results string
		want    int
	}{
		{"only failures", Breaker{}, rep("f", 50), 10},
		{"nine failures", Breaker{}, rep("f", 9), 0},
		{"failures after a long good time", Breaker{}, rep("s", 1000) + rep("f", 50), 1010},
		{"ten of eleven", Breaker{}, rep("f", 5) + "s" + rep("f", 5), 11},
		{"ten of twelve", Breaker{}, rep("f", 4) + "s" + rep("f", 3) + "s" + rep("f", 3), 0},
		{"every other one", Breaker{}, rep("fs", 500), 0},
		{"two of three", Breaker{}, rep("ffs", 500), 0},
		{"half, by the rules", Breaker{Failures: 5, Ratio: 0.5}, rep("fs", 500), 9},
		{"all of three", Breaker{Failures: 3, Ratio: 1}, "ffsffsfff", 9},
		{"the first one", Breaker{Failures: 1, Ratio: 1}, "sf", 2},
		{"off", Breaker{Off: true}, rep("f", 100), 0},
	} {
		if got := newMachine(tt.cfg).results(tt.results); got != tt.want {
			t.Errorf("%s: opens after %d, want %d", tt.name, got, tt.want)
		}
	}
}

// For any results the breaker opens exactly when so many of the last ones
// failed.
func TestBreakerCounts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		cfg := Breaker{Failures: 1 + rng.IntN(12), Ratio: 0.05 + 0.95*rng.Float64()}
		m := newMachine(cfg)
		window := int(float64(cfg.Failures) / cfg.Ratio)
		var all []bool
		for range 300 {
			all = append(all, rng.Float64() < 0.6)
			fails := 0
			for _, f := range all[max(0, len(all)-window):] {
				if f {
					fails++
				}
			}
			m.record(all[len(all)-1], 0, m.at(), "x")
			if m.open != (fails >= cfg.Failures) {
				t.Fatalf("seed %d: open is %v after %d of the last %d failed, rules %+v", seed, m.open, fails, window, cfg)
			}
			if m.open {
				break
			}
		}
	}
}

// Probes come one at a time, at intervals that double up to the longest; one
// that doesn't fail closes the breaker.
func TestBreakerProbes(t *testing.T) {
	t.Parallel()
	m := newMachine(Breaker{})
	m.results("ffffffffff")
	var waits []time.Duration
	for range 9 {
		_, wait, ok := m.probe(m.now)
		if ok || wait <= 0 {
			t.Fatalf("a probe at once, or no wait: %v %v", wait, ok)
		}
		waits = append(waits, wait)
		m.now = m.now.Add(wait)
		token, _, ok := m.probe(m.now)
		if !ok {
			t.Fatal("no probe when it is due")
		}
		if _, wait, ok := m.probe(m.now.Add(time.Hour)); ok || wait != 0 {
			t.Errorf("a second probe beside the first: %v %v", wait, ok)
		}
		if m.record(false, 0, m.at(), "2xx"); !m.open {
			t.Fatal("a result that began before closed it")
		}
		if m.record(true, token+1, m.at(), "x"); m.probing != token {
			t.Fatal("another probe's result ended this one")
		}
		m.record(true, token, m.at(), "status 503")
	}
	s := time.Second
	want := []time.Duration{5 * s, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s, 300 * s}
	if !slices.Equal(waits, want) {
		t.Errorf("waits %v, want %v", waits, want)
	}
	if st := m.status(); st.State != BreakerOpen || st.Probes != 9 || len(st.History) != 1 {
		t.Errorf("status = %+v, want open after 9 probes and one turn", st)
	}
	m.now = m.probeAt
	token, _, _ := m.probe(m.now)
	if m.status().State != BreakerHalfOpen {
		t.Errorf("state during a probe = %s", m.status().State)
	}
	m.abandon(token)
	if token, _, ok := m.probe(m.now); !ok || !m.record(false, token, m.at(), "2xx") || m.open {
		t.Error("a probe in place of one that was given up doesn't close it")
	}
	if n := m.results("ffffffffff"); n != 10 || m.wait != 300*s {
		t.Errorf("opened after %d with a wait of %v, want 10 and the longest: it failed as soon as it was let", n, m.wait)
	}
	token, _, _ = m.probe(m.now.Add(m.wait))
	m.record(false, token, m.at(), "2xx")
	m.now = m.now.Add(time.Hour)
	if m.results("ffffffffff"); m.wait != 5*s {
		t.Errorf("wait %v after an hour without fault, want the first one again", m.wait)
	}
}

func TestBreakerIsKept(t *testing.T) {
	t.Parallel()
	m := newMachine(Breaker{})
	for i := range 60 {
		m.results("ffffffffff")
		m.now = m.probeAt
		token, _, _ := m.probe(m.now)
		m.record(false, token, m.at(), fmt.Sprint("try ", i))
		m.now = m.now.Add(time.Hour)
	}
	m.results("ffffffffff")
	h := m.status().History
	if len(h) != maxHistory || h[maxHistory-1].State != BreakerOpen || h[maxHistory-2].Reason != "a probe was answered with try 59" {
		t.Fatalf("history of %d turns ends with %+v", len(h), h[len(h)-2:])
	}
	if want := "10 of the last 10 attempts failed, the last with status 503"; h[maxHistory-1].Reason != want {
		t.Errorf("reason %q, want %q", h[maxHistory-1].Reason, want)
	}
	m.now = m.probeAt
	m.probe(m.now)
	value, err := json.Marshal(m.kept())
	if err != nil {
		t.Fatal(err)
	}
	back := newMachine(Breaker{})
	if err := back.restore(value); err != nil {
		t.Fatal(err)
	}
	if got, want := back.status(), m.status(); got.State != BreakerOpen || !got.ProbeAt.Equal(want.ProbeAt) || fmt.Sprint(got.History) != fmt.Sprint(want.History) {
		t.Errorf("comes back as %+v, want %+v and open", got, want)
	}
	if _, _, ok := back.probe(m.now); !ok {
		t.Error("the probe that was cut off is not due again")
	}
	off := newMachine(Breaker{Off: true})
	if err := off.restore(value); err != nil || off.open {
		t.Errorf("a breaker that is switched off comes back open: %v", err)
	}
	if err := back.restore([]byte("{")); err == nil {
		t.Error("garbage is no error")
	}
	if !m.configure(Breaker{Off: true, Failures: 1, Ratio: 1, Probe: 1, ProbeMax: 1}, m.at()) || m.open {
		t.Error("switching it off leaves it open")
	}
}
