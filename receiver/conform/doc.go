// Package conform holds a synchronous route to the contract of its
// Idempotency-Key, from outside: it sends requests to a base URL, with nothing
// but HTTP, and says for each scenario whether the answers were those of the
// contract. It can be run against any implementation.
//
// Invariants:
//
//   - The route's target need only answer requests of state-changing methods.
//     What a scenario concludes about executions it concludes from answers: a
//     target that echoes, or whose answers differ from one execution to the
//     next, makes more of them visible. Target is such a target.
//   - Every run uses keys of its own, so that runs don't meet.
//   - A scenario that can't be tried says so; it never counts as passed.
//   - It imports nothing else of the product.
package conform
