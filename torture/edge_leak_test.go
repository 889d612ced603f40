//go:build torture

package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// footprint is what a gateway holds at rest.
type footprint struct {
	goroutines, fds, heap float64
}

func (f footprint) String() string {
	return fmt.Sprintf("%v goroutines, %v descriptors, heap %d MiB", f.goroutines, f.fds, int(f.heap)>>20)
}

// busy sends n events to a slow target, a tenth of them on connections of
// their own, and waits until they are delivered.
func (e *edge) busy(n int, run string) (acked int64) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 32, DisableCompression: true}}
	once := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	var next, good atomic.Int64
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				c := client
				if i%10 == 0 {
					c = once
				}
				status, err := 0, error(nil)
				for try := 0; status == 0 && try < 10; try++ { // what was not answered is sent again
					status, _, _, err = e.bring(c, fmt.Sprint(run, "-", i), fmt.Appendf(nil, `{"run":%q,"n":%d}`, run, i))
				}
				if status == http.StatusOK && err == nil {
					good.Add(1)
				} else if status != http.StatusServiceUnavailable {
					e.t.Errorf("%s-%d was answered %d, %v", run, i, status, err)
					return
				}
			}
		})
	}
	all.Wait()
	client.CloseIdleConnections()
	must(e.t, poll(within(e.t, 5*time.Minute), 100*time.Millisecond, func() (bool, error) {
		k, err := e.p.Pending(context.WithoutCancel(e.t.Context()))
		return k == 0, err
	}))
	return good.Load()
}

// rest is the smallest footprint within a while: the heap as the collector
// left it, worked out of when it runs next.
func (e *edge) rest() footprint {
	var least footprint
	for i := range 40 {
		m := e.metrics()
		live := m["go_memstats_next_gc_bytes"] / (1 + m["go_gc_gogc_percent"]/100)
		now := footprint{m["go_goroutines"], float64(e.fds()), live}
		if i == 0 {
			least = now
		}
		least.goroutines, least.fds, least.heap = min(least.goroutines, now.goroutines), min(least.fds, now.fds), min(least.heap, now.heap)
		must(e.t, Wait(e.t.Context(), 100*time.Millisecond))
	}
	return least
}

// leaks runs a load and lists what a gateway holds afterwards that it did not
// before.
func leaks(e *edge, n int) (faults []string, before, after footprint, acked int64) {
	target := e.target()
	target.delay = 5 * time.Millisecond
	e.configure("", e.signedSource(`"slow"`)+target.config("slow")+"concurrency = 128\n")
	e.boot()
	acked = e.busy(n/10, "warm")
	before = e.rest()
	acked += e.busy(n, "load")
	after = e.rest()
	for _, f := range []struct {
		what              string
		was, is, addition float64
	}{
		{"goroutines", before.goroutines, after.goroutines, 16},
		{"descriptors", before.fds, after.fds, 16},
		{"heap", before.heap, after.heap, 16 << 20},
	} {
		if f.is > f.was*1.1+f.addition {
			faults = append(faults, fmt.Sprintf("%s: %v before, %v after %d events", f.what, f.was, f.is, n))
		}
	}
	return faults, before, after, acked
}

// TestEdgeLeaks has a gateway with a slow target take 40,000 events, a million
// in tier N: at rest it holds what it held before.
func TestEdgeLeaks(t *testing.T) {
	t.Parallel()
	n := count(t, "TORTURE_EVENTS", 40_000)
	if long() {
		n = count(t, "TORTURE_EVENTS", 1_000_000)
	}
	res := &Result{Fault: "leaks over many events", Cycles: 1}
	record(t, res)
	e := newEdge(t, asShipped, "", "")
	faults, before, after, acked := leaks(e, n)
	for _, f := range faults {
		t.Error(f)
	}
	res.Acknowledged = int(acked)
	if n < 100_000 {
		res.Lost = e.missing(res.Acknowledged)
	}
	res.Note = fmt.Sprintf("before: %v; after %d events: %v", before, n, after)
	fmt.Println(res.Note)
}

// TestControlEdgeLeaks leaves a goroutine behind with every connection.
func TestControlEdgeLeaks(t *testing.T) {
	t.Parallel()
	e := newEdge(t, leaking, "", "")
	faults, before, after, _ := leaks(e, 5000)
	noticed(t, "a goroutine left with every connection", 0, len(faults) > 0, fmt.Sprintf("before: %v; after: %v", before, after))
}
