//go:build !onceward_unsafe_drain

package receiver

// drains is true in every build that may serve traffic: a stop answers what is
// under way.
const drains = true
