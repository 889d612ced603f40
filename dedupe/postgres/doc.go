// Package postgres is the ledger for several gateways: they share one
// PostgreSQL database, each under a name of its own.
//
// Invariants:
//
//   - A commit is one transaction. Its first statement moves the gateway's own
//     row on and finds out whether the name is still this process's: after
//     another one took it, nothing more is written under it.
//   - A claim is an inserted row. Two gateways that decide about one key at the
//     same time meet at its primary key; the loser decides again.
//   - Open deliveries stand in a table of their own, closed ones beside their
//     events. A lease is a row that carries token, owner and end; a result
//     counts while its token stands.
//   - Deliveries with one order have positions, given under a lock of their
//     lane: positions are in commit order over all gateways.
//   - What is large is partitioned by the time in its refs, made ahead and
//     dropped whole. There is no default partition.
//   - Rows are locked in one order everywhere: the gateway's own, open
//     deliveries, claims, lanes, each by its key. What the database ends for
//     a deadlock or a conflict is tried again, a few times.
//   - No advisory lock, trigger, extension or NOTIFY; READ COMMITTED
//     throughout, but for backups.
package postgres
