package badgerdb_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

var keyName = dedupe.KeyOf(dedupe.KindSync, "pay", "shop", "k1")

func claimStep(window time.Duration) *dedupe.KeyStep {
	return &dedupe.KeyStep{Kind: dedupe.StepClaim, Key: keyName, Claim: &dedupe.KeyClaim{
		Source: "pay", Caller: "shop", ID: "k1", Target: "bank", Downstream: "pay:shop:k1", Lease: 10 * time.Minute, Window: window}}
}

func answerStep(token uint64, body string) *dedupe.KeyStep {
	return &dedupe.KeyStep{Kind: dedupe.StepAnswer, Key: keyName, Token: token,
		Answer: &dedupe.KeyAnswer{Status: 201, Length: int64(len(body)), Hash: event.HashOf([]byte(body)), Body: []byte(body)}}
}

func step(t *testing.T, db *running, s *dedupe.KeyStep) dedupe.KeyVerdict {
	t.Helper()
	if err := db.Commit(t.Context(), &dedupe.Batch{Keys: []*dedupe.KeyStep{s}}); err != nil {
		t.Fatal(err)
	}
	if s.Err != nil {
		t.Fatal(s.Err)
	}
	return s.Verdict
}

// Who opened the ledger knows that nobody else works on it: what an earlier
// run left in flight is unknown at once, not when its lease is over.
func TestOpenEndsKeyLeases(t *testing.T) {
	cfg := small(t.TempDir(), time.Now)
	db := start(t, cfg)
	if v := step(t, db, claimStep(24*time.Hour)); v != dedupe.KeyClaimed {
		t.Fatalf("verdict %d", v)
	}
	if k, err := db.SyncKey(t.Context(), keyName); err != nil || k.State != dedupe.KeyInFlight {
		t.Fatalf("before: %v, %v", k.State, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = start(t, cfg)
	k, err := db.SyncKey(t.Context(), keyName)
	if err != nil || k.State != dedupe.KeyUnknown || k.Why != dedupe.WhyLease {
		t.Errorf("after: %v because %q, %v", k.State, k.Why, err)
	}
	open, err := db.SyncKeys(t.Context(), dedupe.KeyFilter{Open: true}, "", 10)
	if err != nil || len(open.Items) != 1 || open.Items[0].State != dedupe.KeyUnknown {
		t.Errorf("open keys: %+v, %v", open.Items, err)
	}
	if st, err := db.Stats(t.Context()); err != nil || st.Keys.Unknown != 1 || st.Keys.InFlight != 0 {
		t.Errorf("stats: %+v, %v", st.Keys, err)
	}
	if v := step(t, db, claimStep(24*time.Hour)); v != dedupe.KeyStuck {
		t.Errorf("claimed again: verdict %d, want stuck", v)
	}
}

// touch changes what stands below a prefix of one byte in a closed ledger.
func touch(t ledgertest.TB, dir string, kind byte, change func(txn *badger.Txn, key, val []byte) error) {
	t.Helper()
	kv, err := badger.Open(badger.DefaultOptions(dir + "/ledger").WithCompression(options.None).WithLogger(nil))
	if err != nil {
		t.Fatalf("open the store: %v", err)
	}
	defer kv.Close()
	n := 0
	err = kv.Update(func(txn *badger.Txn) error {
		it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kind}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			val, err := it.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			n++
			if err := change(txn, it.Item().KeyCopy(nil), val); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || n == 0 {
		t.Fatalf("%d records changed, %v", n, err)
	}
}

func flipLast(txn *badger.Txn, key, val []byte) error {
	val[len(val)-1] ^= 1
	return txn.Set(key, val)
}

// A damaged key must not look like a new one: that would execute it again.
func TestDamagedKeyIsNoNewKey(t *testing.T) {
	for _, tt := range []struct {
		name   string
		kind   byte
		change func(*badger.Txn, []byte, []byte) error
		record bool // the record itself is damaged, not only its answer
	}{
		{"record", 'k', flipLast, true},
		{"chunk", 'q', flipLast, false},
		{"chunk is gone", 'q', func(txn *badger.Txn, key, _ []byte) error { return txn.Delete(key) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := small(t.TempDir(), time.Now)
			db := start(t, cfg)
			claim := claimStep(24 * time.Hour)
			step(t, db, claim)
			step(t, db, answerStep(claim.Record.Token, strings.Repeat("paid", dedupe.MaxInline)))
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			touch(t, cfg.Dir, tt.kind, tt.change)
			db = start(t, cfg)
			s := claimStep(24 * time.Hour)
			if err := db.Commit(t.Context(), &dedupe.Batch{Keys: []*dedupe.KeyStep{s}}); err != nil {
				t.Fatal(err)
			}
			if tt.record && (!errors.Is(s.Err, dedupe.ErrDamaged) || s.Verdict == dedupe.KeyClaimed) {
				t.Errorf("claim of a damaged key: verdict %d, %v", s.Verdict, s.Err)
			}
			k, err := db.SyncKey(t.Context(), keyName)
			if tt.record && !errors.Is(err, dedupe.ErrDamaged) {
				t.Errorf("read of a damaged key: %v", err)
			}
			if _, cerr := db.SyncChunk(t.Context(), &k, 0); !tt.record && (err != nil || !errors.Is(cerr, dedupe.ErrDamaged)) {
				t.Errorf("read of a damaged answer: %v, %v", err, cerr)
			}
			rep, err := db.Check(t.Context())
			if err != nil || len(rep.Faults) == 0 || !strings.Contains(rep.Faults[0].Where+rep.Faults[0].What, "synchronous route") {
				t.Errorf("check: %+v, %v", rep.Faults, err)
			}
		})
	}
}
