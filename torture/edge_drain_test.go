//go:build torture

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// status reads the answer to one request.
func status(c net.Conn) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodPost})
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

// drainage is what one stop under load came to.
type drainage struct {
	acked, resets int
	took          time.Duration
	first         string // what /readyz said first that was not 200
	exit          error
	why           error // of the last request that was cut
}

// drain stops a gateway under load. Senders open a connection for each
// request, and every fourth sends its body so long after its head that the
// listener closes in between: requests the gateway had begun to read must be
// answered. Those are the ones whose connection was there a second before that: a
// later one may wait in the kernel, of which nobody outside can say whether it
// was taken from there.
func drain(e *edge, random *rand.Rand) (out drainage) {
	ctx, enough := context.WithCancel(within(e.t, time.Minute))
	defer enough()
	var mu sync.Mutex
	var all sync.WaitGroup
	start := time.Now().Add(time.Hour) // until the stop is asked for
	for s := range 12 {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("drain-%d-%d-%d", e.p.cmd.Process.Pid, s, i)
				n, opened, err := e.once(id, time.Duration(s%4/3)*4*time.Second)
				mu.Lock()
				switch {
				case n == http.StatusOK:
					out.acked++
				case errors.Is(err, errNotBegun):
					mu.Unlock()
					return // nobody listens any more
				case n == 0 && opened.Before(start.Add(2*time.Second)):
					out.resets++
					out.why = err
				}
				mu.Unlock()
			}
		})
	}
	all.Go(func() { out.first = e.firstUnready(ctx) })
	must(e.t, Wait(ctx, 150*time.Millisecond+time.Duration(random.IntN(300))*time.Millisecond))
	mu.Lock()
	start = time.Now()
	mu.Unlock()
	must(e.t, e.p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case out.exit = <-e.p.done:
		e.p.cmd = nil
	case <-ctx.Done():
		out.exit = errors.New("never ended")
	}
	out.took = time.Since(start)
	enough()
	all.Wait()
	return out
}

var errNotBegun = errors.New("the gateway takes no connection")

// once sends one event on a connection of its own and says when that was
// there. A connection that is not taken is errNotBegun.
func (e *edge) once(id string, gap time.Duration) (code int, opened time.Time, err error) {
	c, err := net.Dial("tcp", e.p.Public)
	if err != nil {
		return 0, opened, errNotBegun
	}
	opened = time.Now()
	defer c.Close()
	text := []byte(e.rawSigned(id, fmt.Sprintf(`{"id":%q}`, id)))
	cut := bytes.Index(text, []byte("\r\n\r\n")) + 6
	if _, err := c.Write(text[:cut]); err != nil {
		return 0, opened, fmt.Errorf("head: %w", err)
	}
	if gap > 0 {
		t := time.NewTimer(gap)
		<-t.C
	}
	if _, err := c.Write(text[cut:]); err != nil {
		return 0, opened, fmt.Errorf("body: %w", err)
	}
	code, err = status(c)
	return code, opened, err
}

// firstUnready asks whether the gateway is ready until it says no or nothing.
func (e *edge) firstUnready(ctx context.Context) string {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		resp, err := client.Get(e.url("/readyz"))
		switch {
		case err != nil:
			return "no answer"
		case resp.StatusCode != http.StatusOK:
			resp.Body.Close()
			return fmt.Sprint(resp.StatusCode)
		}
		resp.Body.Close()
		if Wait(ctx, 5*time.Millisecond) != nil {
			break
		}
	}
	return "never"
}

// The drain is longer than any request takes on a machine that does much else,
// and readiness ends long enough before it to be seen.
const (
	draining   = "drain = \"30s\"\nreadiness_delay = \"3s\"\n"
	drainLimit = 30*time.Second + 3*time.Second + 3*time.Second
)

// drained is how many gateways are stopped at once: a stop is waiting, mostly.
const drained = 4

