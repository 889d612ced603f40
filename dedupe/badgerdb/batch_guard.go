//go:build !onceward_unsafe_blind

package badgerdb

// seesBatch is true in every build that may serve traffic: a request
// sees the claims of those before it in its batch.
const seesBatch = true
