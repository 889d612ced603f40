// Package admin is the operator's listener: a JSON API, metrics and health,
// and the client of that API. It never shares a port with the public edge.
//
// Invariants:
//
//   - Every route but /livez, /readyz and the page at / needs the bearer
//     token; /metrics needs it unless the peer is this machine itself. The
//     need is a property of the route, not of a path pattern.
//   - The token is compared as a SHA-256 sum in constant time, is kept only as
//     that sum, and stands in no log, error or answer.
//   - A name in the Host header that is not ours is refused with 421, so that
//     no web page can reach a loopback listener through DNS. A state-changing
//     request from another site is refused with 403.
//   - Every answer carries the security headers. Bodies of events are given
//     out as attachments of no type a browser would show.
//   - Metric labels are route patterns, status codes and reasons of a closed
//     set, never request data.
//   - Errors have one JSON shape, {"error":{"code","message"}}, and lists have
//     one, {"items":[...],"next":"..."}. Field names are a contract.
package admin
