package badgerdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"
)

// rawEntry is a record as it stands in a file of Badger's. It is valid until
// the next one is read.
type rawEntry struct {
	key     []byte
	version uint64
	meta    byte
	user    byte
	expires uint64
	value   []byte
}

// The bits of an entry's meta that count here.
const (
	metaDelete = 1 << 0
	metaPtr    = 1 << 1 // the value stands in the value log; none of ours does
	metaTxn    = 1 << 6
	metaFin    = 1 << 7
)

// rawTable reads a table by itself. Badger would panic on many kinds of damage
// in a goroutine of its own, which nobody can recover, and read others as
// absence.
type rawTable struct {
	f      *os.File
	blocks []rawBlock

	window   []byte // of the file, from windowAt on: blocks are small and read in order
	windowAt int64
}

const windowSize = 256 << 10

type rawBlock struct {
	at, size int64
	first    []byte // its first key, with the version
}

// openRawTable opens a table and verifies its index.
func openRawTable(path string) (*rawTable, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	t := &rawTable{f: f}
	if err := t.readIndex(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return t, nil
}

func (t *rawTable) close() error { return t.f.Close() }

// readIndex reads the end of a table, backwards: length of the checksum
// (4 bytes), checksum, length of the index (4 bytes), index.
func (t *rawTable) readIndex() error {
	st, err := t.f.Stat()
	if err != nil {
		return err
	}
	end := tail{f: t.f, end: st.Size()}
	want := &pb.Checksum{}
	sum, err := end.sized()
	if err != nil {
		return fmt.Errorf("checksum of the index: %w", err)
	}
	if err := proto.Unmarshal(sum, want); err != nil {
		return fmt.Errorf("checksum of the index: %w", err)
	}
	index, err := end.sized()
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	if err := verifySum(index, want); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	root := fb.GetRootAsTableIndex(index, 0) // it verified: it is what was written
	var b fb.BlockOffset
	at := int64(0)
	for i := range root.OffsetsLength() {
		if !root.Offsets(&b, i) || int64(b.Offset()) != at || int64(b.Len()) > end.end-at {
			return fmt.Errorf("block %d is not where the index says", i)
		}
		t.blocks = append(t.blocks, rawBlock{at, int64(b.Len()), b.KeyBytes()})
		at += int64(b.Len())
	}
	if at != end.end {
		return fmt.Errorf("its blocks end at %d, its index begins at %d", at, end.end)
	}
	return nil
}

// verifySum is y.VerifyChecksum without its panic on an unknown algorithm.
func verifySum(data []byte, want *pb.Checksum) error {
	if want.Algo != pb.Checksum_CRC32C && want.Algo != pb.Checksum_XXHash64 {
		return fmt.Errorf("unknown checksum algorithm %d", want.Algo)
	}
	return y.VerifyChecksum(data, want)
}

// read is a part of the file, valid until the next call.
func (t *rawTable) read(at, size int64) ([]byte, error) {
	if at < t.windowAt || at+size > t.windowAt+int64(len(t.window)) {
		n := max(size, windowSize)
		if int64(cap(t.window)) < n {
			t.window = make([]byte, n)
		}
		t.window, t.windowAt = t.window[:n], at
		got, err := t.f.ReadAt(t.window, at)
		t.window = t.window[:got]
		if int64(got) < size {
			return nil, err
		}
	}
	return t.window[at-t.windowAt:][:size], nil
}

// block reads and verifies block i and returns its entries and where each
// begins, valid until the next call.
func (t *rawTable) block(i int) (entries []byte, offsets []uint32, err error) {
	if entries, err = t.read(t.blocks[i].at, t.blocks[i].size); err != nil {
		return nil, nil, err
	}
	part := func(n int) ([]byte, bool) {
		if n < 0 || n > len(entries) {
			return nil, false
		}
		p := entries[len(entries)-n:]
		entries = entries[:len(entries)-n]
		return p, true
	}
	size, ok := part(4)
	if !ok {
		return nil, nil, errors.New("block is cut short")
	}
	sum, ok := part(int(binary.BigEndian.Uint32(size)))
	if !ok || len(sum) == 0 {
		return nil, nil, errors.New("block's checksum has no sensible length")
	}
	want := &pb.Checksum{}
	if err := proto.Unmarshal(sum, want); err != nil {
		return nil, nil, fmt.Errorf("block's checksum: %w", err)
	}
	if err := verifySum(entries, want); err != nil {
		return nil, nil, err
	}
	count, ok := part(4)
	n := uint32(math.MaxUint32)
	if ok {
		n = binary.BigEndian.Uint32(count)
	}
	table, ok := part(int(min(n, math.MaxInt32/4) * 4))
	if !ok {
		return nil, nil, errors.New("block has no sensible number of entries")
	}
	for ; len(table) >= 4; table = table[4:] {
		offsets = append(offsets, binary.NativeEndian.Uint32(table))
	}
	return entries, offsets, nil
}

// each calls f for every entry of block i.
func (t *rawTable) each(i int, f func(rawEntry) error) error {
	entries, offsets, err := t.block(i)
	if err != nil {
		return err
	}
	var base, key []byte
	for n, from := range offsets {
		to := uint32(len(entries))
		if n+1 < len(offsets) {
			to = offsets[n+1]
		}
		if from > to || to > uint32(len(entries)) || to-from < 4 {
			return errors.New("block's entries overlap")
		}
		e := entries[from:to]
		overlap, diff := binary.NativeEndian.Uint16(e), binary.NativeEndian.Uint16(e[2:])
		e = e[4:]
		if int(diff) > len(e) || int(overlap) > len(base) {
			return errors.New("an entry of the block is cut short")
		}
		key = append(append(key[:0], base[:overlap]...), e[:diff]...)
		if n == 0 {
			base = bytes.Clone(key)
		}
		entry, ok := rawValue(e[diff:])
		if !ok || len(key) < 8 {
			return errors.New("an entry of the block is cut short")
		}
		entry.key, entry.version = key[:len(key)-8], y.ParseTs(key)
		if err := f(entry); err != nil {
			return err
		}
	}
	return nil
}

func rawValue(b []byte) (e rawEntry, ok bool) {
	if len(b) < 3 {
		return e, false
	}
	e.meta, e.user = b[0], b[1]
	var n int
	if e.expires, n = binary.Uvarint(b[2:]); n <= 0 {
		return e, false
	}
	e.value = b[2+n:]
	return e, true
}

// verify reads every block, and gives the newest head that stands in the
// table. The error names the first block that is damaged.
func (t *rawTable) verify() (newest uint64, err error) {
	for i := range t.blocks {
		if !t.mayHold(i, kindHead) {
			_, _, err = t.block(i)
		} else {
			err = t.each(i, func(e rawEntry) error {
				newest = max(newest, headNumber(e))
				return nil
			})
		}
		if err != nil {
			return 0, fmt.Errorf("block %d at %d: %w", i, t.blocks[i].at, err)
		}
	}
	return newest, nil
}

// mayHold reports whether block i may hold keys of a kind.
func (t *rawTable) mayHold(i int, kind byte) bool {
	starts := len(t.blocks[i].first) == 0 || t.blocks[i].first[0] <= kind
	ends := i+1 < len(t.blocks) && len(t.blocks[i+1].first) > 0 && t.blocks[i+1].first[0] < kind
	return starts && !ends
}

// headNumber is the batch number of a head, 0 of anything else.
func headNumber(e rawEntry) uint64 {
	if len(e.key) != headKeySize || e.key[0] != kindHead || e.meta&metaDelete != 0 {
		return 0
	}
	return binary.BigEndian.Uint64(e.key[5:])
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
