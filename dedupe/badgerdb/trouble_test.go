package badgerdb_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/event"
)

// list appends a change to the manifest, as Badger does before it syncs it.
func list(t *testing.T, cfg badgerdb.Config, changes ...*pb.ManifestChange) {
	t.Helper()
	b, err := proto.Marshal(&pb.ManifestChangeSet{Changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(b)))
	frame = binary.BigEndian.AppendUint32(frame, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	f, err := os.OpenFile(filepath.Join(cfg.Dir, "ledger", "MANIFEST"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(append(frame, b...)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func note(t *testing.T, cfg badgerdb.Config) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(cfg.Dir, "failed"), []byte("sync MANIFEST: input/output error\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func allThere(t *testing.T, cfg badgerdb.Config, refs []event.Ref) {
	t.Helper()
	db := start(t, cfg)
	for _, ref := range refs {
		if _, err := db.Load(t.Context(), ref); err != nil {
			t.Error(err)
		}
	}
	if rep, err := db.Check(t.Context()); err != nil || len(rep.Faults) > 0 {
		t.Errorf("check: %v, %v", rep.Faults, err)
	}
	if _, err := os.Stat(filepath.Join(cfg.Dir, "failed")); err == nil {
		t.Error("the note of the failure outlives a good start")
	}
}

func refused(t *testing.T, cfg badgerdb.Config) {
	t.Helper()
	db, err := badgerdb.Open(cfg)
	if err == nil {
		db.Close()
	}
	if !errors.Is(err, dedupe.ErrDamaged) {
		t.Errorf("open: %v, want ErrDamaged", err)
	}
}

// A flush whose sync failed leaves a table in the manifest and none on disk.
// That is no damage when the ledger noted the failure, and damage when not.
func TestFlushThatFailed(t *testing.T) {
	cfg, refs := stopped(t, 10)
	list(t, cfg, &pb.ManifestChange{Id: 77, Op: pb.ManifestChange_CREATE})
	refused(t, cfg)
	note(t, cfg)
	allThere(t, cfg, refs)
}

// A compaction whose sync failed has removed nothing yet.
func TestCompactionThatFailed(t *testing.T) {
	cfg, refs := stopped(t, 10)
	list(t, cfg, &pb.ManifestChange{Id: 77, Op: pb.ManifestChange_CREATE, Level: 6}, &pb.ManifestChange{Id: 1, Op: pb.ManifestChange_DELETE})
	note(t, cfg)
	allThere(t, cfg, refs)
}

// With the note, too, a table that was lost is damage.
func TestLostTableAfterFailure(t *testing.T) {
	cfg, _ := stopped(t, 10)
	if err := os.Remove(tables(t, cfg)[0]); err != nil {
		t.Fatal(err)
	}
	note(t, cfg)
	refused(t, cfg)
}
