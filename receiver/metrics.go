package receiver

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/verify"
)

// unknownSource is the label of requests for no source of ours. No source can
// have that name.
const unknownSource = "_unknown"

// outcome classes a request.
type outcome uint8

const (
	outAccepted outcome = iota
	outRepeat
	outConflict // another body under a known ID, whatever was answered
	outEmpty    // an authentic batch without elements
	outHandshake
	outRefused
	outOffline
	outOverloaded
	outError
	outAway // the ledger's database is away
	// Of synchronous routes alone.
	outBusy        // the first request with the key is still under way
	outUnknown     // nobody knows whether it was executed
	outReleased    // the target said that it did nothing
	outUnreachable // no answer from the target, and the key is free
	outPassed      // takes no part: forwarded as it came
	outUndeduped   // should have a key and has none: forwarded once
	outGone        // the caller left before the answer
	outcomes
)

var outcomeNames = [outcomes]string{
	"accepted", "repeat", "conflict", "empty", "handshake", "refused", "offline", "overloaded", "error", "away",
	"in_flight", "unknown", "released", "unreachable", "passed", "undeduplicated", "caller_gone",
}

// Why a request was refused before or after verification. Those of
// verification itself are verify's own.
const (
	reasonMethod        = "method"
	reasonEncoding      = "bad_encoding"
	reasonBodyTooLarge  = "body_too_large"
	reasonBodyTimeout   = "body_timeout"
	reasonBodyBroken    = "body_incomplete"
	reasonNoID          = "no_id"
	reasonUnknownSource = "unknown_source"

	// Of synchronous routes alone.
	reasonKey    = "bad_key"
	reasonPath   = "bad_path"
	reasonStream = "streaming"
	reasonBatch  = "batch"
)

// reasons lists every reason a request of a source can be refused for.
func reasons() []string {
	out := []string{reasonMethod, reasonEncoding, reasonBodyTooLarge, reasonBodyTimeout, reasonBodyBroken, reasonNoID,
		reasonKey, reasonPath, reasonStream, reasonBatch}
	for _, r := range verify.Reasons() {
		if r != verify.OK {
			out = append(out, string(r))
		}
	}
	return out
}

// metrics are the instruments of the edge. Children of a source are resolved
// once, in newState.
type metrics struct {
	requests     *prometheus.CounterVec
	refused      *prometheus.CounterVec
	duration     *prometheus.HistogramVec
	bytes        *prometheus.HistogramVec
	inFlight     prometheus.Gauge
	last         *prometheus.GaugeVec
	secrets      *prometheus.CounterVec
	hits         *prometheus.CounterVec
	conflicts    *prometheus.CounterVec
	filterErrors *prometheus.CounterVec
	leftOut      *prometheus.CounterVec
	panics       prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		requests: counter("onceward_ingest_requests_total", "Requests answered, by outcome.", "source", "outcome"),
		refused:  counter("onceward_ingest_refused_total", "Requests refused, by reason.", "source", "reason"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "onceward_ingest_request_duration_seconds", Help: "Time from the header block to the answer.",
			Buckets: []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10},
		}, []string{"source", "outcome"}),
		bytes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "onceward_ingest_body_bytes", Help: "Size of bodies read whole.",
			Buckets: prometheus.ExponentialBuckets(256, 4, 9),
		}, []string{"source"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "onceward_ingest_in_flight_requests", Help: "Requests of sources under way.",
		}),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "onceward_source_last_accepted_timestamp_seconds", Help: "When the source last brought a new event; 0 for never since the start.",
		}, []string{"source"}),
		secrets: counter("onceward_verify_secret_used_total", "Requests verified, by the label of the secret that matched.",
			"source", "secret"),
		hits:         counter("onceward_dedupe_hits_total", "Events recognised as repeats.", "source"),
		filterErrors: counter("onceward_route_filter_errors_total", "Events of which a route's condition had no result, which is no match.", "source"),
		leftOut:      counter("onceward_ingest_index_left_out_total", "Values of indexed fields left out: no scalar, or too long.", "source"),
		conflicts:    counter("onceward_dedupe_body_conflicts_total", "Events whose ID was known with another body.", "source"),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "onceward_ingest_panics_total", Help: "Requests answered 500 because of a fault in the gateway.",
		}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.refused, m.duration, m.bytes, m.inFlight, m.last, m.secrets,
		m.hits, m.conflicts, m.filterErrors, m.leftOut, m.panics} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register ingest metrics: %w", err)
		}
	}
	return m, nil
}
