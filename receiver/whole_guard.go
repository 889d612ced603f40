//go:build !onceward_unsafe_torn

package receiver

// oneGeneration is true in every build that may serve traffic: a request sees one
// configuration from its beginning to its end.
const oneGeneration = true
