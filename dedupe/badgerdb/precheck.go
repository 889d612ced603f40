package badgerdb

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
)

// precheck verifies every table before Badger opens it: index, blocks, and
// that the blocks are all there is. Badger could do that by itself while it
// opens them, but it reads them through a map, page fault by page fault, twice
// as slowly, again for every table it has just written; and on a truncated or
// damaged index it panics in a goroutine of its own, which nobody can recover.
// Only tables that the manifest lists count: a process that is killed while it
// writes one leaves an unfinished file, which Badger removes.
func precheck(dir string) error {
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		return noTables(dir)
	}
	if err != nil {
		return err
	}
	listed, _, err := badger.ReplayManifestFile(f, 0, badger.DefaultOptions(dir))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	g := errgroup.Group{}
	g.SetLimit(runtime.GOMAXPROCS(0))
	for id := range listed.Tables {
		g.Go(func() error { return checkTable(table.NewFilename(id, dir)) })
	}
	return g.Wait()
}

// noTables is an error when there are tables: without a manifest Badger would
// start empty and remove them.
func noTables(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err == nil && len(files) > 0 {
		err = fmt.Errorf("%s is missing and there are %d tables", badger.ManifestFilename, len(files))
	}
	return err
}

// checkTable reads a whole table and verifies its checksums. The file ends
// with, backwards: length of the checksum (4 bytes), checksum, length of the
// index (4 bytes), index; before that come the blocks the index lists.
func checkTable(path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("table %q: %w", path, err)
		}
	}()
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	t := tail{f: f, end: st.Size()}
	want := &pb.Checksum{}
	sum, err := t.sized()
	if err != nil {
		return fmt.Errorf("checksum of the index: %w", err)
	}
	if err := proto.Unmarshal(sum, want); err != nil {
		return fmt.Errorf("checksum of the index: %w", err)
	}
	index, err := t.sized()
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	if err := y.VerifyChecksum(index, want); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	return checkBlocks(f, fb.GetRootAsTableIndex(index, 0), t.end)
}

// checkBlocks verifies the blocks of a table, which end at end. The index has
// been verified, so it can be trusted to be whole.
func checkBlocks(f *os.File, index *fb.TableIndex, end int64) error {
	r := bufio.NewReaderSize(io.NewSectionReader(f, 0, end), 256<<10)
	at := int64(0)
	var buf []byte
	for i := range index.OffsetsLength() {
		var b fb.BlockOffset
		if !index.Offsets(&b, i) || int64(b.Offset()) != at || int64(b.Len()) > end-at {
			return fmt.Errorf("block %d is not where the index says", i)
		}
		buf = slices.Grow(buf[:0], int(b.Len()))[:b.Len()]
		if _, err := io.ReadFull(r, buf); err != nil {
			return fmt.Errorf("block %d at %d: %w", i, at, err)
		}
		if err := checkBlock(buf); err != nil {
			return fmt.Errorf("block %d at %d: %w", i, at, err)
		}
		at += int64(b.Len())
	}
	if at != end {
		return fmt.Errorf("its blocks end at %d, its index begins at %d", at, end)
	}
	return nil
}

// checkBlock verifies one block: data, checksum, and the length of that in the
// last 4 bytes.
func checkBlock(b []byte) error {
	if len(b) < 4 {
		return errors.New("is cut short")
	}
	n := int64(binary.BigEndian.Uint32(b[len(b)-4:]))
	b = b[:len(b)-4]
	if n > int64(len(b)) {
		return errors.New("its checksum is longer than the block")
	}
	want := &pb.Checksum{}
	if err := proto.Unmarshal(b[int64(len(b))-n:], want); err != nil {
		return fmt.Errorf("its checksum: %w", err)
	}
	return y.VerifyChecksum(b[:int64(len(b))-n], want)
}

// tail reads parts of a file from its end.
type tail struct {
	f   *os.File
	end int64
}

// sized reads a part and the 4-byte length that follows it.
func (t *tail) sized() ([]byte, error) {
	var n [4]byte
	if err := t.read(n[:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(n[:]))
	if size == 0 || size > t.end { // zeros would verify as an empty part
		return nil, fmt.Errorf("says it has %d bytes, the file has %d before it", size, t.end)
	}
	b := make([]byte, size)
	return b, t.read(b)
}

func (t *tail) read(b []byte) error {
	if t.end -= int64(len(b)); t.end < 0 {
		return errors.New("file is cut short")
	}
	_, err := t.f.ReadAt(b, t.end)
	return err
}
