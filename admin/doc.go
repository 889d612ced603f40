// Package admin is the operator's listener: pages for people, a JSON API,
// metrics and health, and the client of that API. It never shares a port with
// the public edge.
//
// Invariants:
//
//   - Every route but /livez, /readyz, the form to sign in and the pages' own
//     files needs a token of a role; /metrics needs one unless the peer is this
//     machine itself. The need is a property of the route, not of a path
//     pattern. A viewer is given no body, in no form.
//   - Tokens are compared as SHA-256 sums in constant time, are kept only as
//     those sums, and stand in no log, error or answer.
//   - The API takes a bearer token and no cookie; pages take the cookie of a
//     session and no token. A session ends after eight hours, with its token,
//     and with the process. Its cookie is Secure: a browser keeps it over https
//     and, if it trusts loopback, there.
//   - Pages are made here whole and work without scripts for reading. Nothing in
//     them is inline: the policy allows our own files and nothing else. Text
//     from outside is escaped for its place, and what would not show is shown as
//     an escape.
//   - What changes something is a form with a reason, from our own site.
//   - Plots are made of this process's own metrics, minute by minute, for a day:
//     they are in memory, empty after a restart, and each gateway's own.
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
