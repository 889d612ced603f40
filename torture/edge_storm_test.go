//go:build torture

package main

import (
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"
)

const stormers = 64

// storm has 64 connections bring every one of ids at the same moment, as often
// as it takes until each was told 2xx, and returns how often each was told to
// be new. between is called before the i-th ID.
func storm(e *edge, ids int, between func(i int)) (fresh []int, faults []string) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: stormers, DisableCompression: true}}
	defer client.CloseIdleConnections()
	fresh = make([]int, ids)
	var mu sync.Mutex
	deadline := within(e.t, 3*time.Minute)
	for i := range ids {
		between(i)
		id, body := fmt.Sprint("storm-", i), fmt.Appendf(nil, `{"storm":%d}`, i)
		var all sync.WaitGroup
		// A large event before them keeps the ledger busy, so that they meet.
		all.Go(func() {
			_, _, _, _ = e.bring(client, "cover-"+id, noise(256<<10)) // it may meet a restart
		})
		for range stormers {
			all.Go(func() {
				for deadline.Err() == nil {
					status, repeat, _, err := e.bring(client, id, body)
					if status == http.StatusOK && err == nil {
						if !repeat {
							mu.Lock()
							fresh[i]++
							mu.Unlock()
						}
						return
					}
					if status != 0 && status != http.StatusServiceUnavailable {
						mu.Lock()
						faults = append(faults, fmt.Sprintf("%s was answered %d", id, status))
						mu.Unlock()
						return
					}
					if Wait(deadline, 20*time.Millisecond) != nil { // the gateway starts again
						return
					}
				}
			})
		}
		all.Wait()
	}
	return fresh, faults
}

// doubles counts the IDs that were accepted more than once, by the answers or
// by the account, and those that were lost.
func (e *edge) doubles(fresh []int) (twice, lost int) {
	stored := map[string]int{}
	for _, s := range e.account() {
		stored[s.ID]++
	}
	for i, n := range fresh {
		switch k := stored[fmt.Sprint("storm-", i)]; {
		case k == 0:
			lost++
		case k > 1 || n > 1:
			twice++
		}
	}
	return twice, lost
}

// TestEdgeSameID has 64 senders bring each of 1,000 events at once, over
// reloads, a restart and a kill: each is accepted once.
func TestEdgeSameID(t *testing.T) {
	t.Parallel()
	const ids = 1000
	res := &Result{Fault: "same-ID storm, 64 at once", Cycles: ids}
	record(t, res)
	e := newEdge(t, asShipped, "drain = \"5s\"\n", e2signed())
	e.boot()
	var restarts sync.WaitGroup
	fresh, faults := storm(e, ids, func(i int) {
		restarts.Wait()
		switch {
		case i == ids/3:
			restarts.Go(func() {
				must(t, e.p.Stop(within(t, e.stopTime())))
				must(t, e.p.Start())
			})
		case i == ids*2/3:
			restarts.Go(func() {
				must(t, e.p.Kill())
				must(t, e.p.Start())
			})
		case i%50 == 49:
			must(t, e.p.cmd.Process.Signal(syscall.SIGHUP))
		}
	})
	restarts.Wait()
	for _, f := range faults {
		t.Error(f)
	}
	must(t, e.p.WaitReady(within(t, 20*time.Second)))
	res.Twice, res.Lost = e.doubles(fresh)
	res.Acknowledged = ids
	if res.Twice+res.Lost > 0 {
		t.Errorf("accepted twice %d, lost %d of %d", res.Twice, res.Lost, ids)
	}
	again := e.metrics()[`onceward_dedupe_hits_total{source="gh"}`]
	res.Note = fmt.Sprintf("64,000 requests of 1,000 events over 18 reloads, a restart and a kill: the last process told %v of them that they are repeats", again)
}

// TestControlEdgeSameID has requests of one batch not see each other.
func TestControlEdgeSameID(t *testing.T) {
	t.Parallel()
	e := newEdge(t, blind, "", e2signed())
	e.boot()
	fresh, _ := storm(e, 200, func(int) {})
	twice, _ := e.doubles(fresh)
	noticed(t, "in-flight requests not seen", 0, twice > 0, fmt.Sprintf("%d of 200 events were accepted twice", twice))
}
