package gateway

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"
)

// BenchmarkIsolation runs a whole gateway with one good target, alone and
// beside five bad ones in turns: one that never answers, one that drips a byte
// a second, one that resets half of its connections, one that always answers
// 500, and one whose name does not resolve. Every event goes to all of them, at
// a fixed rate that does not wait for answers. It prints the table of the
// rounds and reports, as medians, by how much the bad ones move the 99th
// percentile of the good target's arrivals and of the intake's answers: "good"
// and "intake" are with ÷ alone, and the bounds that hold are 1.5× + 5 ms and
// 1.2× + 5 ms ("good-over" and "intake-over": milliseconds beyond them).
//
//	go test -run '^$' -bench Isolation -benchtime 3x ./gateway
//
// A round takes twelve seconds.
func BenchmarkIsolation(b *testing.B) {
	const rate, length = 200, 5 * time.Second
	var rounds [][4]float64 // good alone, good with, intake alone, intake with, all p99 in ms
	for range b.N {
		goodAlone, intakeAlone := isolationRun(b, rate, length, false)
		goodWith, intakeWith := isolationRun(b, rate, length, true)
		rounds = append(rounds, [4]float64{goodAlone, goodWith, intakeAlone, intakeWith})
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "\nROUND\tGOOD ALONE\tGOOD WITH\tRATIO\tINTAKE ALONE\tINTAKE WITH\tRATIO\t(p99, ms)")
	for i, r := range rounds {
		fmt.Fprintf(t, "%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", i+1, r[0], r[1], r[1]/r[0], r[2], r[3], r[3]/r[2])
	}
	if err := t.Flush(); err != nil {
		b.Fatal(err)
	}
	of := func(f func(r [4]float64) float64) float64 {
		var all []float64
		for _, r := range rounds {
			all = append(all, f(r))
		}
		return median(all)
	}
	b.ReportMetric(of(func(r [4]float64) float64 { return r[1] / r[0] }), "good")
	b.ReportMetric(of(func(r [4]float64) float64 { return r[3] / r[2] }), "intake")
	b.ReportMetric(of(func(r [4]float64) float64 { return max(r[1]-1.5*r[0]-5, 0) }), "good-over")
	b.ReportMetric(of(func(r [4]float64) float64 { return max(r[3]-1.2*r[2]-5, 0) }), "intake-over")
	b.ReportMetric(0, "ns/op")
}

