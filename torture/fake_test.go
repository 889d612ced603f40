package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fakeGateway keeps the promises in memory, in the simplest way there is; or
// breaks one of them for some events.
type fakeGateway struct {
	sources []Source
	target  string
	breaks  string // "", "lose", "double", "key", "bytes"

	// mu guards the account and serialises everything.
	mu     sync.Mutex
	events []*Stored
}

func (f *fakeGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	i := slices.IndexFunc(f.sources, func(s Source) bool { return "/in/"+s.Name == r.URL.Path })
	if err != nil || i < 0 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	src := f.sources[i]
	id, ok := authentic(src, r.Header, string(body))
	if !ok {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	ev, repeat := f.accept(src, id, hashOf(body))
	if repeat {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	fmt.Fprintf(w, `{"ref":%q}`, ev.Ref)
	if repeat && f.breaks != "double" {
		return
	}
	for i := range ev.Deliveries {
		if err := f.deliver(ev, &ev.Deliveries[i], body); err != nil {
			panic(err)
		}
	}
}

func (f *fakeGateway) accept(src Source, id, hash string) (ev *Stored, repeat bool) {
	for _, e := range f.events {
		if e.Source == src.Name && (e.ID == id || e.ID == conflictID(id, hash)) &&
			(src.OnConflict == ConflictAck || e.Hash == hash) {
			return e, true
		}
	}
	if slices.ContainsFunc(f.events, func(e *Stored) bool { return e.Source == src.Name && e.ID == id }) {
		id = conflictID(id, hash)
	}
	ev = &Stored{Ref: fmt.Sprintf("R%06d", len(f.events)), Source: src.Name, ID: id, Key: src.Name + ":" + id, Hash: hash}
	for _, t := range src.Targets {
		ev.Deliveries = append(ev.Deliveries, StoredDelivery{Target: t, State: "pending"})
	}
	f.events = append(f.events, ev)
	return ev, false
}

func conflictID(id, hash string) string { return id + "~" + hash[:16] }

// deliver tries until the target takes it. Every seventh event is one whose
// promise is broken.
func (f *fakeGateway) deliver(ev *Stored, d *StoredDelivery, body []byte) error {
	broken := strings.HasSuffix(ev.Ref, "7")
	if broken && f.breaks == "lose" {
		d.State = "delivered"
		return nil
	}
	if broken && f.breaks == "bytes" {
		body = append(slices.Clone(body), ' ')
	}
	for {
		req, err := http.NewRequest(http.MethodPost, f.target+"/"+d.Target, bytes.NewReader(body))
		if err != nil {
			return err
		}
		key := ev.Key
		if broken && f.breaks == "key" {
			key += fmt.Sprint(d.Attempts)
		}
		d.Attempts++
		req.Header.Set("Idempotency-Key", key)
		req.Header.Set("Onceward-Source", ev.Source)
		req.Header.Set("Onceward-Event", ev.Ref)
		req.Header.Set("Onceward-Event-Id", ev.ID)
		req.Header.Set("Onceward-Attempt", fmt.Sprint(d.Attempts))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			d.State = "delivered"
			return nil
		}
	}
}

// authentic checks the signature by its provider's rule and finds the ID.
func authentic(src Source, h http.Header, body string) (id string, ok bool) {
	switch src.Provider {
	case Stripe:
		_, id, _ = strings.Cut(body, `{"id":"`)
		id, _, _ = strings.Cut(id, `"`)
		t, sig, _ := strings.Cut(strings.TrimPrefix(h.Get("Stripe-Signature"), "t="), ",v1=")
		return id, sig == hex.EncodeToString(mac([]byte(src.Secret), t+"."+body))
	case GitHub:
		return h.Get("X-GitHub-Delivery"), h.Get("X-Hub-Signature-256") == "sha256="+hex.EncodeToString(mac([]byte(src.Secret), body))
	}
	return h.Get("Webhook-Id"), h.Get("Webhook-Timestamp") != "" && strings.HasPrefix(h.Get("Webhook-Signature"), "v1,")
}

// TestRoundTrip runs sender, target and judge around the fake: the honest one
// must pass, each of the others must not.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		breaks string
		count  func(*Verdict) int
	}{
		{"", nil},
		{"lose", lost},
		{"double", func(v *Verdict) int { return v.Again }},
		{"key", keys},
		{"bytes", func(v *Verdict) int { return v.Bytes + v.Strange }},
	} {
		t.Run("breaks "+tt.breaks, func(t *testing.T) {
			t.Parallel()
			e := play(t, tt.breaks, 400)
			v := Judge(e)
			if tt.count == nil && !v.OK() {
				t.Errorf("a gateway that keeps its promises was faulted:\n%s", v.String())
			}
			if tt.count != nil && tt.count(&v) == 0 {
				t.Errorf("not caught:\n%s", v.String())
			}
			if v.Acknowledged < 200 || v.Requests <= v.Acknowledged {
				t.Errorf("the load was too small, or nothing was ever refused:\n%s", v.String())
			}
		})
	}
}

