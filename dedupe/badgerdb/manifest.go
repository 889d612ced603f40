package badgerdb

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"
)

// A change set that names a table which came to nothing is Badger's way to end
// after a sync of its manifest that failed: the set stands in the file, the
// table is removed, and what it held is still where it came from, in a
// write-ahead file or in the tables that were to be merged. Leaving the set out
// is the way back. It is gone only after the ledger noted the failure, and only
// when every batch is accounted for without it.

const manifestFrame = 8 // magic of the file; length and checksum of a change set

// changeSets reads the sets of a manifest that has been verified.
func changeSets(path string) (magic []byte, sets []*pb.ManifestChangeSet, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	if len(b) < manifestFrame {
		return nil, nil, errors.New("is cut short")
	}
	magic, b = b[:manifestFrame], b[manifestFrame:]
	for len(b) >= manifestFrame {
		n := int(binary.BigEndian.Uint32(b))
		if n > len(b)-manifestFrame {
			break // torn, as Badger reads it
		}
		set := &pb.ManifestChangeSet{}
		if err := proto.Unmarshal(b[manifestFrame:manifestFrame+n], set); err != nil {
			return nil, nil, err
		}
		sets = append(sets, set)
		b = b[manifestFrame+n:]
	}
	return magic, sets, nil
}

// listed plays sets and returns the last change of every table that is there
// after them.
func listed(sets []*pb.ManifestChangeSet) map[uint64]*pb.ManifestChange {
	out := map[uint64]*pb.ManifestChange{}
	for _, set := range sets {
		for _, c := range set.Changes {
			if c.Op == pb.ManifestChange_DELETE {
				delete(out, c.Id)
			} else {
				out[c.Id] = c
			}
		}
	}
	return out
}

// without leaves out the sets that make one of the tables in gone.
func without(sets []*pb.ManifestChangeSet, gone map[uint64]bool) []*pb.ManifestChangeSet {
	return slices.DeleteFunc(slices.Clone(sets), func(set *pb.ManifestChangeSet) bool {
		return slices.ContainsFunc(set.Changes, func(c *pb.ManifestChange) bool {
			return c.Op != pb.ManifestChange_DELETE && gone[c.Id]
		})
	})
}

// encodeManifest is a manifest with the given tables.
func encodeManifest(magic []byte, tables map[uint64]*pb.ManifestChange) ([]byte, error) {
	set := &pb.ManifestChangeSet{}
	for _, c := range tables {
		set.Changes = append(set.Changes, c)
	}
	slices.SortFunc(set.Changes, func(a, b *pb.ManifestChange) int { return int(a.Id) - int(b.Id) })
	body, err := proto.Marshal(set)
	if err != nil {
		return nil, err
	}
	out := bytes.Clone(magic)
	out = binary.BigEndian.AppendUint32(out, uint32(len(body)))
	out = binary.BigEndian.AppendUint32(out, crc32.Checksum(body, castagnoli))
	return append(out, body...), nil
}

// rollBack plans a manifest without the tables that came to nothing. It changes
// the survey alone; repair writes it.
func (s *survey) rollBack(path string, missing map[uint64]bool) error {
	magic, sets, err := changeSets(path)
	if err != nil {
		return err
	}
	kept := listed(without(sets, missing))
	s.tables = s.tables[:0]
	for id := range kept {
		s.addTable(id)
	}
	s.repair, err = encodeManifest(magic, kept)
	return err
}

// writeRepair puts the planned manifest in place.
func (s *survey) writeRepair() error {
	dir := ledgerDir(s.dir)
	path := filepath.Join(dir, badger.ManifestFilename)
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(s.repair)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	return errors.Join(os.Rename(path+".new", path), syncDir(dir))
}

// accounted adds a fault unless the heads in tables and write-ahead files are
// a row without a gap, from the pruned boundary on.
func (s *survey) accounted() error {
	r := &reading{survey: s, ctx: context.Background(), fault: func(string, string) {}}
	first, version := uint64(0), uint64(0)
	err := r.run(func(e rawEntry) error {
		if bytes.Equal(e.key, cutsKey) && e.version > version && e.meta&metaDelete == 0 {
			c, err := decodeCuts(e.value)
			if err != nil {
				return err
			}
			first, version = c.heads, e.version
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(r.heads)
	r.heads = slices.Compact(r.heads)
	first = max(first, 1)
	for len(r.heads) > 0 && r.heads[0] < first { // dropped with their bucket at the next start
		r.heads = r.heads[1:]
	}
	if n := uint64(len(r.heads)); n == 0 || r.heads[0] != first || r.heads[n-1] != first+n-1 {
		s.fault(ledgerDir(s.dir), "not every batch is there without the tables that are missing")
	}
	return nil
}
