package badgerdb_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

// goldenLedger is a whole ledger of format 1, as the version that first had the
// format left it. `go test ./dedupe/badgerdb -run GoldenLedger -update` makes it
// anew, which only a format that was never released may be.
const goldenLedger = "testdata/ledgers/format1.tar.gz"

// goldenTime is when the golden ledger was written.
var goldenTime = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// goldenEvent is what number i of the golden ledger was.
func goldenEvent(i int) *dedupe.Request {
	body := fmt.Sprintf(`{"id":"evt_%d","text":%q}`, i, strings.Repeat("words and words ", i*40))
	r := request("stripe", fmt.Sprint("evt_", i), body, "billing", "crm")
	ev := &r.Items[0].Event
	ev.Type, ev.Secret, ev.Query, ev.Key = "invoice.paid", "2026", "a=1", fmt.Sprint("stripe:evt_", i)
	ev.Header = []event.Field{{Name: "Content-Type", Value: "application/json"}, {Name: "X-Number", Value: fmt.Sprint(i)}}
	ev.ReceivedAt = goldenTime
	r.Answer = event.Answer{Status: 202, ContentType: "application/json", Body: []byte(`{"ok":true}`)}
	r.Items[0].Window = 30 * 24 * time.Hour
	return r
}

const goldenEvents = 6

