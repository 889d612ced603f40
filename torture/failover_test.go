//go:build torture

package main

import (
	"fmt"
	"testing"
	"time"
)

// failover runs two gateways over a failover of their database, in the size
// for each change.
func failover(t *testing.T, s uint64, behind bool) (*FailoverRun, FleetEvidence, FleetVerdict) {
	t.Helper()
	r, err := Failover(within(t, 10*time.Minute), FailoverConfig{
		Binary: built(t, asShipped), Dir: keep(t), Gateways: 2, Seed: s, For: 6 * time.Second, Rate: 100, Behind: behind, Renew: true, Told: t.Logf,
	})
	must(t, err)
	t.Cleanup(func() {
		if err := r.Close(); err != nil && !t.Failed() {
			t.Errorf("close the run: %v", err)
		}
	})
	e, err := r.Fleet.Evidence(within(t, 5*time.Minute), r.Fleet.Members[1])
	must(t, err)
	return r, e, JudgeFleet(e)
}

// TestFailover stops the primary under load and promotes the standby that
// confirmed every commit: nothing acknowledged is lost, and nothing is
// acknowledged in between.
func TestFailover(t *testing.T) {
	t.Parallel()
	s := seed(t)
	res := &Result{Fault: "2 gateways, the database's primary stopped and its standby promoted", Seed: s, Cycles: 1}
	record(t, res)
	r, e, v := failover(t, s, false)
	res.add(v.Verdict)
	res.Note = r.Recovery(e)
	fmt.Printf("%s%s\n", v.String(), res.Note)
	if !v.OK() {
		t.Error("the gateways broke their promises; see above")
	}
	if v.Silent == 0 || v.Acknowledged < 200 {
		t.Errorf("%d answers without a primary and %d events acknowledged: that proves little", v.Silent, v.Acknowledged)
	}
	account(t, r.Fleet, e)
}

// TestControlFailover promotes a standby that is behind: the loss must be seen,
// by the suite and by the gateways.
func TestControlFailover(t *testing.T) {
	t.Parallel()
	s := seed(t)
	res := &Result{Fault: "2 gateways, a standby promoted that was behind", Seed: s, Control: true, Cycles: 1}
	record(t, res)
	r, _, v := failover(t, s, true)
	res.add(v.Verdict)
	res.Seen = v.Lost > 0
	res.Note = fmt.Sprintf("acknowledged %d, lost %d; %d gateways noticed by themselves and ended", v.Acknowledged, v.Lost, r.Noticed)
	fmt.Printf("control, a standby that is behind: %s\n", res.Note)
	if !res.Seen {
		t.Errorf("the suite would not see what a failover loses\n%s", v.String())
	}
}
