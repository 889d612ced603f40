//go:build onceward_unsafe_limits

package dedupe

// bounded is off on purpose: in a build with this tag the queue to the ledger is as long as callers make it,
// so that the tests at the edge can show that they notice. It must never serve
// traffic.
const bounded = false
