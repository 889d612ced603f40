package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// SenderConfig is what a Sender is made of.
type SenderConfig struct {
	Sources []Source
	Workers int    // requests at once; 0 is 16
	Seed    uint64 // of everything the sender chooses
	Run     string // part of every event ID
	Clock   Clock
	Log     io.Writer // one JSON line a request; nil keeps them in memory only
	// Now dates signatures; nil is the machine's clock.
	Now func() time.Time
}

// Sender plays all providers: it sends new events, a fifth of the time sends
// one again (those that were never answered before others), and one time in
// twenty sends a known ID with another body. It is safe for concurrent use.
type Sender struct {
	cfg    SenderConfig
	client *http.Client
	log    *journal[Sent]

	// mu guards what follows.
	mu         sync.Mutex
	base       string        // where the gateway answers; "" while it is down
	changed    chan struct{} // closed and replaced with every change of base
	next       []int         // per source: the number of the next new event
	unanswered []Message
}

// patience is how long the sender waits for an answer.
const patience = time.Minute

// NewSender makes a sender that sends nothing until Run and Up.
func NewSender(cfg SenderConfig) *Sender {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Workers == 0 {
		cfg.Workers = 16
	}
	return &Sender{
		cfg: cfg,
		client: &http.Client{Timeout: patience, Transport: &http.Transport{
			MaxIdleConnsPerHost: cfg.Workers, DisableCompression: true,
		}},
		log:     newJournal[Sent](cfg.Log),
		changed: make(chan struct{}),
		next:    make([]int, len(cfg.Sources)),
	}
}

// Up says that the gateway answers at base, as http://host:port.
func (s *Sender) Up(base string) { s.set(base) }

// Down says that the gateway is gone: workers wait for the next Up.
func (s *Sender) Down() {
	s.set("")
	s.client.CloseIdleConnections()
}

func (s *Sender) set(base string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.base = base
	close(s.changed)
	s.changed = make(chan struct{})
}

// Run sends until ctx is done and every request under way has been answered
// or has failed.
func (s *Sender) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for i := range s.cfg.Workers {
		wg.Go(func() { s.work(ctx, rand.New(rand.NewPCG(s.cfg.Seed, uint64(i)))) })
	}
	wg.Wait()
	s.client.CloseIdleConnections()
	_, err := s.log.all()
	return err
}

// work is one worker: a closed loop over one connection.
func (s *Sender) work(ctx context.Context, r *rand.Rand) {
	for {
		base, changed := s.where()
		if base == "" {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		if rec := s.Send(base, s.choose(r)); rec.Status == 0 {
			s.pause(ctx, changed)
		}
	}
}

// pause waits for news of the gateway after a request without an answer, a
// little at most: the failure may have been the connection's alone.
func (s *Sender) pause(ctx context.Context, changed <-chan struct{}) {
	t := time.NewTimer(20 * time.Millisecond)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
	}
}

func (s *Sender) where() (string, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.base, s.changed
}

// choose draws what to send next.
func (s *Sender) choose(r *rand.Rand) Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := r.IntN(len(s.cfg.Sources))
	m := Message{Source: &s.cfg.Sources[i], Run: s.cfg.Run}
	draw := r.IntN(100)
	if draw >= 25 || s.next[i] == 0 || m.Source.Short {
		m.Number = s.next[i]
		s.next[i]++
		return m
	}
	if n := len(s.unanswered); n > 0 && draw < 10 {
		m, s.unanswered = s.unanswered[n-1], s.unanswered[:n-1]
		return m
	}
	m.Number = known(r, s.next[i])
	if draw >= 20 {
		m.Variant = 1 + r.IntN(2)
	}
	return m
}

// known draws one of n event numbers, every second time one of the latest,
// whose first request may still be under way.
func known(r *rand.Rand, n int) int {
	if r.IntN(2) == 0 {
		return n - 1 - r.IntN(min(n, 32))
	}
	return r.IntN(n)
}

// Send makes one request and logs it with its answer.
func (s *Sender) Send(base string, m Message) Sent {
	body := m.Body()
	rec := Sent{To: base, Source: m.Source.Name, ID: m.ID(), Hash: hashOf(body), Number: m.Number, Variant: m.Variant, SentAt: s.cfg.Clock()}
	if err := s.exchange(base, m, body, &rec); err != nil {
		rec.Error = err.Error()
	}
	if rec.Status == 0 {
		rec.AnsweredAt = s.cfg.Clock()
	}
	if rec.Status == 0 && !m.Source.Short {
		s.mu.Lock()
		s.unanswered = append(s.unanswered, m)
		s.mu.Unlock()
	}
	s.log.add(rec)
	return rec
}

// exchange fills in the answer. The status line alone is the answer a
// provider acts on: a body cut off after it does not take it back.
func (s *Sender) exchange(base string, m Message, body []byte, rec *Sent) error {
	req, err := http.NewRequest(http.MethodPost, base+"/in/"+m.Source.Name, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	req.GetBody = nil // one Send is one request on the wire
	if err := m.Sign(req.Header, body, s.cfg.Now().Unix()); err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	defer resp.Body.Close()
	rec.Status, rec.AnsweredAt = resp.StatusCode, s.cfg.Clock()
	rec.Repeat = resp.Header.Get("Idempotent-Replayed") == "true"
	var answer struct {
		Ref string `json:"ref"`
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if rec.Status/100 == 2 && json.Unmarshal(text, &answer) == nil {
		rec.Ref = answer.Ref
	}
	if rec.Status/100 != 2 {
		return errors.New(string(text[:min(len(text), 200)]))
	}
	return nil
}

// Sent is a copy of the log so far.
func (s *Sender) Sent() ([]Sent, error) { return s.log.all() }
