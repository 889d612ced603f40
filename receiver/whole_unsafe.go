//go:build onceward_unsafe_torn

package receiver

// oneGeneration is off on purpose: in a build with this tag a request's targets are those of the configuration when they are asked for,
// so that the tests at the edge can show that they notice. It must never serve
// traffic.
const oneGeneration = false