// writeGolden makes the golden ledger: events delivered, dead, cancelled and
// open, with attempts, a repeat, a conflict and a note.
func writeGolden(t *testing.T) {
	clock := ledgertest.NewClock(goldenTime)
	cfg := small(t.TempDir(), clock.Now)
	db := start(t, cfg)
	var refs []event.Ref
	for i := range goldenEvents {
		r := goldenEvent(i)
		accept(t, db, r)
		refs = append(refs, r.Outcomes[0].Ref)
		clock.Advance(time.Second)
	}
	conflict := goldenEvent(1)
	conflict.Body = []byte("other")
	conflict.Items[0].Event.BodyHash, conflict.Items[0].Event.Body.Length = event.HashOf(conflict.Body), 5
	accept(t, db, goldenEvent(0), conflict)
	for _, target := range []string{"billing", "crm"} {
		ls, _, err := db.Lease(t.Context(), target, goldenEvents-1, time.Minute)
		if err != nil || len(ls) != goldenEvents-1 {
			t.Fatalf("lease: %d, %v", len(ls), err)
		}
		for i, l := range ls {
			res := &dedupe.Result{Lease: l, State: event.Delivered, Attempt: event.Attempt{Event: l.Delivery.Event, Target: target, Number: 1,
				StartedAt: clock.Now(), Duration: 12 * time.Millisecond, Status: 200, Outcome: event.Outcome2xx, Response: []byte("thanks")}}
			switch {
			case i == 2 && target == "crm":
				res.State, res.Attempt.Status, res.Attempt.Outcome = event.Dead, 404, event.Outcome4xx
			case i == 3:
				res.State, res.Delay, res.Attempt.Status, res.Attempt.Outcome = event.Pending, time.Hour, 503, event.Outcome5xx
			}
			if err := db.Commit(t.Context(), &dedupe.Batch{Results: []*dedupe.Result{res}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := db.Cancel(t.Context(), refs[goldenEvents-1], "crm", dedupe.By{}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.PutNote(t.Context(), dedupe.Note{Kind: "pause", Name: "crm", Value: []byte(`{"why":"golden"}`)}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	pack(t, cfg.Dir)
}

func pack(t *testing.T, dir string) {
	t.Helper()
	var out bytes.Buffer
	gz, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	tw := tar.NewWriter(gz)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := tw.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o600, Size: int64(len(b)), ModTime: goldenTime}); err != nil {
			return err
		}
		_, err = tw.Write(b)
		return err
	})
	if err := errors.Join(err, tw.Close(), gz.Close(), os.MkdirAll(filepath.Dir(goldenLedger), 0o755), os.WriteFile(goldenLedger, out.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, path, dir string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	tr := tar.NewReader(gz)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(tr)
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGoldenLedger opens a ledger that an earlier version wrote and reads all
// kinds of things back.
func TestGoldenLedger(t *testing.T) {
	if badgerdb.Update() {
		writeGolden(t)
	}
	clock := ledgertest.NewClock(goldenTime.Add(time.Minute))
	cfg := small(t.TempDir(), clock.Now)
	unpack(t, goldenLedger, cfg.Dir)
	db := start(t, cfg)
	if rep, err := db.Check(t.Context()); err != nil || len(rep.Faults) > 0 || rep.Events != goldenEvents || rep.Claims != goldenEvents {
		t.Fatalf("check: %+v, %v", rep, err)
	}
	for i := range goldenEvents {
		goldenReads(t, db, i)
	}
	if n, err := db.Note(t.Context(), "pause", "crm"); err != nil || string(n.Value) != `{"why":"golden"}` {
		t.Errorf("note: %+v, %v", n, err)
	}
	again, other := goldenEvent(2), goldenEvent(goldenEvents)
	accept(t, db, again, other)
	if again.Outcomes[0].Verdict != dedupe.Repeat || again.Outcomes[0].Answer.Status != 202 || other.Outcomes[0].Verdict != dedupe.New {
		t.Errorf("a repeat and a new event: %+v, %+v", again.Outcomes[0], other.Outcomes[0])
	}
}

func goldenReads(t *testing.T, db *running, i int) {
	t.Helper()
	want := goldenEvent(i)
	refs, err := db.Lookup(t.Context(), []string{"stripe"}, fmt.Sprint("evt_", i))
	if err != nil || len(refs) != 1 {
		t.Fatalf("evt_%d: %d refs, %v", i, len(refs), err)
	}
	l, err := db.Load(t.Context(), refs[0])
	if err != nil {
		t.Fatal(err)
	}
	ev, from := l.Event, &want.Items[0].Event
	if !bytes.Equal(l.Body, want.Body) || ev.Type != from.Type || ev.Key != from.Key || ev.Query != from.Query ||
		len(ev.Header) != 2 || ev.Header[1] != from.Header[1] || !ev.ReceivedAt.Equal(goldenTime) {
		t.Errorf("evt_%d reads as %+v with %d bytes", i, ev, len(l.Body))
	}
	rec, err := db.Get(t.Context(), refs[0])
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]event.State{}
	for _, d := range rec.Deliveries {
		states[d.Target] = d.State
	}
	wantBilling, wantCRM, tries := event.Delivered, event.Delivered, 2
	switch i {
	case 2:
		wantCRM = event.Dead
	case 3:
		wantBilling, wantCRM = event.Pending, event.Pending
	case goldenEvents - 1:
		wantBilling, wantCRM, tries = event.Pending, event.Cancelled, 0
	}
	if states["billing"] != wantBilling || states["crm"] != wantCRM {
		t.Errorf("evt_%d: deliveries %v", i, states)
	}
	as, err := db.Attempts(t.Context(), refs[0])
	if err != nil || len(as) != tries {
		t.Fatalf("evt_%d: %d attempts, %v, want %d", i, len(as), err, tries)
	}
	if tries > 0 && (as[0].Target != "billing" || string(as[0].Response) != "thanks" || as[0].Duration != 12*time.Millisecond) {
		t.Errorf("evt_%d: attempt %+v", i, as[0])
	}
	if r, c := rec.Tally.Repeats, rec.Tally.Conflicts; i == 0 && r != 1 || i == 1 && c != 1 {
		t.Errorf("evt_%d: %d repeats, %d conflicts", i, r, c)
	}
}

// A ledger of a format to come is refused with one sentence that says what to
// use.
func TestNewerFormatIsRefused(t *testing.T) {
	cfg, _ := filled(t, 1)
	kv, err := badger.Open(badgerdb.Engine(cfg))
	if err == nil {
		err = errors.Join(kv.Update(badgerdb.SetFormat(2)), kv.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := badgerdb.Open(cfg)
	if err == nil {
		db.Close()
	}
	if !errors.Is(err, dedupe.ErrNewer) || !strings.Contains(fmt.Sprint(err), "format 2, this program knows 1; use the newer program") {
		t.Errorf("open: %v", err)
	}
}
