package badgerdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"
)

// precheck verifies the index of every table before Badger reads it: on a
// truncated or damaged one Badger panics in a goroutine of its own, which
// nobody can recover. Data blocks are verified by Badger itself, through the
// index, with an error. Only tables that the manifest lists count: a process
// that is killed while it writes one leaves an unfinished file, which Badger
// removes.
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
	for id := range listed.Tables {
		path := table.NewFilename(id, dir)
		if err := checkTableIndex(path); err != nil {
			return fmt.Errorf("table %q: %w", path, err)
		}
	}
	return nil
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

// checkTableIndex reads the end of a table, backwards: length of the checksum
// (4 bytes), checksum, length of the index (4 bytes), index.
func checkTableIndex(path string) (err error) {
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
	return y.VerifyChecksum(index, want)
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
