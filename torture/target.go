package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// TargetConfig is what a Target is made of.
type TargetConfig struct {
	Clock Clock
	Log   io.Writer // one JSON line a request; nil keeps them in memory only
	// Refuse of a hundred events get 503 on their first request, a tenth of
	// those on their second as well.
	Refuse int
	// Late is how long LateTarget refuses every big event, and one in 25 of the
	// others, after their first request, unless Release was called.
	Late time.Duration
	From string // the gateway that alone delivers here, where there are several
}

// LateTarget is where Late sources deliver.
const LateTarget = "late"

// Target is where the gateway delivers: one HTTP server for all targets, told
// apart by the first part of the path. It logs every request before it
// answers.
type Target struct {
	cfg TargetConfig
	log *journal[Request]

	conns atomic.Int64 // open connections
	held  atomic.Bool  // everything is refused
	freed atomic.Bool  // nothing is late any more

	mu    sync.Mutex               // guards what follows
	seen  map[string]int           // requests so far by target and event
	first map[string]time.Duration // when those of LateTarget were first seen
}

// NewTarget makes a target that listens nowhere until Serve.
func NewTarget(cfg TargetConfig) *Target {
	return &Target{cfg: cfg, log: newJournal[Request](cfg.Log), seen: map[string]int{}, first: map[string]time.Duration{}}
}

// Hold has everything refused with 503 until it is called with false.
func (t *Target) Hold(on bool) { t.held.Store(on) }

// Release has LateTarget take what it refused for being late.
func (t *Target) Release() { t.freed.Store(true) }

// Serve answers on l until ctx is done.
func (t *Target) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{Handler: t, ReadHeaderTimeout: 5 * time.Second, ConnState: t.count}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve target: %w", err)
	}
	_, err := t.log.all()
	return err
}

func (t *Target) count(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		t.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		t.conns.Add(-1)
	}
}

// WaitIdle returns when no connection is open: everything that a process
// which is gone had sent is in the log by then.
func (t *Target) WaitIdle(ctx context.Context) error {
	return poll(ctx, time.Millisecond, func() (bool, error) { return t.conns.Load() == 0, nil })
}

// ServeHTTP records one request. A body that breaks off is no delivery: it
// is not recorded and gets 400, as a careful target would.
func (t *Target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sum := sha256.New()
	size, err := io.Copy(sum, r.Body)
	if err != nil {
		http.Error(w, "body broke off", http.StatusBadRequest)
		return
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	attempt, _ := strconv.Atoi(r.Header.Get("Onceward-Attempt"))
	rec := Request{
		Target: name, From: t.cfg.From, At: t.cfg.Clock(),
		Source: r.Header.Get("Onceward-Source"), EventID: r.Header.Get("Onceward-Event-Id"),
		Ref: r.Header.Get("Onceward-Event"), Key: r.Header.Get("Idempotency-Key"),
		Hash: hex.EncodeToString(sum.Sum(nil)), Attempt: attempt,
	}
	rec.Status = t.answer(rec, size)
	t.log.add(rec)
	w.WriteHeader(rec.Status)
}

// answer is 503 for the first request or two of some events, and for a while
// for those that are late; 200 otherwise.
func (t *Target) answer(r Request, size int64) int {
	if t.held.Load() {
		return http.StatusServiceUnavailable
	}
	id := r.Target + " " + r.Source + " " + r.EventID
	t.mu.Lock()
	t.seen[id]++
	n := t.seen[id]
	if n == 1 && r.Target == LateTarget {
		t.first[id] = r.At
	}
	late := r.Target == LateTarget && r.At-t.first[id] < t.cfg.Late && !t.freed.Load()
	t.mu.Unlock()
	h := fnv.New32a()
	h.Write([]byte(id))
	draw := int(h.Sum32() % 1000)
	if late && (size >= 1<<20 || draw%25 == 0) {
		return http.StatusServiceUnavailable
	}
	if n == 1 && draw < 10*t.cfg.Refuse || n == 2 && draw < t.cfg.Refuse {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// Requests is a copy of the log so far.
func (t *Target) Requests() ([]Request, error) { return t.log.all() }

// Count is the number of requests so far.
func (t *Target) Count() int { return t.log.len() }
