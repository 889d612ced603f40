// Package ledgertest holds what every ledger must do: Run, one conformance
// suite for all engines, and Memory, a complete ledger in plain maps to
// compare them with and to test the ledger's users on.
//
// Invariants:
//
//   - Run knows engines only by the contract of package dedupe; what an engine
//     can't offer is left out of its Harness and said so in the test's log.
//   - Memory keeps its records in maps and slices and looks everything up by
//     walking them: it is meant to be right at a glance, not fast.
//   - Nothing here is used by a gateway that serves traffic.
package ledgertest
