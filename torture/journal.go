package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// Clock is the time since the run began, on one monotonic clock shared by
// sender, target and harness, so that their logs can be compared.
type Clock func() time.Duration

// NewClock starts at zero now.
func NewClock() Clock {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// Sent is one request the sender made, and what came back.
type Sent struct {
	To         string        `json:"to"` // where it was sent: the address of a gateway
	Source     string        `json:"source"`
	ID         string        `json:"id"`
	Hash       string        `json:"body_sha256"`
	Number     int           `json:"number"`
	Variant    int           `json:"variant"`
	SentAt     time.Duration `json:"sent_at"`
	Status     int           `json:"status"` // 0: no answer
	AnsweredAt time.Duration `json:"answered_at"`
	Repeat     bool          `json:"repeat"` // the answer said it is a replayed one
	Ref        string        `json:"ref"`    // the gateway's own ID of the event, where the answer was read
	Error      string        `json:"error,omitempty"`
}

// Request is one request the target received, and what it answered.
type Request struct {
	Target  string        `json:"target"`
	From    string        `json:"from,omitempty"` // the gateway, where there are several
	Source  string        `json:"source"`
	EventID string        `json:"event_id"`
	Ref     string        `json:"ref"`
	Key     string        `json:"key"`
	Hash    string        `json:"body_sha256"`
	Attempt int           `json:"attempt"`
	At      time.Duration `json:"at"`
	Status  int           `json:"status"`
}

// journal is an append-only log, in memory and on paper.
type journal[T any] struct {
	mu   sync.Mutex
	recs []T
	out  io.Writer
	err  error // the first failure to write
}

func newJournal[T any](out io.Writer) *journal[T] {
	if out == nil {
		out = io.Discard
	}
	return &journal[T]{out: out}
}

func (j *journal[T]) add(rec T) {
	line, err := json.Marshal(rec)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.recs = append(j.recs, rec)
	if err == nil {
		_, err = j.out.Write(append(line, '\n'))
	}
	if j.err == nil && err != nil {
		j.err = fmt.Errorf("write log: %w", err)
	}
}

// all is a copy of the records so far, and the first failure to write one.
func (j *journal[T]) all() ([]T, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.recs), j.err
}

// since is the records after the first n, which nobody may change.
func (j *journal[T]) since(n int) []T {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.recs[n:len(j.recs):len(j.recs)]
}

func (j *journal[T]) len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.recs)
}
