// Package inbox is the receiving end of an effect that happens once: it lets
// a target do an event's effect in the same database transaction that
// remembers the event's idempotency key, and checks that a request comes from
// the gateway.
//
// It is for the services behind the gateway. It imports nothing of the
// gateway, and no database driver: it speaks database/sql.
//
// The gateway delivers at least once, with the same Idempotency-Key on every
// try. A target that crashes after its effect and before its answer is sent
// to again; only the target can know that it was done:
//
//	tx, err := db.BeginTx(ctx, nil)
//	...
//	defer tx.Rollback()
//	first, err := box.Once(ctx, tx, inbox.Key(r))
//	if err == nil && first {
//		err = charge(ctx, tx)
//	}
//	if err == nil {
//		err = tx.Commit()
//	}
//	// err != nil: answer 500 and it comes again; else answer 200, first or not
//
// Invariants:
//
//   - Key and effect are one transaction: either both are there or neither.
//     What is done outside of tx (an e-mail, a call of another service) is not
//     covered; give such a call the same idempotency key.
//   - Of two transactions with one key at the same time one waits for the
//     other, or fails and must be tried again; both never see "first".
//   - A key is forgotten only by Prune.
//   - A request passes Verifier only with a signature that one of the secrets
//     made over exactly these bytes, not longer ago than the tolerance.
//     Secrets appear in no error and in nothing printed.
//
// The signature covers Webhook-Id, Webhook-Timestamp and the body, not the
// Idempotency-Key: let requests come over TLS or loopback, where nobody can
// put another key on a request that is under way.
package inbox
