//go:build onceward_unsafe_panic

package receiver

// panics is on on purpose: in a build with this tag a request with the header
// Onceward-Panic makes the handler panic with the whole request, so that the
// search for secrets sees what comes of it. It must never serve traffic.
const panics = true
