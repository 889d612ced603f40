//go:build !onceward_unsafe_early_ack

package dedupe

// earlyAck is false in every build that may serve traffic: callers wake only
// after their batch is on disk.
const earlyAck = false

// ackEarly is never called in this build.
func ackEarly(*Writer, *flight) {}
