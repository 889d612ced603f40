//go:build !onceward_unsafe_limits

package receiver

// edgeLimits is true in every build that may serve traffic: time-outs, bounds
// on headers and bodies, and the refusal of encoded bodies hold.
const edgeLimits = true
