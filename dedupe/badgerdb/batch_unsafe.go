//go:build onceward_unsafe_blind

package badgerdb

// seesBatch is off on purpose: in a build with this tag requests of one batch do not see each other's claims,
// so that the tests at the edge can show that they notice. It must never serve
// traffic.
const seesBatch = false
