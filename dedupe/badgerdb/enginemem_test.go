package badgerdb_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/ristretto/v2/z"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/event"
)

// A buffer that the engine gives back is let go, not kept for the next table:
// kept ones grow to the largest that was ever needed.
func TestNoIdleBuffers(t *testing.T) {
	t.Parallel()
	db := start(t, small(t.TempDir(), time.Now))
	idle := db.Idle()
	if idle == nil {
		t.Fatal("the engine keeps its idle buffers elsewhere")
	}
	for range cap(idle) {
		idle <- z.NewAllocator(512, "test")
	}
	for begun := time.Now(); len(idle) > 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Second { // the engine itself lets one go after 2 s at the soonest
			t.Fatalf("%d buffers are kept", len(idle))
		}
	}
}

// A ledger that was killed with large memtables opens with small ones, and has
// all that was in them.
func TestSmallerMemtablesAfterKill(t *testing.T) {
	t.Parallel()
	was := small(t.TempDir(), time.Now)
	was.MemTable = 32 << 20
	db := start(t, was)
	var refs []event.Ref
	random := rand.NewChaCha8([32]byte{1})
	for i := range 24 {
		body := make([]byte, 1<<20)
		_, _ = random.Read(body) // never fails
		req := request("s", fmt.Sprint("evt_", i), string(body))
		accept(t, db, req)
		refs = append(refs, req.Outcomes[0].Ref)
	}
	is := small(filepath.Join(t.TempDir(), "copy"), time.Now)
	snapshot(t, was.Dir, is.Dir)
	allThere(t, is, refs)
	if got := badgerdb.Engine(is).MemTableSize; got != 8<<20 {
		t.Errorf("memtables are of %d bytes from then on", got)
	}
}

// The memtables of a gateway with a quarter of a gigabyte take a batch of the
// most events there may be, with the headers that go with them.
func TestLargeBatchInSmallMemtables(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir(), time.Now)
	cfg.MemTable = 16 << 20
	db := start(t, cfg)
	element := `{"email":"someone@example.test","event":"delivered","sg_event_id":"` + strings.Repeat("x", 200) + `"}`
	req := &dedupe.Request{Body: []byte(strings.Repeat(element, 1000)), Batch: true}
	for i := range 1000 {
		id := fmt.Sprintf("event-%042d", i)
		ev := event.Event{Source: "s", Provider: "sendgrid", ID: id, Type: "delivered", Key: "s:" + id, Method: "POST", Targets: []string{"billing", "archive"},
			Body: event.Slice{Offset: int64(i * len(element)), Length: int64(len(element))}}
		for n := range 8 {
			ev.Header = append(ev.Header, event.Field{Name: fmt.Sprint("X-Header-", n), Value: strings.Repeat("v", 30)})
		}
		req.Items = append(req.Items, dedupe.Item{Event: ev, RawID: id, HasClaim: true, Claim: dedupe.KeyOf(dedupe.KindID, "s", "", id), Window: time.Hour})
	}
	accept(t, db, req)
	if len(req.Outcomes) != 1000 {
		t.Errorf("%d outcomes, %v", len(req.Outcomes), req.Err)
	}
}

// Tables grow with the ledger, so that there are not too many.
func TestTableSizeFollowsLedger(t *testing.T) {
	t.Parallel()
	cfg := small(t.TempDir(), time.Now)
	if got := badgerdb.Engine(cfg).BaseTableSize; got != 4<<20 {
		t.Errorf("tables of an empty ledger are of %d bytes", got)
	}
	dir := filepath.Join(cfg.Dir, "ledger")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "000001.sst"))
	if err == nil {
		err = errors.Join(f.Truncate(100<<30), f.Close()) // sparse
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := badgerdb.Engine(cfg).BaseTableSize; got != 16<<20 {
		t.Errorf("tables of a ledger of 100 GiB are of %d bytes, want 16 MiB", got)
	}
}
