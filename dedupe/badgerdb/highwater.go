package badgerdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/onceward/onceward/dedupe"
)

// highWater is the file that remembers the newest head known to be on disk.
// It has two slots, written in turn, so that a torn write leaves the other;
// its size never changes, so that it can be written on a full disk.
type highWater struct {
	mu   sync.Mutex
	f    *os.File
	turn int64
	no   uint64
	hash [32]byte
}

const (
	slotSize  = 512 // a sector
	slotBytes = 8 + 32 + 4
)

func highWaterPath(dir string) string { return filepath.Join(dir, "highwater") }

// openHighWater opens the file, or makes it for a ledger without a batch. A
// file that is missing, or of which no slot can be read, is damage: it must not
// pass for a new ledger's.
func openHighWater(dir string, empty bool) (*highWater, error) {
	f, err := os.OpenFile(highWaterPath(dir), os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrNotExist) && empty {
		return createHighWater(dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: high-water file %q is missing; without it nobody can say whether the ledger is whole: %w", dedupe.ErrDamaged, highWaterPath(dir), err)
	}
	if err != nil {
		return nil, err
	}
	w := &highWater{f: f}
	if !w.read() {
		err := fmt.Errorf("%w: neither of the two records of high-water file %q verifies", dedupe.ErrDamaged, f.Name())
		return nil, errors.Join(err, f.Close())
	}
	return w, nil
}

// read takes over the newer of the records that verify, false when none does.
func (w *highWater) read() (good bool) {
	buf := make([]byte, 2*slotSize)
	n, _ := w.f.ReadAt(buf, 0)
	for i := range int64(2) {
		if s := buf[i*slotSize:]; int64(n) >= i*slotSize+slotBytes && slotGood(s) {
			if no := binary.BigEndian.Uint64(s); !good || no > w.no {
				w.no, w.turn = no, 1-i
				copy(w.hash[:], s[8:])
			}
			good = true
		}
	}
	return good
}

// readHighWater reads the mark without taking the file over. known is false
// where there is no file.
func readHighWater(dir string) (no uint64, known bool, err error) {
	w, err := openHighWater(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, true, err
	}
	return w.no, true, w.close()
}

// createHighWater makes the file under another name and moves it into place: a
// stop in between leaves none, not one that says nothing.
func createHighWater(dir string) (*highWater, error) {
	path := highWaterPath(dir)
	f, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	dedupe.Failpoint("mark.made")
	w := &highWater{f: f}
	if _, err = f.WriteAt(make([]byte, 2*slotSize), 0); err == nil {
		err = w.write(0, [32]byte{})
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	dedupe.Failpoint("mark.moved")
	if err = errors.Join(err, syncDir(dir)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return w, nil
}

func slotGood(s []byte) bool {
	return binary.BigEndian.Uint32(s[40:]) == crc32.Checksum(s[:40], castagnoli)
}

// write makes no and its hash the mark, durably. An older mark than the
// present one is ignored.
func (w *highWater) write(no uint64, hash [32]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if no < w.no || no == w.no && no != 0 {
		return nil
	}
	var s [slotBytes]byte
	binary.BigEndian.PutUint64(s[:], no)
	copy(s[8:], hash[:])
	binary.BigEndian.PutUint32(s[40:], crc32.Checksum(s[:40], castagnoli))
	dedupe.Failpoint("mark.begin")
	if _, err := w.f.WriteAt(s[:], w.turn*slotSize); err != nil {
		return fmt.Errorf("write high-water mark: %w", err)
	}
	dedupe.Failpoint("mark.written")
	if err := w.f.Sync(); err != nil {
		return fmt.Errorf("sync high-water mark: %w", err)
	}
	dedupe.Failpoint("mark.done")
	w.turn, w.no, w.hash = 1-w.turn, no, hash
	return nil
}

func (w *highWater) close() error { return w.f.Close() }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