// TestEdgeDrain stops gateways under load again and again: each says that it is
// not ready before it takes no more, every request it had begun is answered,
// and it ends in time, with 0.
func TestEdgeDrain(t *testing.T) {
	t.Parallel()
	cycles := count(t, "TORTURE_STOPS", 20)
	if long() {
		cycles = count(t, "TORTURE_STOPS", 100)
	}
	s := seed(t)
	res := &Result{Fault: "stops under load", Seed: s, Cycles: cycles}
	record(t, res)
	var slowest [drained]time.Duration
	var all sync.WaitGroup
	for g := range drained {
		e := newEdge(t, asShipped, draining, e2signed())
		all.Go(func() {
			slowest[g] = e.drains(rand.New(rand.NewPCG(s, 20+uint64(g))), (cycles+g)/drained, res)
		})
	}
	all.Wait()
	res.Note = fmt.Sprintf("%d stops, no request cut, not ready first, the slowest took %v", cycles, slices.Max(slowest[:]).Round(time.Millisecond))
}

// drains starts and stops one gateway n times, and looks whether all is there
// that it acknowledged.
func (e *edge) drains(random *rand.Rand, n int, res *Result) (slowest time.Duration) {
	acked := 0
	for i := range n {
		e.boot()
		d := drain(e, random)
		acked += d.acked
		slowest = max(slowest, d.took)
		if d.resets > 0 || d.first != "503" || d.exit != nil || d.took > drainLimit || d.acked == 0 {
			e.t.Errorf("stop %d: %d requests cut (%v), readiness first said %s, ended with %v after %v, acknowledged %d", i, d.resets, d.why, d.first, d.exit, d.took, d.acked)
		}
	}
	e.boot()
	res.add(Verdict{Acknowledged: acked, Lost: e.missing(acked)})
	must(e.t, e.p.Stop(within(e.t, e.stopTime())))
	return slowest
}

// TestEdgeSecondSignal: a second signal ends a drain at once, and a signal
// during start-up ends the start in order.
func TestEdgeSecondSignal(t *testing.T) {
	t.Parallel()
	res := &Result{Fault: "signals while starting and stopping", Cycles: 12}
	record(t, res)
	e := newEdge(t, asShipped, "drain = \"10m\"\n", openSource+e2signed())
	e.boot()
	c := e.dial() // a request under way that never ends by itself
	defer c.Close()
	io.WriteString(c, slowBody)
	must(t, Wait(t.Context(), 100*time.Millisecond))
	must(t, e.p.cmd.Process.Signal(syscall.SIGTERM))
	must(t, Wait(t.Context(), time.Second))
	if !e.alive() {
		t.Fatal("the gateway did not wait for a request under way")
	}
	second := time.Now()
	must(t, e.p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-e.p.done:
	case <-time.After(time.Minute):
		t.Error("the second signal did not end the gateway")
	}
	res.Note = fmt.Sprintf("ended %v after the second signal", time.Since(second).Round(time.Millisecond))
	e.p.cmd = nil
	for i := range 11 {
		must(t, e.p.Start())
		must(t, Wait(t.Context(), time.Duration(i*i)*3*time.Millisecond))
		must(t, e.p.cmd.Process.Signal(syscall.SIGTERM))
		select {
		case err := <-e.p.done:
			if err != nil && !killedBy(err, syscall.SIGTERM) {
				t.Errorf("told to stop %d ms after its start: ended with %v\n%s", i*i*3, err, e.p.logTail())
			}
		case <-time.After(time.Minute):
			t.Errorf("told to stop %d ms after its start: never ended", i*i*3)
		}
		e.p.cmd = nil
	}
	e.boot()
	must(t, e.p.Stop(within(t, e.stopTime())))
}

// killedBy reports whether a process ended by a signal it had not begun to
// catch: the first milliseconds of any program.
func killedBy(err error, sig syscall.Signal) bool {
	var exit interface{ Sys() any }
	if !errors.As(err, &exit) {
		return false
	}
	ws, ok := exit.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == sig
}

// TestControlEdgeDrain cuts every connection at a stop.
func TestControlEdgeDrain(t *testing.T) {
	t.Parallel()
	e := newEdge(t, noDrain, draining, e2signed())
	random := rand.New(rand.NewPCG(1, 20))
	resets := 0
	for range 3 {
		e.boot()
		resets += drain(e, random).resets
	}
	noticed(t, "a stop cuts connections", 0, resets > 0, fmt.Sprintf("%d requests were cut in 3 stops", resets))
}
