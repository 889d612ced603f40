//go:build onceward_failpoints

package badgerdb

import (
	"os"
	"time"
)

// hurry makes buckets of seconds where ONCEWARD_HURRY says so, and with them
// retention run every second, so that the crash tests meet carries and drops
// at every kill. Memtables are small, so that flushes and compactions run too.
func hurry(c *Config) {
	if os.Getenv("ONCEWARD_HURRY") == "" {
		return
	}
	c.MinBucket, c.ClaimBucket, c.MemTable = time.Second, 2*time.Second, 8<<20
}
