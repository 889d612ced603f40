//go:build torture

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// budget is what the gateway under test may hold in memory that no file backs:
// its memory_limit, and the body bytes in flight beside it, with a fifth on
// top.
const budget = (256<<20 + 64<<20) * 6 / 5

// dribbler sends a request a byte at a time on a connection of its own until
// the gateway ends it, and says how long that took.
func (e *edge) dribbler(ctx context.Context, head, rest string) (time.Duration, error) {
	c, err := net.Dial("tcp", e.p.Public)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	start := time.Now()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(io.Discard, c) // an answer, and then the end
	}()
	io.WriteString(c, head)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ended:
			return time.Since(start), nil
		case <-ctx.Done():
			c.Close()
			<-ended
			return 0, fmt.Errorf("open after %v", time.Since(start).Round(time.Second))
		case <-tick.C:
			io.WriteString(c, rest[i%len(rest):][:1])
		}
	}
}

// slowHeads and slowBodies never end by themselves.
const (
	slowHead = "POST /in/open HTTP/1.1\r\nHost: x\r\nX-Slow: "
	slowBody = "POST /in/open HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
)

// TestEdgeSlowSenders has 2,000 connections dribble: half their headers, half
// their bodies. A good request is answered all the while, and every one of
// them is closed, 30 s after its time-out's beginning at the latest, and what a
// machine that does much else adds to that.
func TestEdgeSlowSenders(t *testing.T) {
	t.Parallel()
	res := &Result{Fault: "slow senders", Cycles: 2000}
	record(t, res)
	e := newEdge(t, asShipped, "", openSource+e2signed())
	e.boot()
	ctx := within(t, 45*time.Second)
	var slow sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	for i := range res.Cycles {
		slow.Go(func() {
			text := [...]string{slowHead, slowBody}[i%2]
			d, err := e.dribbler(ctx, text, "aaaa")
			mu.Lock()
			defer mu.Unlock()
			if took = append(took, d); err != nil && len(took) < 10 {
				t.Errorf("a slow connection is %v", err)
			}
		})
	}
	done := make(chan struct{})
	go func() { slow.Wait(); close(done) }()
	var good []time.Duration
	for i := 0; ; i++ {
		start := time.Now()
		status, _, _, err := e.bring(e.http, fmt.Sprint("good-", i), noise(1000))
		if good = append(good, time.Since(start)); err != nil || status != http.StatusOK {
			t.Errorf("a good request among slow ones got %d, %v", status, err)
		}
		if status == http.StatusOK {
			res.Acknowledged++
		}
		select {
		case <-done:
		case <-time.After(100 * time.Millisecond):
			continue
		}
		break
	}
	slices.Sort(good)
	slices.Sort(took)
	res.Note = fmt.Sprintf("2,000 connections a byte a second: %d good requests meanwhile, p99 %v; the last one closed after %v",
		len(good), good[len(good)*99/100].Round(time.Millisecond), took[len(took)-1].Round(time.Second/10))
	if worst := good[len(good)-1]; worst > 5*time.Second {
		t.Errorf("a good request took %v", worst)
	}
	if last := took[len(took)-1]; last > 40*time.Second {
		t.Errorf("the last slow connection was closed after %v", last)
	}
	res.Lost = e.missing(res.Acknowledged)
}

// e2signed is the signed source of every edge test, without targets.
func e2signed() string {
	return (&edge{gh: &Source{Secret: edgeSecret}}).signedSource("")
}

// missing is how many of n acknowledged events are not in the account.
func (e *edge) missing(n int) int {
	e.t.Helper()
	return max(0, n-len(e.account()))
}

// TestControlEdgeSlow takes the time-outs away: connections that dribble their
// headers are still there long after they should not be.
func TestControlEdgeSlow(t *testing.T) {
	t.Parallel()
	e := newEdge(t, noLimits, "", openSource)
	e.boot()
	ctx, enough := context.WithTimeout(t.Context(), 20*time.Second)
	defer enough()
	var open atomic.Int64
	var slow sync.WaitGroup
	for range 50 {
		slow.Go(func() {
			if _, err := e.dribbler(ctx, slowHead, "a"); err != nil {
				open.Add(1)
			}
		})
	}
	slow.Wait()
	noticed(t, "no time-outs", 0, open.Load() > 0, fmt.Sprintf("%d of 50 slow header blocks open after 20 s", open.Load()))
}

