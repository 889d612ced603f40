//go:build torture

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const pullToken = "a-token-of-the-desk-alone"

// desk is everything around a gateway that pushes to one target and lets
// another fetch: who sends, who is pushed to, who fetches, and what each saw.
type desk struct {
	t      *testing.T
	p      *Proc
	client *http.Client

	mu       sync.Mutex
	epoch    int // kills so far
	accepted []string
	pushed   map[string]int
	acked    map[string]bool
	held     map[string]hold
	leases   map[string]int // seen, by event
	refs     map[string]string
	again    int // given out more than once
}

type hold struct {
	epoch int
	until time.Time
}

// TestPullAndPush kills a gateway again and again while one target is pushed
// to and another fetches the same events: nothing accepted is lost at either,
// no lease is held twice at once, and what was acked does not come again.
func TestPullAndPush(t *testing.T) {
	t.Parallel()
	const kills = 25
	s := seed(t)
	res := &Result{Fault: "kill -9 with one target that is pushed to and one that fetches", Seed: s, Cycles: kills}
	record(t, res)
	d := newDesk(t)
	ctx := within(t, 5*time.Minute)
	if err := d.p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.p.Kill() })
	if err := d.p.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	sending, stopSending := context.WithCancel(ctx)
	fetching, stopFetching := context.WithCancel(ctx)
	var senders, pullers sync.WaitGroup
	for i := range 4 {
		senders.Go(func() { d.send(sending, ctx, i) })
	}
	for i := range uint64(3) {
		pullers.Go(func() { d.fetch(fetching, rand.New(rand.NewPCG(s, i))) })
	}
	r := rand.New(rand.NewPCG(s, 99))
	for range kills {
		pause(ctx, 200*time.Millisecond+time.Duration(r.Int64N(int64(500*time.Millisecond))))
		d.p.Kill()
		d.mu.Lock()
		d.epoch++
		d.mu.Unlock()
		if err := d.p.Start(); err != nil {
			t.Fatal(err)
		}
		if err := d.p.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
	}
	stopSending()
	senders.Wait()
	d.settle(ctx)
	stopFetching()
	pullers.Wait()
	res.Acknowledged, res.Lost = d.judge(kills)
	res.Note = fmt.Sprintf("%d leases given again after a kill or a nack, none while one stood", d.again)
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, client: &http.Client{Timeout: time.Minute}, pushed: map[string]int{}, acked: map[string]bool{},
		held: map[string]hold{}, leases: map[string]int{}, refs: map[string]string{}}
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.pushed[r.Header.Get("Idempotency-Key")]++
	}))
	t.Cleanup(target.Close)
	ports, err := freePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	d.p = &Proc{Binary: built(t, asShipped), Config: filepath.Join(dir, "config.toml"), Log: filepath.Join(dir, "gateway.log"), Public: ports[0], Admin: ports[1]}
	text := fmt.Sprintf(`listen = %q
admin = { listen = %q, token_file = %q }
store = { path = %q, reserve = "32MiB", ballast = "16MiB" }
[[source]]
name = "shop"
provider = "none"
options = { id = "json:id" }
targets = ["push", "desk"]
[[target]]
name = "push"
url = %q
initial = "50ms"
max = "500ms"
[[target]]
name = "desk"
pull = true
pull_token = %q
initial = "50ms"
max = "500ms"
`, ports[0], ports[1], filepath.Join(dir, "admin.token"), filepath.Join(dir, "data"), target.URL, pullToken)
	if err := os.WriteFile(d.p.Config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// send sends events, each until it is accepted, as a provider does.
func (d *desk) send(more, ctx context.Context, sender int) {
	for n := 0; more.Err() == nil; n++ {
		id := fmt.Sprintf("evt_%d_%d", sender, n)
		for ctx.Err() == nil {
			resp, err := d.client.Post("http://"+d.p.Public+"/in/shop", "application/json", strings.NewReader(`{"id":"`+id+`"}`))
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					break
				}
			}
			pause(ctx, 20*time.Millisecond)
		}
		d.mu.Lock()
		d.accepted = append(d.accepted, id)
		d.mu.Unlock()
		pause(more, 5*time.Millisecond)
	}
}

func (d *desk) call(ctx context.Context, method, path string, in, out any) (int, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return 0, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+d.p.Admin+"/api/v1/pull/desk"+path, body)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+pullToken)
	resp, err := d.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && out != nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, out)
	}
	return resp.StatusCode, err
}

type given struct {
	Lease   string    `json:"lease"`
	Until   time.Time `json:"expires_at"`
	Event   string    `json:"event"`
	EventID string    `json:"event_id"`
	Key     string    `json:"idempotency_key"`
	Body    []byte    `json:"body"`
}

