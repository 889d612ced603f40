// Package client is the sending end of an exactly-once effect: an
// http.RoundTripper that gives every logical operation one idempotency key
// and sends it, with that key, until it is answered.
//
// It is for those who call a service that remembers the Idempotency-Key of
// what it has done: the gateway's own idempotency-key sources, payment
// providers, one's own services. It imports nothing of the gateway.
//
// Invariants:
//
//   - One RoundTrip of POST, PUT, PATCH or DELETE is one operation: one key,
//     the same on every attempt and after a redirect that keeps the method.
//     Other methods pass through untouched.
//   - One attempt is at most one request on the wire. net/http's transport
//     sends some requests again by itself; it is kept from that.
//   - Tried again is only what another try can help: no connection, a broken
//     one, a time-out, 408, 429 and 5xx. Never a certificate that fails, an
//     answer that is final, or a request whose context has ended.
//   - A body is sent again only when all of its bytes can be had again.
//   - The caller's request is not changed.
package client
