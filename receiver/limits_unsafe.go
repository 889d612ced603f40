//go:build onceward_unsafe_limits

package receiver

// edgeLimits is off on purpose: in a build with this tag a sender may be as slow and send as much as it likes,
// so that the tests at the edge can show that they notice. It must never serve
// traffic.
const edgeLimits = false