// floods are header blocks that are too large.
func floods() map[string]string {
	many := strings.Builder{}
	for i := range 9000 {
		fmt.Fprintf(&many, "X-%d: a\r\n", i)
	}
	return map[string]string{
		"one header of 100 KiB":   "POST /in/open HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 100<<10) + "\r\n\r\n",
		"9,000 headers":           "POST /in/open HTTP/1.1\r\nHost: x\r\n" + many.String() + "\r\n",
		"a name of 100 KiB":       "POST /in/open HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A", 100<<10) + ": a\r\n\r\n",
		"a path of 100 KiB":       "POST /in/open?" + strings.Repeat("a", 100<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"a method of 100 KiB":     strings.Repeat("P", 100<<10) + " /in/open HTTP/1.1\r\nHost: x\r\n\r\n",
		"a header without an end": "POST /in/open HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 8<<20),
	}
}

// flood sends them and lists those that were not answered 431 or cut.
func flood(e *edge) (faults []string) {
	for name, text := range floods() {
		answers, closed := e.exchange(text)
		if len(answers) > 1 || !closed || len(answers) == 1 && answers[0].StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			status := 0
			if len(answers) > 0 {
				status = answers[0].StatusCode
			}
			faults = append(faults, fmt.Sprintf("%s: answered %d, closed %v, want 431 and the end", name, status, closed))
		}
	}
	return faults
}

// TestEdgeHeaderFloods sends header blocks past the limit, one by one, and on
// 300 connections at once.
func TestEdgeHeaderFloods(t *testing.T) {
	t.Parallel()
	res := &Result{Fault: "header floods", Cycles: 300 + len(floods())}
	record(t, res)
	e := newEdge(t, asShipped, "", openSource)
	e.boot()
	for _, f := range flood(e) {
		t.Error(f)
	}
	peak := e.watch()
	var all sync.WaitGroup
	text := floods()["a header without an end"]
	for range 300 {
		all.Go(func() {
			c := e.dial()
			defer c.Close()
			io.WriteString(c, text)
		})
	}
	all.Wait()
	if p := peak(); p > budget {
		t.Errorf("%d MiB of memory in a header flood, want at most %d", p>>20, int64(budget)>>20)
	} else {
		res.Note = fmt.Sprintf("300 endless header blocks at once: %d MiB of memory at most", p>>20)
	}
}

// TestControlEdgeHeaders takes the limit away: the floods are read.
func TestControlEdgeHeaders(t *testing.T) {
	t.Parallel()
	e := newEdge(t, noLimits, "", openSource)
	e.boot()
	faults := flood(e)
	noticed(t, "no limit on headers", 0, len(faults) > 0, fmt.Sprintf("%d of %d floods were read", len(faults), len(floods())))
}

// zipped is n zeros, compressed that many times over.
func zipped(n, times int) []byte {
	data := make([]byte, n)
	for range times {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Write(data)
		w.Close()
		data = b.Bytes()
	}
	return data
}

// bombs are bodies that are small on the wire and large elsewhere.
func bombs(e *edge, t *testing.T) (faults []string) {
	bomb := zipped(32<<20, 1)
	for _, tt := range []struct {
		encoding string
		body     []byte
	}{
		{"gzip", bomb}, {"GZIP", bomb}, {" gzip", bomb}, {"x-gzip", bomb}, {"gzip, gzip", zipped(32<<20, 2)}, {"identity, gzip", bomb},
		{"deflate", bomb}, {"br", bomb}, {"zstd", bomb}, {"compress", bomb}, {"gzip", bomb[:len(bomb)/2]}, {"gzip", append(slices.Clone(bomb), "trailing"...)},
	} {
		req, err := http.NewRequest(http.MethodPost, e.url("/in/open"), bytes.NewReader(tt.body))
		must(t, err)
		req.Header["Content-Encoding"] = []string{tt.encoding}
		resp, err := e.http.Do(req)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnsupportedMediaType {
			faults = append(faults, fmt.Sprintf("%q of %d bytes: answered %d, want 415", tt.encoding, len(tt.body), resp.StatusCode))
		}
	}
	return faults
}

