package badgerdb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// onWire is the file that remembers which attempts went on the wire, so that
// one cut by a kill is shown as unknown, not as nothing. It is a table of
// slots, one per attempt under way, each written before the request is. Nothing
// is erased when a result is committed: the ledger then counts the attempt,
// which is how a reader tells that a slot is over.
//
// A killed process leaves what it wrote with the kernel, through a map of the
// file no less than by a call, which would be one per attempt. For power cuts
// the file is synced with the high-water mark, as late as that.
type onWire struct {
	f *os.File

	mem   []byte  // the map of the first wireFirst slots
	users readers // of mem

	mu    sync.Mutex // guards all below
	used  map[wireKey]int64
	free  []int64
	slots int64
	dirty bool
}

// wireKey is a lease: tokens are given per target.
type wireKey struct {
	target string
	token  uint64
}

const (
	wireSlot   = 128  // bytes; a slot never crosses a sector
	wireFirst  = 4096 // slots made with the file, so that a full disk has them
	wireHeader = 4 + 1
	wireFixed  = 16 + 2 + 4 + 8
	wireName   = wireSlot - wireHeader - wireFixed
)

// begun is an attempt that went on the wire in an earlier run.
type begun struct {
	ref    event.Ref
	target string
	gen    uint16
	number uint32
	at     time.Time
	slot   int64
}

func onWirePath(dir string) string { return filepath.Join(dir, "onwire") }

// openOnWire opens the file, or makes it, and returns what stands in it. found
// is false when there was none.
func openOnWire(dir string) (w *onWire, left []begun, found bool, err error) {
	f, err := os.OpenFile(onWirePath(dir), os.O_RDWR, 0o600)
	found = err == nil
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenFile(onWirePath(dir), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return nil, nil, found, err
	}
	w = &onWire{f: f, used: map[wireKey]int64{}}
	st, err := f.Stat()
	if err == nil && st.Size() < wireFirst*wireSlot {
		_, err = f.WriteAt(make([]byte, wireFirst*wireSlot-st.Size()), st.Size())
	}
	if err == nil {
		w.slots = max(wireFirst, st.Size()/wireSlot)
		left, err = w.read()
	}
	if err == nil {
		w.mem, err = syscall.Mmap(int(f.Fd()), 0, wireFirst*wireSlot, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	}
	if err == nil && !found {
		err = syncDir(dir)
	}
	if err != nil {
		return nil, nil, found, errors.Join(fmt.Errorf("%s: %w", onWirePath(dir), err), w.close())
	}
	return w, left, found, nil
}

// read returns what stands in the slots. One that does not verify was torn by
// a power cut, which says that its request never went out after it.
func (w *onWire) read() (left []begun, err error) {
	buf := make([]byte, w.slots*wireSlot)
	if _, err := w.f.ReadAt(buf, 0); err != nil {
		return nil, err
	}
	for i := w.slots - 1; i >= 0; i-- {
		if b, ok := decodeBegun(buf[i*wireSlot:][:wireSlot]); ok {
			b.slot = i
			left = append(left, b)
			continue
		}
		w.free = append(w.free, i)
	}
	return left, nil
}

func encodeBegun(s *[wireSlot]byte, d *event.Delivery, at time.Time) {
	s[4] = byte(copy(s[wireHeader:wireHeader+wireName], d.Target))
	b := s[wireSlot-wireFixed:]
	copy(b, d.Event[:])
	binary.BigEndian.PutUint16(b[16:], d.Generation)
	binary.BigEndian.PutUint32(b[18:], d.Attempts+1)
	binary.BigEndian.PutUint64(b[22:], uint64(at.UnixNano()))
	binary.BigEndian.PutUint32(s[:], crc32.Checksum(s[4:], castagnoli))
}

func decodeBegun(s []byte) (begun, bool) {
	n := int(s[4])
	if n == 0 || n > wireName || binary.BigEndian.Uint32(s) != crc32.Checksum(s[4:wireSlot], castagnoli) {
		return begun{}, false
	}
	b := s[wireSlot-wireFixed:]
	out := begun{target: string(s[wireHeader : wireHeader+n]), gen: binary.BigEndian.Uint16(b[16:]),
		number: binary.BigEndian.Uint32(b[18:]), at: time.Unix(0, int64(binary.BigEndian.Uint64(b[22:])))}
	copy(out.ref[:], b)
	return out, true
}

// begin writes an attempt into a slot.
func (w *onWire) begin(l *dedupe.Lease, at time.Time) error {
	if len(l.Delivery.Target) == 0 || len(l.Delivery.Target) > wireName {
		return fmt.Errorf("target name of %d bytes", len(l.Delivery.Target))
	}
	var s [wireSlot]byte
	encodeBegun(&s, &l.Delivery, at)
	key := wireKey{l.Delivery.Target, l.Token}
	w.mu.Lock()
	slot, ok := w.used[key]
	if !ok {
		if n := len(w.free); n > 0 {
			slot, w.free = w.free[n-1], w.free[:n-1]
		} else {
			slot = w.slots
			w.slots++
		}
		w.used[key] = slot
	}
	w.dirty = true
	w.mu.Unlock()
	if err := w.put(slot, &s); err != nil {
		return fmt.Errorf("note attempt in %s: %w", w.f.Name(), err)
	}
	return nil
}

// put writes a slot. Where the disk can't give or take the page, or somebody
// has cut the file, a store into the map is a fault, which ends a process
// unless it is asked for as here.
func (w *onWire) put(slot int64, s *[wireSlot]byte) (err error) {
	if err := w.users.enter(); err != nil {
		return err
	}
	defer w.users.leave()
	at := slot * wireSlot
	if at >= int64(len(w.mem)) {
		_, err := w.f.WriteAt(s[:], at)
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			err = fmt.Errorf("store into its map: %w", syscall.EIO)
		default:
			panic(r)
		}
	}()
	copy(w.mem[at:], s[:])
	return nil
}

