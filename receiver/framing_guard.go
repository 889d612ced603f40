//go:build !onceward_unsafe_framing

package receiver

// framingGuard is true in every build that may serve traffic: a header block
// that can be read in two ways ends its connection.
const framingGuard = true
