package badgerdb_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

func request(source, id, body string, targets ...string) *dedupe.Request {
	return &dedupe.Request{Body: []byte(body), Items: []dedupe.Item{{
		Event: event.Event{Source: source, Provider: "token", ID: id, ReceivedAt: time.Now(), Method: "POST",
			BodyHash: event.HashOf([]byte(body)), Body: event.Slice{Length: int64(len(body))}, Targets: targets},
		Claim: dedupe.KeyOf(dedupe.KindID, source, "", id), HasClaim: true, RawID: id, Window: time.Hour, Conflict: dedupe.ConflictAck,
	}}}
}

func accept(t *testing.T, db *running, reqs ...*dedupe.Request) {
	t.Helper()
	if err := db.Commit(t.Context(), &dedupe.Batch{Requests: reqs}); err != nil {
		t.Fatal(err)
	}
	for _, r := range reqs {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// filled makes a closed ledger with n events in as many batches and returns
// the refs.
func filled(t *testing.T, n int) (badgerdb.Config, []event.Ref) {
	t.Helper()
	cfg := small(t.TempDir(), time.Now)
	db := start(t, cfg)
	var refs []event.Ref
	for i := range n {
		r := request("s", fmt.Sprint("evt_", i), strings.Repeat("x", 900)+fmt.Sprint(i), "t")
		accept(t, db, r)
		refs = append(refs, r.Outcomes[0].Ref)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return cfg, refs
}

func tables(t *testing.T, cfg badgerdb.Config) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(cfg.Dir, "ledger", "*.sst"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	return files
}

func flip(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// A flipped bit anywhere in a table is an error that names the ledger, never
// a missing event.
func TestFlippedBitInTable(t *testing.T) {
	cfg, refs := filled(t, 40)
	size := func(p string) int64 {
		st, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		return st.Size()
	}
	path := tables(t, cfg)[0]
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := size(path)
	for i := range int64(25) {
		at := n * i / 25
		flip(t, path, at)
		db, err := badgerdb.Open(cfg)
		if err == nil {
			// Served in spite of it: then everything must be right.
			for _, ref := range refs {
				if _, err := db.Load(t.Context(), ref); err != nil && !errors.Is(err, dedupe.ErrDamaged) {
					t.Errorf("flip at %d of %d: event %s: %v, want it or ErrDamaged", at, n, ref, err)
				}
			}
			db.Close()
		} else if !errors.Is(err, dedupe.ErrDamaged) {
			t.Errorf("flip at %d of %d: %v, want ErrDamaged", at, n, err)
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Badger drops everything after a damaged place in its write-ahead file and
// says nothing; the high-water mark does.
func TestFlippedBitInWriteAheadFile(t *testing.T) {
	cfg := small(t.TempDir(), time.Now)
	db := start(t, cfg)
	for i := range 30 {
		accept(t, db, request("s", fmt.Sprint("evt_", i), "body", "t"))
	}
	// As after a kill: the files as they are, copied.
	copyTo := t.TempDir()
	waitMark(t, db)
	if err := os.CopyFS(copyTo, os.DirFS(cfg.Dir)); err != nil {
		t.Fatal(err)
	}
	mem, err := filepath.Glob(filepath.Join(copyTo, "ledger", "*.mem"))
	if err != nil || len(mem) == 0 {
		t.Fatalf("no write-ahead file: %v", err)
	}
	body, err := os.ReadFile(mem[0])
	if err != nil {
		t.Fatal(err)
	}
	used := int64(len(bytes.TrimRight(body, "\x00")))
	c := cfg
	c.Dir = copyTo
	ok, err := badgerdb.Open(c)
	if err != nil {
		t.Fatalf("the copy itself: %v", err)
	}
	ok.Close()
	if err := os.RemoveAll(copyTo); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(copyTo, os.DirFS(cfg.Dir)); err != nil {
		t.Fatal(err)
	}
	flip(t, mem[0], used/2)
	db2, err := badgerdb.Open(c)
	if err == nil {
		db2.Close()
	}
	if !errors.Is(err, dedupe.ErrDamaged) || !strings.Contains(fmt.Sprint(err), "were on disk and are gone") {
		t.Fatalf("open after a flipped bit in the write-ahead file: %v, want ErrDamaged naming the batches", err)
	}
}

// waitMark waits until the high-water file names the newest batch.
func waitMark(t *testing.T, db *running) {
	t.Helper()
	st, err := db.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 2000 {
		b, err := os.ReadFile(filepath.Join(db.cfg.Dir, "highwater"))
		if err != nil {
			t.Fatal(err)
		}
		for _, slot := range [][]byte{b[:8], b[512:520]} {
			if uint64(slot[7])|uint64(slot[6])<<8 == st.Batches {
				return
			}
		}
		<-tick.C
	}
	t.Fatal("the high-water mark never reached the newest batch")
}

func TestLostFilesAreDamage(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, cfg badgerdb.Config){
		"a table": func(t *testing.T, cfg badgerdb.Config) {
			if err := os.Remove(tables(t, cfg)[0]); err != nil {
				t.Fatal(err)
			}
		},
		"all of the ledger": func(t *testing.T, cfg badgerdb.Config) {
			if err := os.RemoveAll(filepath.Join(cfg.Dir, "ledger")); err != nil {
				t.Fatal(err)
			}
		},
		"the manifest": func(t *testing.T, cfg badgerdb.Config) {
			if err := os.Remove(filepath.Join(cfg.Dir, "ledger", "MANIFEST")); err != nil {
				t.Fatal(err)
			}
		},
		"a truncated table": func(t *testing.T, cfg badgerdb.Config) {
			if err := os.Truncate(tables(t, cfg)[0], 1000); err != nil {
				t.Fatal(err)
			}
		},
		"the high-water file": func(t *testing.T, cfg badgerdb.Config) {
			if err := os.Remove(filepath.Join(cfg.Dir, "highwater")); err != nil {
				t.Fatal(err)
			}
		},
		"the high-water file's records": func(t *testing.T, cfg badgerdb.Config) {
			flip(t, filepath.Join(cfg.Dir, "highwater"), 3)
			flip(t, filepath.Join(cfg.Dir, "highwater"), 512+3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, _ := filled(t, 5)
			lose(t, cfg)
			db, err := badgerdb.Open(cfg)
			if err == nil {
				db.Close()
			}
			if !errors.Is(err, dedupe.ErrDamaged) {
				t.Fatalf("open without %s: %v, want ErrDamaged", name, err)
			}
		})
	}
}

// A table that the list of tables names and that is gone: either may be what was
// damaged, so both are named.
func TestLostTableNamesTheList(t *testing.T) {
	cfg, _ := filled(t, 50)
	lost := tables(t, cfg)[0]
	if err := os.Remove(lost); err != nil {
		t.Fatal(err)
	}
	_, err := badgerdb.Open(cfg)
	if !errors.Is(err, dedupe.ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(lost)) || !strings.Contains(err.Error(), "MANIFEST") {
		t.Errorf("open: %v, want ErrDamaged naming %s and MANIFEST", err, filepath.Base(lost))
	}
}

// A kill while the ledger is made, or while a table is written, leaves files
// that mean nothing.
func TestUnfinishedFilesAreNotDamage(t *testing.T) {
	cfg := small(t.TempDir(), time.Now)
	kv, err := badger.Open(badger.DefaultOptions(filepath.Join(cfg.Dir, "ledger")).WithCompression(options.None).WithLogger(nil))
	if err == nil {
		err = kv.Close() // before the first record
	}
	if err != nil {
		t.Fatal(err)
	}
	db := start(t, cfg)
	r := request("s", "1", "b", "t")
	accept(t, db, r)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.Dir, "ledger", "000099.sst"), make([]byte, 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.Dir, "ledger", "00099.mem"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db = start(t, cfg)
	if _, err := db.Get(t.Context(), r.Outcomes[0].Ref); err != nil {
		t.Error(err)
	}
}

// A kill while a value log is made leaves it without a byte, the newest or, after
// another such start, one before it. No value log holds anything.
func TestEmptyValueLogIsNotDamage(t *testing.T) {
	for _, which := range []string{"first", "last", "all"} {
		cfg, refs := filled(t, 5)
		start(t, cfg).Close() // one more
		logs, err := filepath.Glob(filepath.Join(cfg.Dir, "ledger", "*.vlog"))
		if err != nil || len(logs) == 0 {
			t.Fatalf("%d value logs, %v", len(logs), err)
		}
		switch which {
		case "first":
			logs = logs[:1]
		case "last":
			logs = logs[len(logs)-1:]
		}
		for _, path := range logs {
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
		}
		db := start(t, cfg)
		for _, ref := range refs {
			if _, err := db.Load(t.Context(), ref); err != nil {
				t.Errorf("%s: %v", which, err)
			}
		}
	}
}

// The list of encryption keys is empty, whatever becomes of its file.
func TestListOfKeysIsNothing(t *testing.T) {
	for name, text := range map[string]string{"cut short": "short", "emptied": "", "zeroed": strings.Repeat("\x00", 28)} {
		cfg, refs := filled(t, 2)
		if err := os.WriteFile(filepath.Join(cfg.Dir, "ledger", "KEYREGISTRY"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		db := start(t, cfg)
		for _, ref := range refs {
			if _, err := db.Load(t.Context(), ref); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A record that goes missing behind the ledger's back is damage to whoever
// asks for it, and Check names it.
func TestMissingRecordIsDamage(t *testing.T) {
	for kind, prefix := range map[string]byte{"event": 'e', "body": 'b'} {
		t.Run(kind, func(t *testing.T) {
			cfg, refs := filled(t, 5)
			kv, err := badger.Open(badger.DefaultOptions(filepath.Join(cfg.Dir, "ledger")).WithCompression(options.None).WithLogger(nil))
			if err != nil {
				t.Fatal(err)
			}
			victim := refs[2]
			err = kv.Update(func(txn *badger.Txn) error {
				it := txn.NewIterator(badger.DefaultIteratorOptions)
				defer it.Close()
				for it.Rewind(); it.Valid(); it.Next() {
					key := it.Item().KeyCopy(nil)
					is := key[0] == prefix && bytes.Contains(key, victim[:]) && (prefix != 'e' || key[6] == 'e')
					if is {
						return txn.Delete(key)
					}
				}
				return errors.New("record not found")
			})
			if err := errors.Join(err, kv.Close()); err != nil {
				t.Fatal(err)
			}
			db := start(t, cfg)
			if _, err := db.Load(t.Context(), victim); !errors.Is(err, dedupe.ErrDamaged) {
				t.Errorf("load: %v, want ErrDamaged", err)
			}
			if _, err := db.Load(t.Context(), refs[1]); err != nil {
				t.Errorf("load of its neighbour: %v", err)
			}
			never := refs[4].Next(0)
			if _, err := db.Get(t.Context(), never); !errors.Is(err, dedupe.ErrNotFound) {
				t.Errorf("a ref never given: %v, want ErrNotFound", err)
			}
			rep, err := db.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(rep.Faults) == 0 {
				t.Error("check found no fault")
			}
			t.Logf("faults: %v", rep.Faults)
		})
	}
}

// A changed record fails its own checksum, whatever Badger thinks of it.
func TestChangedRecordIsDamage(t *testing.T) {
	cfg, refs := filled(t, 3)
	kv, err := badger.Open(badger.DefaultOptions(filepath.Join(cfg.Dir, "ledger")).WithCompression(options.None).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	err = kv.Update(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			key := it.Item().KeyCopy(nil)
			if key[0] != 'd' && !(key[0] == 'e' && key[6] == 'e') && key[0] != 'b' {
				continue
			}
			val, err := it.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			val[len(val)-1] ^= 1
			changed++
			if err := txn.Set(key, val); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, kv.Close()); err != nil {
		t.Fatal(err)
	}
	db := start2(t, cfg)
	defer db.Close()
	for _, ref := range refs {
		if _, err := db.Load(t.Context(), ref); !errors.Is(err, dedupe.ErrDamaged) {
			t.Errorf("load: %v, want ErrDamaged", err)
		}
	}
	// A repeat whose claim can't be read must not pass for new.
	again := request("s", "evt_1", "body", "t")
	if err := db.Commit(t.Context(), &dedupe.Batch{Requests: []*dedupe.Request{again}}); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(again.Err, dedupe.ErrDamaged) || again.Outcomes != nil {
		t.Errorf("repeat under a damaged claim: %v %v, want ErrDamaged", again.Outcomes, again.Err)
	}
	rep, err := db.Check(t.Context())
	if err != nil || len(rep.Faults) < changed {
		t.Errorf("check found %d faults (%v), changed were %d", len(rep.Faults), err, changed)
	}
}

// start2 opens without background work, which would stop at the damage.
func start2(t testing.TB, cfg badgerdb.Config) *badgerdb.DB {
	t.Helper()
	db, err := badgerdb.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// A delivery that dies while a start still reads back what earlier runs left is
// counted once, and so is one of an earlier run.
func TestDeadOnceAtAStart(t *testing.T) {
	cfg := small(t.TempDir(), time.Now)
	for run := range 3 {
		db := &running{DB: start2(t, cfg), cfg: cfg, stop: func() {}}
		accept(t, db, request("s", fmt.Sprint("evt_", run), "b", "t"))
		leases, _, err := db.Lease(t.Context(), "t", 1, time.Minute)
		if err != nil || len(leases) != 1 {
			t.Fatalf("run %d: leased %d, %v", run, len(leases), err)
		}
		l := leases[0]
		r := &dedupe.Result{Lease: l, State: event.Dead, Attempt: event.Attempt{
			Event: l.Delivery.Event, Target: "t", Number: 1, StartedAt: time.Now(), Outcome: event.Outcome4xx, State: event.Dead}}
		if err := db.Commit(t.Context(), &dedupe.Batch{Results: []*dedupe.Result{r}}); err != nil {
			t.Fatal(err)
		}
		if err := db.Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := db.DeadOf("t"); n != int64(run+1) {
			t.Errorf("run %d: %d dead letters, want %d", run, n, run+1)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSecondOpenIsRefused(t *testing.T) {
	cfg := small(t.TempDir(), time.Now)
	db := start(t, cfg)
	accept(t, db, request("s", "1", "b", "t"))
	_, err := badgerdb.Open(cfg)
	if !errors.Is(err, dedupe.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Fatalf("second open: %v, want ErrLocked naming this process", err)
	}
	accept(t, db, request("s", "2", "b", "t"))
}

func TestDiskLowRefusesIntakeOnly(t *testing.T) {
	cfg := small(t.TempDir(), time.Now)
	db := start(t, cfg)
	r := request("s", "1", "b", "t")
	accept(t, db, r)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.MaxSize = 1 // as good as a full disk
	db = start(t, cfg)
	refused := request("s", "2", "b", "t")
	ls, _, err := db.Lease(t.Context(), "t", 1, time.Minute)
	if err != nil || len(ls) != 1 {
		t.Fatalf("lease: %v %v", ls, err)
	}
	done := &dedupe.Result{Lease: ls[0], State: event.Delivered,
		Attempt: event.Attempt{Event: r.Outcomes[0].Ref, Target: "t", Number: 1, Status: 200, Outcome: event.Outcome2xx, StartedAt: time.Now()}}
	if err := db.Commit(t.Context(), &dedupe.Batch{Requests: []*dedupe.Request{refused}, Results: []*dedupe.Result{done}}); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(refused.Err, dedupe.ErrDiskLow) || refused.Outcomes != nil {
		t.Errorf("request: %v %v, want ErrDiskLow", refused.Outcomes, refused.Err)
	}
	if rec, err := db.Get(t.Context(), r.Outcomes[0].Ref); err != nil || rec.Status != event.StatusDelivered {
		t.Errorf("result with the disk low: %v %v, want it recorded", rec.Status, err)
	}
	if err := db.Health(t.Context()); !errors.Is(err, dedupe.ErrDiskLow) {
		t.Errorf("health: %v", err)
	}
}

// More open events than a transaction has room for are carried, and forgotten
// again when they are closed.
func TestManyCarried(t *testing.T) {
	clock := ledgertest.NewClock(time.Now())
	cfg := small(t.TempDir(), clock.Now)
	cfg.MemTable = 2 << 20
	cfg.Retention = dedupe.Retention{Body: 24 * time.Hour, Meta: 24 * time.Hour, Audit: 24 * time.Hour}
	db := alone(t, cfg)
	const n = 6000
	for i := 0; i < n; i += 100 {
		var reqs []*dedupe.Request
		for j := range 100 {
			reqs = append(reqs, request("s", fmt.Sprint("evt_", i+j), "b", "t"))
		}
		accept(t, db, reqs...)
	}
	clock.Advance(48 * time.Hour)
	if x, err := db.Expire(t.Context()); err != nil || x.Carried != n {
		t.Fatalf("expire: %+v %v, want %d carried", x, err, n)
	}
	for left := n; left > 0; {
		ls, _, err := db.Lease(t.Context(), "t", 500, time.Minute)
		if err != nil || len(ls) == 0 {
			t.Fatalf("%d left, leased %d: %v", left, len(ls), err)
		}
		left -= len(ls)
		b := &dedupe.Batch{}
		for _, l := range ls {
			if _, err := db.Load(t.Context(), l.Delivery.Event); err != nil {
				t.Fatal(err)
			}
			b.Results = append(b.Results, &dedupe.Result{Lease: l, State: event.Delivered, Attempt: event.Attempt{
				Event: l.Delivery.Event, Target: "t", Number: 1, StartedAt: clock.Now(), Outcome: event.Outcome2xx}})
		}
		if err := db.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	clock.Advance(72 * time.Hour)
	if x, err := db.Expire(t.Context()); err != nil || x.Carried != 0 {
		t.Fatalf("expire after all was delivered: %+v %v", x, err)
	}
	if p, err := db.Events(t.Context(), dedupe.Filter{}, "", 10); err != nil || len(p.Items) != 0 {
		t.Errorf("%d events left, %v", len(p.Items), err)
	}
}

func TestBigBody(t *testing.T) {
	cfg := small(t.TempDir(), time.Now)
	db := start(t, cfg)
	body := strings.Repeat("0123456789abcdef", 25<<20/16)
	r := request("s", "1", body, "t")
	accept(t, db, r)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = start(t, cfg)
	got, err := db.Body(t.Context(), r.Outcomes[0].Ref)
	if err != nil || string(got) != body {
		t.Fatalf("%d bytes, %v; want %d", len(got), err, len(body))
	}
	if again := request("s", "1", body, "t"); true {
		accept(t, db, again)
		if again.Outcomes[0].Verdict != dedupe.Repeat {
			t.Errorf("verdict %v, want repeat", again.Outcomes[0].Verdict)
		}
	}
}