// TestEdgeBombs: encoded bodies are refused. Where a provider's row names the
// encoding they are taken as they are: nothing is decompressed, so a bomb
// costs what it costs on the wire, and its bytes reach the target unchanged.
func TestEdgeBombs(t *testing.T) {
	t.Parallel()
	res := &Result{Fault: "compressed bombs", Cycles: 13}
	record(t, res)
	e := newEdge(t, asShipped, "", "")
	target := e.target()
	e.configure("", openSource+"[[provider]]\nname = \"zips\"\nid = [\"header:X-Id\"]\nencodings = [\"gzip\"]\nretries = \"1d\"\n[[provider.modes]]\nname = \"signature\"\nhmac = { sig = \"header:X-Sig\", signed = \"{body}\" }\n"+
		"[[source]]\nname = \"zips\"\nprovider = \"zips\"\nsecrets = [\"edge-suite-secret-0123456789abcdef\"]\ntargets = [\"t\"]\naccept_unconfirmed = true\n"+target.config("t"))
	e.boot()
	for _, f := range bombs(e, t) {
		t.Error(f)
	}
	peak := e.watch()
	bomb := zipped(128<<20, 1)
	req, err := http.NewRequest(http.MethodPost, e.url("/in/zips"), bytes.NewReader(bomb))
	must(t, err)
	req.Header.Set("Content-Encoding", "gzip")
	req.Header.Set("X-Id", "bomb-1")
	req.Header.Set("X-Sig", fmt.Sprintf("%x", mac([]byte(edgeSecret), string(bomb))))
	resp, err := e.http.Do(req)
	must(t, err)
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("a gzip body of a provider that sends them got %d %s", resp.StatusCode, text)
	}
	res.Acknowledged = 1
	must(t, poll(within(t, 10*time.Second), 20*time.Millisecond, func() (bool, error) { return target.count() > 0, nil }))
	if got := target.last(); got.hash != hashOf(bomb) || got.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("the target got %d other bytes, or another encoding %q", got.size, got.header.Get("Content-Encoding"))
	}
	if p := peak(); p > budget {
		t.Errorf("%d MiB of memory for a bomb of %d bytes", p>>20, len(bomb))
	}
}

// TestControlEdgeBombs takes the refusal away.
func TestControlEdgeBombs(t *testing.T) {
	t.Parallel()
	e := newEdge(t, noLimits, "", openSource)
	e.boot()
	faults := bombs(e, t)
	noticed(t, "encoded bodies taken", 0, len(faults) > 0, fmt.Sprintf("%d of 12 bombs were taken", len(faults)))
}

// overload sends from far more connections than the gateway serves at once,
// bodies of that size, each its own event, until ctx is done. What is not
// acknowledged is to be answered 503.
func overload(ctx context.Context, e *edge, senders, size int) (acked map[string]bool, refused int, faults []string) {
	client := &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: senders, DisableCompression: true}}
	defer client.CloseIdleConnections()
	acked = map[string]bool{}
	var mu sync.Mutex
	var all sync.WaitGroup
	body := noise(size)
	for s := range senders {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("over-%d-%d", s, i)
				own := append([]byte(`{"id":"`+id+`","rest":`), append(body, '}')...)
				status, _, _, err := e.bring(client, id, own)
				mu.Lock()
				switch {
				case status == http.StatusOK && err == nil:
					acked[id] = true
				case status == http.StatusServiceUnavailable && err == nil:
					refused++
				case len(faults) < 5:
					faults = append(faults, fmt.Sprintf("%s was answered %d, %v", id, status, err))
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return acked, refused, faults
}

// TestEdgeOverload has far more arrive than the gateway can take, while every
// target is down: memory stays in its bounds, what is too much is told 503
// with Retry-After, what was acknowledged is there afterwards, and ten seconds
// later the gateway is as before.
func TestEdgeOverload(t *testing.T) { // alone: it takes all there is
	res := &Result{Fault: "overload with targets down", Cycles: 1}
	record(t, res)
	e := newEdge(t, asShipped, "", "")
	ports, err := freePorts(1)
	must(t, err)
	e.configure("", e.signedSource(`"down"`)+fmt.Sprintf("[[target]]\nname = \"down\"\nurl = \"http://%s/\"\n", ports[0]))
	e.boot()
	peak := e.watch()
	d := 8 * time.Second
	if long() {
		d = time.Minute
	}
	ctx, enough := context.WithTimeout(t.Context(), d)
	defer enough()
	acked, refused, faults := overload(ctx, e, 600, 256<<10)
	over := time.Now()
	for _, f := range faults {
		t.Error(f)
	}
	p := peak()
	must(t, poll(within(t, 10*time.Second), 20*time.Millisecond, func() (bool, error) {
		status, _, _, err := e.bring(e.http, fmt.Sprint("after-", time.Since(over)), noise(1000))
		return status == http.StatusOK && err == nil, nil
	}))
	recovered := time.Since(over)
	have := map[string]bool{}
	for _, s := range e.account() {
		have[s.ID] = true
	}
	for id := range acked {
		res.Acknowledged++
		if !have[id] {
			res.Lost++
		}
	}
	res.Note = fmt.Sprintf("600 senders of 256 KiB for %v: acknowledged %d, refused %d with Retry-After, memory %d MiB at most, good again after %v",
		d, len(acked), refused, p>>20, recovered.Round(time.Millisecond))
	fmt.Println(res.Note)
	if p > budget {
		t.Errorf("%d MiB of memory, want at most %d", p>>20, int64(budget)>>20)
	}
	if refused == 0 || len(acked) == 0 || res.Lost > 0 {
		t.Errorf("acknowledged %d, refused %d, lost %d", len(acked), refused, res.Lost)
	}
}

// hoard sends a signed request of that size on n connections at once, all but
// its last byte, and holds them there until ctx is done. It counts those that
// were sent or refused.
func hoard(ctx context.Context, e *edge, n, size int, sent *atomic.Int64) {
	text := e.rawSigned("hoard", string(noise(size)))
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			c, err := net.Dial("tcp", e.p.Public)
			if err != nil {
				sent.Add(1) // no room for it
				return
			}
			defer c.Close()
			stop := context.AfterFunc(ctx, func() { c.Close() })
			defer stop()
			_, err = io.WriteString(c, text[:len(text)-1])
			if sent.Add(1); err == nil {
				io.Copy(io.Discard, c) // a refusal, or nothing
			}
		})
	}
	all.Wait()
}