// end frees a lease's slot. It is erased unless the ledger has counted the
// attempt.
func (w *onWire) end(l *dedupe.Lease, counted bool) {
	key := wireKey{l.Delivery.Target, l.Token}
	w.mu.Lock()
	slot, ok := w.used[key]
	delete(w.used, key)
	w.mu.Unlock()
	if !ok {
		return
	}
	if !counted {
		// An error leaves a slot that reads as unknown: the safe side.
		_ = w.put(slot, new([wireSlot]byte))
	}
	w.mu.Lock()
	w.free = append(w.free, slot)
	w.mu.Unlock()
}

// forget erases the slots of earlier runs.
func (w *onWire) forget(left []begun) error {
	for _, b := range left {
		if err := w.put(b.slot, new([wireSlot]byte)); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range left {
		w.free = append(w.free, b.slot)
	}
	return nil
}

// sync makes what was noted survive a power cut.
func (w *onWire) sync() error {
	w.mu.Lock()
	dirty := w.dirty
	w.dirty = false
	w.mu.Unlock()
	if !dirty {
		return nil
	}
	return w.f.Sync()
}

func (w *onWire) close() error {
	w.users.end()
	var err error
	if w.mem != nil { // it was opened whole
		err = syscall.Munmap(w.mem)
	}
	return errors.Join(err, w.f.Close())
}

// Begin notes that an attempt goes on the wire; see dedupe.Dispatch.
func (db *DB) Begin(_ context.Context, l dedupe.Lease) error {
	if db.ended.Load() {
		return dedupe.ErrClosed
	}
	err := db.wire.begin(&l, db.cfg.Now())
	select {
	case db.committed <- struct{}{}: // something to sync
	default:
	}
	return err
}

// recordUnknown writes the attempts that were on the wire when the last run
// ended and whose results never came. The schedule is empty still.
func (db *DB) recordUnknown(ctx context.Context) error {
	if len(db.left) == 0 {
		return nil
	}
	if err := db.disk.room(ctx); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.writable(); err != nil {
		return err
	}
	c := db.begin()
	n := 0
	for _, b := range db.left {
		was, err := c.unknown(b)
		if err != nil {
			return db.fail(err)
		}
		if was {
			n++
		}
	}
	if err := c.commit(); err != nil {
		return db.fail(err)
	}
	if n > 0 {
		db.log.Warn("attempts were under way when the gateway ended: they are shown as unknown and made again", "attempts", n)
	}
	err := db.wire.forget(db.left)
	db.left = nil
	return err
}

// unknown writes one of them, false when its result was recorded.
func (c *commit) unknown(b begun) (bool, error) {
	ev, at, err := c.db.find(c.txn, b.ref)
	if errors.Is(err, dedupe.ErrNotFound) || errors.Is(err, dedupe.ErrDamaged) {
		return false, nil // gone by retention, or said by whoever needs it
	}
	if err != nil {
		return false, err
	}
	d, err := readState(c.txn, &ev, at, b.target)
	if err != nil && !errors.Is(err, dedupe.ErrDamaged) {
		return false, err
	}
	if err != nil || !d.State.Open() || d.Generation != b.gen || d.Attempts >= b.number {
		return false, nil
	}
	if c.size+8192 > c.db.maxBatch {
		if err := c.commit(); err != nil {
			return false, err
		}
		c.reset()
	}
	r := dedupe.Unknown(d, b.at)
	if _, err := c.attempt(&at, r, d.Attempts+1); err != nil {
		return false, err
	}
	d = r.Settle(d, c.now)
	c.recordResult(r, d.State)
	return true, c.state(at, &d)
}
