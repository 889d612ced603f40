//go:build onceward_unsafe_framing

package receiver

// framingGuard is off on purpose: a build with this tag leaves the framing of
// requests to net/http alone, so that the tests against smuggling can show
// that they notice. It must never serve traffic.
const framingGuard = false
