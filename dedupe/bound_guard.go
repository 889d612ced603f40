//go:build !onceward_unsafe_limits

package dedupe

// bounded is true in every build that may serve traffic: the queue to the ledger
// is bounded.
const bounded = true