// isolationRun is one gateway's life under load: the 99th percentiles, in
// milliseconds from when an event was to be sent, of its arrival at the good
// target and of its answer.
func isolationRun(b *testing.B, rate int, length time.Duration, bad bool) (good, intake float64) {
	b.Helper()
	load := newIsolationLoad(rate, length)
	srv := httptest.NewServer(http.HandlerFunc(load.arrive))
	defer srv.Close()
	targets := map[string]string{"good": srv.URL}
	if bad {
		for name, serve := range map[string]func(net.Conn, int64){"hangs": hangs, "drips": drips, "resets": resets, "fails": fails} {
			targets[name] = badTarget(b, serve)
		}
		targets["nameless"] = "http://no..such.name/"
	}
	var toml strings.Builder
	fmt.Fprintf(&toml, "listen = \"127.0.0.1:0\"\ndrain = \"1s\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[store]\npath = %q\n[[source]]\nname = \"load\"\nprovider = \"none\"\noptions = { id = \"json:id\" }\ntargets = [", b.TempDir())
	for name := range targets {
		fmt.Fprintf(&toml, "%q, ", name)
	}
	toml.WriteString("]\n")
	for name, url := range targets {
		fmt.Fprintf(&toml, "[[target]]\nname = %q\nurl = %q\n", name, url)
	}
	cfg, faults := Parse("bench.toml", []byte(toml.String()), Env{})
	if faults.Failed() {
		b.Fatal(faults)
	}
	g, err := New(cfg, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()
	select {
	case <-g.Ready():
	case err := <-ended:
		ended <- err
		b.Fatal("the gateway ended: ", err)
	}
	addr, _ := g.Addr()
	return load.run(b, "http://"+addr+"/in/load")
}

// isolationLoad sends events at a fixed rate and times them.
type isolationLoad struct {
	every    time.Duration
	due      []time.Time // by event
	answered []time.Duration
	arrived  []atomic.Int64 // after it was due, in ns; 0: not yet
	missing  atomic.Int64
	all      chan struct{} // closed when everything has arrived
}

func newIsolationLoad(rate int, length time.Duration) *isolationLoad {
	n := int(length.Seconds() * float64(rate))
	l := &isolationLoad{
		every: time.Second / time.Duration(rate), due: make([]time.Time, n), answered: make([]time.Duration, n),
		arrived: make([]atomic.Int64, n), all: make(chan struct{}),
	}
	l.missing.Store(int64(n))
	return l
}

func (l *isolationLoad) arrive(_ http.ResponseWriter, r *http.Request) {
	now := time.Now()
	_, _ = io.Copy(io.Discard, r.Body)
	var n int
	if _, err := fmt.Sscanf(r.Header.Get("Onceward-Event-Id"), "evt_%d", &n); err != nil || n >= len(l.due) {
		return
	}
	if l.arrived[n].CompareAndSwap(0, int64(now.Sub(l.due[n]))) && l.missing.Add(-1) == 0 {
		close(l.all)
	}
}

func (l *isolationLoad) run(b *testing.B, url string) (good, intake float64) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	start := time.Now().Add(100 * time.Millisecond)
	for i := range l.due {
		l.due[i] = start.Add(time.Duration(i) * l.every)
	}
	var sending sync.WaitGroup
	var failed atomic.Int64
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := range l.due {
		timer.Reset(time.Until(l.due[i]))
		<-timer.C
		sending.Go(func() {
			body := fmt.Sprintf(`{"id":"evt_%d","pad":%q}`, i, strings.Repeat("p", 900))
			resp, err := client.Post(url, "application/json", strings.NewReader(body))
			if err != nil || resp.StatusCode != http.StatusOK {
				failed.Add(1)
			}
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			l.answered[i] = time.Since(l.due[i])
		})
	}
	sending.Wait()
	if failed.Load() > 0 {
		b.Fatalf("%d events were not taken", failed.Load())
	}
	select {
	case <-l.all:
	case <-time.After(30 * time.Second):
		b.Fatalf("%d events had not arrived at the good target after 30 s", l.missing.Load())
	}
	arrivals := make([]time.Duration, len(l.due))
	for i := range l.arrived {
		arrivals[i] = time.Duration(l.arrived[i].Load())
	}
	return p99(arrivals), p99(l.answered)
}

// p99 is the 99th percentile in milliseconds.
func p99(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)*99/100].Microseconds()) / 1000
}

// badTarget serves each connection, with its number, until the benchmark ends.
func badTarget(b *testing.B, serve func(c net.Conn, n int64)) (url string) {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var conns sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	conns.Go(func() {
		for n := int64(0); ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[c] = true
			mu.Unlock()
			conns.Go(func() {
				serve(c, n)
				_ = c.Close()
				mu.Lock()
				delete(open, c)
				mu.Unlock()
			})
		}
	})
	b.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		conns.Wait()
	})
	return "http://" + ln.Addr().String()
}

func hangs(c net.Conn, _ int64) { _, _ = io.Copy(io.Discard, c) }

func drips(c net.Conn, _ int64) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for _, letter := range []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Slow: " + strings.Repeat("y", 100)) {
		<-tick.C
		if _, err := c.Write([]byte{letter}); err != nil {
			return
		}
	}
}

// resets answers every other connection's requests and resets the rest.
func resets(c net.Conn, n int64) {
	if n%2 == 0 {
		answerAll(c, "200 OK")
		return
	}
	_, _ = c.Read(make([]byte, 1))
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
}

func fails(c net.Conn, _ int64) { answerAll(c, "500 Internal Server Error") }

// answerAll answers every request of a connection by its end, which is the end
// of the body that this load sends.
func answerAll(c net.Conn, status string) {
	buf := make([]byte, 16<<10)
	var last string
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if last += string(buf[:n]); strings.HasSuffix(last, `"}`) {
			last = ""
			if _, err := io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"); err != nil {
				return
			}
			return
		}
	}
}
