//go:build onceward_unsafe_claims

package postgres

// insertClaims breaks the promise on purpose: a claim that another gateway has
// taken since it was looked for is passed over. A build with this tag lets the
// crash tests show that they notice the second acceptance; it must never serve
// traffic. The pause is between the look and the taking, as under load; otherwise
// two gateways seldom meet in it.
const insertClaims = `INSERT INTO {s}.claims SELECT c.* FROM (SELECT pg_sleep(0.1)) AS pause, unnest($1::bytea[], $2::uuid[], $3::bytea[], $4::bigint[], $5::bigint[]) AS c ON CONFLICT DO NOTHING`

// halve breaks another: claims are committed before their events. The pause is
// as on a slow disk; otherwise it takes many crashes to hit the moment between.
func (b *batch) halve() {
	if len(b.fresh) == 0 {
		return
	}
	b.queue("commit")
	b.queue("begin isolation level read committed")
	b.queue("select pg_sleep(0.2)")
}
