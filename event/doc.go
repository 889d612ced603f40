// Package event holds the nouns that flow through the gateway: Event,
// Delivery, Attempt, and the names that identify them.
//
// Invariants:
//
//   - A Ref is given once, by the ledger that accepted the event, and never
//     changes: not by copy, export, restore or replay.
//   - An Event never changes after it was accepted. What changes (repeats
//     counted, deliveries made) stands beside it.
//   - The package imports nothing of the product and holds no behaviour that
//     needs a clock, a disk or a network.
package event