// play sends about n requests through a fake and returns the evidence.
func play(t *testing.T, breaks string, n int) Evidence {
	t.Helper()
	clock := NewClock()
	target := NewTarget(TargetConfig{Clock: clock, Refuse: 20})
	ctx, cancel := context.WithCancel(t.Context())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- target.Serve(ctx, l) }()
	fake := &fakeGateway{sources: Sources(), target: "http://" + l.Addr().String(), breaks: breaks}
	gateway := httptest.NewServer(fake)
	defer gateway.Close()

	sender := NewSender(SenderConfig{Sources: Sources(), Workers: 4, Seed: 1, Run: "t", Clock: clock})
	sending, enough := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- sender.Run(sending) }()
	sender.Up(gateway.URL)
	if err := poll(ctx, ms, func() (bool, error) { return sender.log.len() >= n, nil }); err != nil {
		t.Fatal(err)
	}
	enough()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	e := Evidence{Sources: Sources(), Lives: []Life{{Ready: 1, End: clock()}}}
	for _, s := range fake.events {
		e.Stored = append(e.Stored, *s)
	}
	e.Sent, _ = sender.Sent()
	e.Requests, _ = target.Requests()
	return e
}

// TestSenderMix holds what the sender sends against what it says it does.
func TestSenderMix(t *testing.T) {
	t.Parallel()
	e := play(t, "", 2000)
	type name struct{ source, id string }
	known := map[name]string{}
	var repeats, conflicts, big int
	for _, s := range e.Sent {
		k := name{s.Source, s.ID}
		switch first, ok := known[k]; {
		case !ok:
			known[k] = s.Hash
		case first == s.Hash:
			repeats++
		default:
			conflicts++
		}
		if s.Status != http.StatusOK {
			t.Fatalf("%s %s: answered %d: the signature is wrong", s.Source, s.ID, s.Status)
		}
	}
	share := func(n int) int { return 100 * n / len(e.Sent) }
	if r, c := share(repeats), share(conflicts); r < 14 || r > 26 || c < 2 || c > 8 {
		t.Errorf("repeats %d%%, conflicts %d%%, want about 20 and 5", r, c)
	}
	for n := range 20000 {
		m := Message{Source: &e.Sources[1], Run: "x", Number: n}
		if m.size() >= bigBody {
			big++
		}
	}
	if big == 0 || big > 20 {
		t.Errorf("%d very big bodies of 20000, want a few", big)
	}
}

// TestUnansweredIsSentAgain has no gateway at first: what failed must come
// again once there is one.
func TestUnansweredIsSentAgain(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	got := map[string]bool{}
	gateway := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got[r.Header.Get("X-GitHub-Delivery")] = true
	}))
	defer gateway.Close()
	sources := Sources()[1:2]
	s := NewSender(SenderConfig{Sources: sources, Workers: 2, Seed: 3, Run: "u", Clock: NewClock()})
	lostOne := Message{Source: &sources[0], Run: "u", Number: 4242}
	if rec := s.Send("http://127.0.0.1:1", lostOne); rec.Status != 0 || rec.Error == "" {
		t.Fatalf("got %+v, want no answer and why", rec)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	s.Up(gateway.URL)
	err := poll(ctx, ms, func() (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		return got[lostOne.ID()], nil
	})
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
