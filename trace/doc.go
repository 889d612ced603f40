// Package trace records spans and exports them over OTLP/HTTP. It knows nothing
// of what is traced and imports none of the other packages.
//
// Invariants:
//
//   - Recording never waits, for a lock held over I/O, a full queue or the
//     collector: a span that finds no room is dropped, and counted.
//   - A nil Recorder records nothing and costs one comparison.
//   - Memory is bounded by the queue and one batch, whatever the collector does.
//   - What a stranger sends never decides what is recorded: a foreign trace is
//     continued where the caller of this package says so, and is a link
//     elsewhere. Baggage and tracestate are not carried.
//   - Neither the environment nor global state is read: what isn't configured
//     doesn't happen.
package trace