// fetch leases deliveries and acks most of them; some it gives back, some it
// forgets.
func (d *desk) fetch(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		d.mu.Lock()
		epoch := d.epoch
		d.mu.Unlock()
		var page struct {
			Items []given `json:"items"`
		}
		code, err := d.call(ctx, http.MethodGet, "?n=5&lease=5s&wait=2s", nil, &page)
		if err != nil || code != http.StatusOK {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		for _, g := range page.Items {
			d.got(g, epoch)
		}
		for _, g := range page.Items {
			pause(ctx, time.Duration(r.IntN(8))*time.Millisecond)
			d.answer(ctx, g, r.IntN(20))
		}
	}
}

// got takes a lease down, and says when it must not have been given.
func (d *desk) got(g given, epoch int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.acked[g.EventID] {
		d.t.Errorf("%s was acked, and is given out again", g.EventID)
	}
	if h, is := d.held[g.EventID]; is && h.epoch == d.epoch && epoch == d.epoch && time.Now().Before(h.until) {
		d.t.Errorf("%s is given out while a lease of it stands for another %v", g.EventID, time.Until(h.until))
	}
	if g.Key != "shop:"+g.EventID || string(g.Body) != `{"id":"`+g.EventID+`"}` {
		d.t.Errorf("%s has the key %q and the body %q", g.EventID, g.Key, g.Body)
	}
	if d.leases[g.EventID]++; d.leases[g.EventID] > 1 {
		d.again++
	}
	d.held[g.EventID], d.refs[g.EventID] = hold{epoch, g.Until}, g.Event
}

func (d *desk) answer(ctx context.Context, g given, dice int) {
	switch dice {
	case 0, 1: // forgotten
		return
	case 2:
		d.free(g)
		_, _ = d.call(ctx, http.MethodPost, "/nack", map[string]any{"leases": []string{g.Lease}, "reason": "not now"}, nil)
		return
	}
	d.free(g)
	if code, err := d.call(ctx, http.MethodPost, "/ack", map[string]any{"leases": []string{g.Lease}}, nil); err == nil && code == http.StatusOK {
		d.mu.Lock()
		d.acked[g.EventID] = true
		d.mu.Unlock()
	}
}

// free forgets a hold that is about to be settled: from now on the delivery may
// be given out again.
func (d *desk) free(g given) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.held, g.EventID)
}

// settle waits until everything accepted has been pushed and acked. An ack
// whose answer a kill ate counts when the account says so.
func (d *desk) settle(ctx context.Context) {
	for ctx.Err() == nil {
		d.mu.Lock()
		left := 0
		for _, id := range d.accepted {
			if d.pushed["shop:"+id] == 0 || d.leases[id] == 0 {
				left++
			}
		}
		d.mu.Unlock()
		if left == 0 && d.open(ctx) == 0 {
			return
		}
		pause(ctx, 100*time.Millisecond)
	}
	d.t.Error("not everything was delivered in the end")
}

// open is how many deliveries are open, by the account.
func (d *desk) open(ctx context.Context) int {
	out, err := d.p.Command(ctx, "deliveries", "list", "--state", "pending", "--limit", "1", "-o", "jsonl")
	leased, err2 := d.p.Command(ctx, "deliveries", "list", "--state", "leased", "--limit", "1", "-o", "jsonl")
	if err != nil || err2 != nil {
		return 1
	}
	return len(strings.TrimSpace(string(out))) + len(strings.TrimSpace(string(leased)))
}

// judge says how many events were accepted, and how many of them did not come
// to both targets.
func (d *desk) judge(kills int) (accepted, lost int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	unacked := 0
	for _, id := range d.accepted {
		if d.pushed["shop:"+id] == 0 || d.leases[id] == 0 {
			lost++
		}
		if !d.acked[id] {
			unacked++
		}
	}
	d.t.Logf("%d kills, %d events accepted, %d leases given again, %d acks whose answer was lost, %d lost", kills, len(d.accepted), d.again, unacked, lost)
	if lost > 0 || len(d.accepted) < 200 || d.again == 0 {
		d.t.Errorf("%d of %d lost, %d given again: want none, at least 200, and some", lost, len(d.accepted), d.again)
	}
	if unacked > 3*kills+20 {
		d.t.Errorf("%d events were never acked with an answer", unacked)
	}
	for i, id := range d.accepted {
		if i%(1+len(d.accepted)/25) == 0 {
			d.account(id)
		}
	}
	return len(d.accepted), lost
}

// account holds that the account shows every lease that was seen as an
// attempt.
func (d *desk) account(id string) {
	out, err := d.p.Ask(d.t.Context(), "attempts", d.refs[id], "-o", "jsonl")
	if err != nil {
		d.t.Errorf("attempts of %s: %v", id, err)
		return
	}
	shown := strings.Count(string(out), `"target":"desk"`)
	if shown < d.leases[id] || shown > d.leases[id]+3 {
		d.t.Errorf("%s was leased %d times, and the account shows %d attempts:\n%s", id, d.leases[id], shown, out)
	}
}
