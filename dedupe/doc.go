// Package dedupe makes the effect of an event ID happen once: claim keys,
// window, conflict policy, group commit, and the contract every ledger keeps.
//
// Invariants:
//
//   - A claim, its event and one delivery per target appear in one durable
//     transaction or not at all. A claim can't exist without its deliveries
//     (an event lost for ever), nor deliveries without the claim (sent twice).
//   - Decide is pure: the same item and the same claims give the same
//     decision on every engine.
//   - An outcome is handed to a caller only after the transaction that holds
//     it is on disk. An error means the outcome is unknown and it is safe to
//     send the same request again.
//   - Keys are taken only from requests whose signature was valid.
//   - What happens and its act are one transaction: every new event has one
//     act of its acceptance, every recorded attempt one of its own.
//   - Engines are told all times; the ledger clock never runs backwards.
package dedupe
