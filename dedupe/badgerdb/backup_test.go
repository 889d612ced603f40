package badgerdb_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/event"
)

// backedUp makes a ledger with n delivered and n open events and returns its
// backup.
func backedUp(t *testing.T, n int) (backup []byte, refs []event.Ref) {
	t.Helper()
	db := start(t, small(t.TempDir(), time.Now))
	for i := range 2 * n {
		r := request("s", fmt.Sprint("evt_", i), fmt.Sprintf(`{"n":%d}`, i), "t")
		accept(t, db, r)
		refs = append(refs, r.Outcomes[0].Ref)
	}
	leases, _, err := db.Lease(t.Context(), "t", n, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var b dedupe.Batch
	for _, l := range leases {
		b.Results = append(b.Results, &dedupe.Result{Lease: l, State: event.Delivered, Attempt: event.Attempt{Event: l.Delivery.Event,
			Target: "t", Number: 1, StartedAt: time.Now(), Status: 200, Outcome: event.Outcome2xx, State: event.Delivered}})
	}
	if err := db.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := db.Backup(t.Context(), &buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes(), refs
}

// A restored ledger holds what was open until it is told to go on; what was
// delivered, claims and the account are as they were.
func TestRestoreHolds(t *testing.T) {
	backup, refs := backedUp(t, 5)
	cfg := small(filepath.Join(t.TempDir(), "new"), time.Now)
	report, err := badgerdb.Restore(t.Context(), cfg, bytes.NewReader(backup), false)
	if err != nil || !report.Held || report.Events != 10 {
		t.Fatalf("restore: %+v, %v", report, err)
	}
	for range 2 { // held, also after another start
		db := start(t, cfg)
		if ls, next, err := db.Lease(t.Context(), "t", 10, time.Minute); err != nil || len(ls) != 0 {
			t.Errorf("%d deliveries are leased although they are held, next %v: %v", len(ls), next, err)
		}
		st, err := db.Stats(t.Context())
		if err != nil || st.Targets["t"].Pending != 5 {
			t.Errorf("stats: %+v, %v; want 5 pending", st.Targets, err)
		}
		if c := st.Concerns; len(c) != 1 || c[0].Name != "held" || !strings.Contains(c[0].Text, "5 deliveries") || !strings.Contains(c[0].Do, "--resume-deliveries") {
			t.Errorf("what the ledger says of the hold: %+v", c)
		}
		if rec, err := db.Get(t.Context(), refs[0]); err != nil || rec.Status != event.StatusDelivered {
			t.Errorf("a delivered event is %s, %v", rec.Status, err)
		}
		again := request("s", "evt_3", `{"n":3}`, "t")
		accept(t, db, again)
		if again.Outcomes[0].Verdict != dedupe.Repeat || again.Outcomes[0].Ref != refs[3] {
			t.Errorf("a repeat is %+v", again.Outcomes[0])
		}
		if rep, err := db.Check(t.Context()); err != nil || len(rep.Faults) > 0 {
			t.Errorf("check: %+v, %v", rep.Faults, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cfg.ResumeDeliveries = true
	db := start(t, cfg)
	fresh := request("s", "evt_new", "{}", "t")
	accept(t, db, fresh)
	if ref := fresh.Outcomes[0].Ref; ref.Writer() == refs[0].Writer() || ref.Compare(refs[9]) <= 0 {
		t.Errorf("the first ref after it is %s, want a later one of another writer than %s", ref, refs[9])
	}
	if ls, _, err := db.Lease(t.Context(), "t", 10, time.Minute); err != nil || len(ls) != 6 {
		t.Errorf("%d deliveries are leased after the hold, want 6: %v", len(ls), err)
	}
	if st, err := db.Stats(t.Context()); err != nil || len(st.Concerns) != 0 {
		t.Errorf("after the hold the ledger says %+v, %v", st.Concerns, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.ResumeDeliveries = false
	db = start(t, cfg) // the hold is over for good
	if ls, _, err := db.Lease(t.Context(), "t", 10, time.Minute); err != nil || len(ls) != 6 {
		t.Errorf("%d deliveries are leased after another start, want 6: %v", len(ls), err)
	}
}

// A backup that was cut or changed anywhere is refused, by verify and by
// restore, and leaves nothing behind.
func TestBackupIsChecked(t *testing.T) {
	backup, _ := backedUp(t, 20)
	if rep, err := badgerdb.VerifyBackup(t.Context(), bytes.NewReader(backup)); err != nil || rep.Events != 40 || rep.Records == 0 {
		t.Fatalf("a good backup: %+v, %v", rep, err)
	}
	parent := t.TempDir()
	try := func(what string, b []byte) {
		t.Helper()
		if _, err := badgerdb.VerifyBackup(t.Context(), bytes.NewReader(b)); err == nil {
			t.Errorf("verify takes a backup %s", what)
		}
		if _, err := badgerdb.Restore(t.Context(), small(filepath.Join(parent, "new"), time.Now), bytes.NewReader(b), false); err == nil {
			t.Errorf("restore takes a backup %s", what)
		}
		left, err := os.ReadDir(parent)
		if err != nil || len(left) > 0 {
			t.Fatalf("restore of a backup %s leaves %v, %v", what, left, err)
		}
	}
	for i := range 12 {
		at := len(backup) * i / 12
		try(fmt.Sprint("cut at ", at), backup[:at])
		flipped := bytes.Clone(backup)
		flipped[at] ^= 0x10
		try(fmt.Sprint("changed at ", at), flipped)
	}
	try("with something after it", append(bytes.Clone(backup), 'x'))
	try("without its last byte", backup[:len(backup)-1])
	try("that is none", []byte("hello"))

	taken := t.TempDir()
	if err := os.WriteFile(filepath.Join(taken, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := badgerdb.Restore(t.Context(), small(taken, time.Now), bytes.NewReader(backup), false); err == nil {
		t.Error("restore takes a directory that is not empty")
	}
}

// A backup beside live traffic is whole: every event accepted before it began
// is in it, with its body.
func TestBackupOnline(t *testing.T) {
	db := start(t, small(t.TempDir(), time.Now))
	stop := make(chan struct{})
	var mu sync.Mutex
	var done []event.Ref
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			r := request("s", fmt.Sprint("evt_", i), fmt.Sprint(i), "t")
			if err := db.Commit(t.Context(), &dedupe.Batch{Requests: []*dedupe.Request{r}}); err != nil {
				t.Errorf("accept: %v", err)
				return
			}
			mu.Lock()
			done = append(done, r.Outcomes[0].Ref)
			mu.Unlock()
		}
	})
	var backups [][]byte
	var before [][]event.Ref
	for len(backups) < 3 {
		mu.Lock()
		have := len(done)
		refs := append([]event.Ref(nil), done...)
		mu.Unlock()
		if have < 20*(len(backups)+1) {
			continue
		}
		var buf bytes.Buffer
		if err := db.Backup(t.Context(), &buf); err != nil {
			t.Fatal(err)
		}
		backups, before = append(backups, buf.Bytes()), append(before, refs)
	}
	close(stop)
	wg.Wait()
	for i, b := range backups {
		cfg := small(filepath.Join(t.TempDir(), "new"), time.Now)
		if _, err := badgerdb.Restore(t.Context(), cfg, bytes.NewReader(b), true); err != nil {
			t.Fatal(err)
		}
		restored := start(t, cfg)
		for _, ref := range before[i] {
			if _, err := restored.Load(t.Context(), ref); err != nil {
				t.Fatalf("backup %d: event %s: %v", i, ref, err)
			}
		}
		if rep, err := restored.Check(t.Context()); err != nil || len(rep.Faults) > 0 {
			t.Errorf("backup %d: check: %+v, %v", i, rep.Faults, err)
		}
		if err := restored.Close(); err != nil && !errors.Is(err, dedupe.ErrClosed) {
			t.Fatal(err)
		}
	}
}