// TestEdgeHoard has 1,500 requests of a megabyte stop before their last byte:
// memory stays in its bounds, and others are answered when all have come.
func TestEdgeHoard(t *testing.T) { // alone: it takes all there is
	res := &Result{Fault: "bodies that never end", Cycles: hoarded}
	record(t, res)
	e := newEdge(t, asShipped, "", e2signed())
	e.boot()
	peak := e.watch()
	ctx, enough := context.WithCancel(within(t, time.Minute))
	defer enough()
	var all sync.WaitGroup
	var sent atomic.Int64
	all.Go(func() { hoard(ctx, e, hoarded, 1<<20, &sent) })
	must(t, poll(ctx, 100*time.Millisecond, func() (bool, error) {
		status, _, _, err := e.bring(e.http, fmt.Sprint("good-", time.Now().UnixNano()), noise(1000))
		if status == http.StatusOK && err == nil {
			res.Acknowledged++
			return sent.Load() == hoarded, nil
		}
		return false, nil
	}))
	enough()
	all.Wait()
	p := peak()
	res.Note = fmt.Sprintf("%d requests of 1 MiB without their last byte: memory %d MiB at most", hoarded, p>>20)
	if p > budget {
		t.Errorf("%d MiB of memory, want at most %d", p>>20, int64(budget)>>20)
	}
	res.Lost = e.missing(res.Acknowledged)
}

const hoarded = 1500

// TestControlEdgeHoard takes the bounds away: memory grows past its budget, or
// the process ends for want of it.
func TestControlEdgeHoard(t *testing.T) { // alone: it takes all there is
	e := newEdge(t, noLimits, "", e2signed())
	e.boot()
	ctx, enough := context.WithCancel(within(t, time.Minute))
	defer enough()
	var p int64 // one watcher, which ends it and is believed: a second may be late
	var gone bool
	look := func() bool {
		p, gone = max(p, e.memory()), !e.alive()
		return p > budget || gone
	}
	var watch sync.WaitGroup
	watch.Go(func() {
		defer enough()
		_ = poll(ctx, 20*time.Millisecond, func() (bool, error) { return look(), nil })
	})
	hoard(ctx, e, hoarded, 1<<20, new(atomic.Int64))
	enough()
	watch.Wait()
	seen := look()
	noticed(t, "no bounds on bodies and queues", 0, seen, fmt.Sprintf("%d MiB of memory, budget %d", p>>20, int64(budget)>>20))
}

// TestEdgeResets has 2,000 senders reset their connection in the middle of a
// request, at every place: nothing of it is an event unless it was whole, and
// the gateway goes on as before.
func TestEdgeResets(t *testing.T) {
	t.Parallel()
	res := &Result{Fault: "connections reset in a request", Cycles: 2000}
	record(t, res)
	e := newEdge(t, asShipped, "", e2signed())
	e.boot()
	before := e.fds()
	var all sync.WaitGroup
	places := make(chan struct{}, 64)
	for i := range res.Cycles {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			c, err := net.Dial("tcp", e.p.Public)
			if err != nil {
				t.Error(err)
				return
			}
			text := e.rawSigned(fmt.Sprint("reset-", i), fmt.Sprintf(`{"reset":%d}`, i))
			io.WriteString(c, text[:len(text)*i/res.Cycles])
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		})
	}
	all.Wait()
	if n := len(e.account()); n != 0 {
		t.Errorf("%d events of requests that never were whole", n)
	}
	status, _, _, err := e.bring(e.http, "after", noise(100))
	if status != http.StatusOK || err != nil {
		t.Errorf("a good request afterwards got %d, %v", status, err)
	}
	err = poll(within(t, 10*time.Second), 50*time.Millisecond, func() (bool, error) { return e.fds() <= before+8, nil })
	if errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d descriptors afterwards, %d before", e.fds(), before)
	}
	if !e.alive() {
		t.Error("the gateway ended")
	}
}

// alive reports whether the process is there.
func (e *edge) alive() bool { return syscall.Kill(e.p.cmd.Process.Pid, 0) == nil }
