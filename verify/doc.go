// Package verify says whether a request is authentic, what its events and
// their IDs are, and how to answer a handshake. It imports nothing else of
// this module and may be used as a library alone.
//
// What always holds:
//
//   - A provider is a [Row]: data, not code. Rows are Go literals in one
//     alphabetical table, and the same type can be read from a config file.
//   - [New] parses every template, locator and key once and reports all faults
//     together. [Verifier.Verify] is pure: no I/O, no global state, no clock but
//     [Request.Now], and it never panics, whatever the bytes.
//   - The signature is computed over the exact bytes received. Nothing is ever
//     parsed and encoded again before it is compared.
//   - The signature is checked before the timestamp, and both before any event
//     is taken from the body: a result that is not [OK] has no events.
//   - Secrets, tokens and digests are compared in constant time only. An empty
//     secret is refused by New and so never verifies anything. No error, reason
//     or detail contains a secret, a signature or bytes of a body.
//   - Work is bounded by the size of the request: a signature header is read up
//     to a fixed length and a fixed number of candidates, JSON up to a fixed
//     depth, a batch up to a fixed number of elements.
//   - An event ID is text the sender chose, byte for byte: never trimmed, never
//     folded; numbers keep their literal text. What is absent, empty, null, an
//     object or an array is no ID. Where a JSON object has one key twice, the
//     first one counts.
package verify
