//go:build !onceward_unsafe_panic

package receiver

// panics is false in every build that may serve traffic.
const panics = false
