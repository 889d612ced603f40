//go:build onceward_unsafe_leak

package receiver

// tidy is off on purpose: in a build with this tag every connection leaves a goroutine behind,
// so that the tests at the edge can show that they notice. It must never serve
// traffic.
const tidy = false
