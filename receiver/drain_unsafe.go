//go:build onceward_unsafe_drain

package receiver

// drains is off on purpose: in a build with this tag a stop cuts every connection at once,
// so that the tests at the edge can show that they notice. It must never serve
// traffic.
const drains = false
