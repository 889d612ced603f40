// Package audit is the account: it answers what was accepted, what was
// delivered and what was tried, and lets an operator send stored events
// again.
//
// Invariants:
//
//   - Every ID a person gives may be our ref or the provider's event ID. An
//     ID that means several events is refused with all of their refs, never
//     resolved by a guess.
//   - A cursor is only good for the listing it came from: one that was cut,
//     changed or carried over to another filter is refused. It keeps the time
//     bounds of its first page, so that a listing of "the last day" does not
//     slide while it is read.
//   - Views show no credential: header values, query parameters and JSON or
//     form fields whose names look like one are masked. The exact bytes of a
//     body are given out only by Body, which is asked for by name.
//   - Every call reads or changes a bounded part of the ledger; an export reads
//     all of the account, piece by piece.
//   - The transparency log signs what is committed and nothing else, and nothing
//     that commits waits for it. A log only grows: what was signed stays true of
//     everything signed later.
//   - Verification trusts public keys and no word of what it verifies. Every byte
//     of an export or a receipt is signed, or follows from what is.
//   - Acts are let go only when what the tree needs to go on is kept, with the
//     signed root of what was before.
//   - The private key is never printed, logged or sent.
package audit
