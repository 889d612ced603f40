package badgerdb_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
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

// TestLogHasBlocks: what a commit writes stands where the log has blocks already,
// so that its sync has none to record, and what was written ahead changes nothing
// of what a restart after a kill reads.
func TestLogHasBlocks(t *testing.T) {
	cfg := small(t.TempDir(), time.Now)
	db := start(t, cfg)
	var synced string
	db.OnSync(func(name string) { synced = name })
	random := rand.NewChaCha8([32]byte{2})
	send := func(i int) event.Ref {
		body := make([]byte, 60<<10)
		_, _ = random.Read(body) // never fails
		r := request("s", fmt.Sprint("evt_", i), string(body))
		accept(t, db, r)
		return r.Outcomes[0].Ref
	}
	blocks := func() (n int64) {
		var st syscall.Stat_t
		if err := syscall.Stat(synced, &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks
	}
	refs := []event.Ref{send(0)} // writes ahead for the first time
	was, grew, steps, log := blocks(), 0, 0, synced
	for i := 1; i < 200; i++ {
		refs = append(refs, send(i))
		now := blocks()
		switch {
		case synced != log: // the next one
			log = synced
		case now > was:
			grew++
		default:
			steps++
		}
		was = now
	}
	// 12 MB come in steps of 2 MiB.
	if grew == 0 || grew > 20 || steps < 150 {
		t.Errorf("of %d commits %d found blocks and %d did not", len(refs), steps, grew)
	}
	copied := cfg
	copied.Dir = filepath.Join(t.TempDir(), "killed")
	snapshot(t, cfg.Dir, copied.Dir)
	after := start(t, copied)
	for i, ref := range refs {
		if _, err := after.Load(t.Context(), ref); err != nil {
			t.Fatalf("event %d after a kill: %v", i, err)
		}
	}
	if rep, err := after.Check(t.Context()); err != nil || len(rep.Faults) > 0 {
		t.Errorf("%v %v", rep.Faults, err)
	}
}
