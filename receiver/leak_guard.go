//go:build !onceward_unsafe_leak

package receiver

// tidy is true in every build that may serve traffic: nothing of a connection
// outlives it.
const tidy = true
