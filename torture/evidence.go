package main

import "time"

// Stored is one event in the gateway's own account.
type Stored struct {
	Ref        string
	Source     string
	ID         string
	Key        string
	Hash       string
	Secret     string // label of the one that matched
	Deliveries []StoredDelivery
}

// StoredDelivery is one delivery in the gateway's own account.
type StoredDelivery struct {
	Target   string
	State    string
	Attempts int
}

// Life is the time of one process of the gateway.
type Life struct {
	Start  time.Duration // just before the process was started
	Ready  time.Duration // when it first said it was; 0 when it was killed before
	End    time.Duration // just before the kill or the stop
	Killed bool
	// Gone, after a power cut, is when the process was killed at last: what it
	// did between End and then left nothing on the disk. 0 is End.
	Gone time.Duration
}

// Evidence is everything a verdict rests on.
type Evidence struct {
	Sources  []Source
	Sent     []Sent
	Requests []Request
	Stored   []Stored
	Lives    []Life
	// Until, when not zero, is the moment of a power cut: an answer that came
	// after it acknowledges nothing, since a plain write and fsync loses such
	// answers as well.
	Until time.Duration
	// Hurried says that the gateway's buckets are of a second, and its retention
	// without end: at each round of it the whole gateway stands still.
	Hurried bool
}
