//go:build !onceward_failpoints

package dedupe

// Failpoint marks a place between two durable steps. In every build that may
// serve traffic it does nothing.
func Failpoint(string) {}
