// Package forward delivers each open delivery to its target until it lands or
// is dead: schedule, leases, isolation between targets, headers, signatures
// and the egress guard.
//
// Invariants:
//
//   - One attempt is at most one request on the wire: no hidden resend by the
//     transport, no redirect followed. Every attempt of a delivery carries
//     the same Idempotency-Key.
//   - An attempt starts only under a lease that outlives it and the commit of
//     its result. No delivery has two attempts at once; after a crash or a
//     lost lease it is attempted again, with the same key.
//   - A delivery changes only through the ledger's Finish, together with the
//     record of the attempt. What is not durable did not happen.
//   - Of several gateways on one ledger no more attempts begin together than a
//     target's rate allows, and one at a time probes a target whose breaker is
//     open.
//   - Every target has its own workers, connections, leases, rate and share of
//     memory; none waits for another.
//   - While a target is paused no attempt at it begins, and while its breaker
//     is open only one at a time. Neither uses up a delivery.
//   - No connection is made to a link-local, metadata, unspecified, multicast
//     or broadcast address, in whatever spelling and whatever a name resolves
//     to: the address that is connected to decides.
//   - Headers in the gateway's own name space come from the gateway alone.
//   - No log line and no error holds a secret, a signature, a body, or more of
//     a target's URL than scheme and host.
package forward
