package badgerdb_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
)

// TestSyncedLogHoldsCommit looks into the file that a commit synced: the commit
// has to stand there, also when Badger began another log for it, or has begun
// one for a drop of buckets. The log before must not hold it, or the look would
// find it in any.
func TestSyncedLogHoldsCommit(t *testing.T) {
	var offset atomic.Int64
	cfg := small(t.TempDir(), func() time.Time { return time.Now().Add(time.Duration(offset.Load())) })
	cfg.MemTable = 1 << 20
	cfg.Retention = dedupe.Retention{Body: time.Hour, Meta: time.Hour, Audit: time.Hour}
	db := start(t, cfg)
	var newest atomic.Pointer[string]
	db.OnSync(func(name string) { newest.Store(&name) })
	logs := map[string]bool{}
	last := ""
	random := rand.NewChaCha8([32]byte{1})
	for i := range 120 {
		if i%20 == 19 {
			offset.Add(int64(3 * time.Hour))
			if _, err := db.Expire(t.Context()); err != nil {
				t.Fatal(err)
			}
			last = "" // what a drop leaves of a log is Badger's
		}
		body := make([]byte, 60<<10)
		_, _ = random.Read(body) // never fails
		id := fmt.Sprintf("evt_%d_in_the_log", i)
		newest.Store(new(string))
		accept(t, db, request("s", id, string(body)))
		synced := *newest.Load()
		if synced == "" {
			t.Fatalf("commit %d: nothing was synced", i)
		}
		if !holds(t, synced, id) {
			t.Fatalf("commit %d: %s was synced, and does not hold it", i, filepath.Base(synced))
		}
		if last != "" && last != synced && holds(t, last, id) {
			t.Fatalf("commit %d stands in two logs", i)
		}
		logs[synced], last = true, synced
	}
	if len(logs) < 8 {
		t.Errorf("%d logs were written: that proves nothing of those that follow another", len(logs))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// holds reports whether a file has a text in it. A log that is flushed and gone
// has none.
func holds(t *testing.T, name, text string) bool {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return bytes.Contains(b, []byte(text))
}
