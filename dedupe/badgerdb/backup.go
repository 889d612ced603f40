package badgerdb

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// A backup is a line that says what it is, a line of JSON, and the stream of
// Badger's own backup in chunks: length (4 bytes), CRC-32C (4), bytes. A chunk
// of length 0 ends it, and after it a line of JSON with the SHA-256 of all
// bytes: a file that was cut or changed anywhere is not taken.
const (
	backupMagic  = "onceward backup 1\n"
	backupChunk  = 1 << 20
	maxKVList    = 256 << 20 // no list that Badger writes is as long
	restoreTasks = 16
)

// backupHead says what a backup is of.
type backupHead struct {
	Format uint64    `json:"format"`
	Writer uint64    `json:"writer"`
	Batch  uint64    `json:"batch"` // the ledger held at least this one
	At     time.Time `json:"at"`
}

type backupEnd struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Backup writes a consistent copy of everything, online; see dedupe.Upkeep.
func (db *DB) Backup(ctx context.Context, w io.Writer) error {
	if err := db.readers.enter(); err != nil {
		return err
	}
	defer db.readers.leave()
	db.mu.Lock()
	head := backupHead{Format: formatVersion, Writer: db.writer, Batch: db.head.no, At: db.cfg.Now().UTC()}
	db.mu.Unlock()
	line, err := json.Marshal(head)
	if err != nil {
		return err
	}
	to := &chunkWriter{over: func() error { return db.over(ctx) }, w: w, sum: sha256.New()}
	to.raw([]byte(backupMagic))
	to.raw(append(line, '\n'))
	pace := &pacer{ctx: ctx, over: to.over, written: &to.n, since: time.Now()}
	stream := db.kv.NewStream()
	stream.LogPrefix, stream.NumGo, stream.ChooseKey = "backup", 1, pace.choose
	_, err = stream.Backup(to, 0)
	if to.err != nil { // Badger reports only that it was stopped
		err = to.err
	}
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return to.end()
}

// A backup yields to the traffic: it rests eight times as long as it works, and
// reads no further ahead of who takes it than paceAhead. At full speed it would
// hold every core, and what is answered in 2 ms take seconds.
const (
	paceRest  = 8
	paceStep  = 256 << 10
	paceAhead = 16 << 20
	paceLong  = 20 * time.Millisecond // more than a step takes
)

// pacer slows the reading down. It is used by the one goroutine that reads.
type pacer struct {
	ctx     context.Context
	over    func() error
	written *atomic.Int64
	read    int64
	step    int64
	since   time.Time // the work began
}

// choose takes every record, in time.
func (p *pacer) choose(item *badger.Item) bool {
	n := item.EstimatedSize()
	p.read += n
	if p.step += n; p.step < paceStep {
		return true
	}
	p.step = 0
	p.rest(paceRest * min(time.Since(p.since), paceLong))
	for p.read-p.written.Load() > paceAhead && p.over() == nil {
		p.rest(paceLong)
	}
	p.since = time.Now()
	return true
}

func (p *pacer) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ctx.Done():
	}
}

// chunkWriter cuts a stream into chunks. It keeps the first error.
type chunkWriter struct {
	over func() error // why nothing more is written
	w    io.Writer
	sum  hash.Hash
	n    atomic.Int64
	buf  []byte
	err  error
	size [8]byte
}

func (c *chunkWriter) raw(b []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(b)
	}
}

func (c *chunkWriter) Write(p []byte) (int, error) {
	if c.err == nil {
		c.err = c.over()
	}
	c.buf = append(c.buf, p...)
	for len(c.buf) >= backupChunk && c.err == nil {
		c.chunk(c.buf[:backupChunk])
		c.buf = append(c.buf[:0], c.buf[backupChunk:]...)
	}
	return len(p), c.err
}

func (c *chunkWriter) chunk(b []byte) {
	binary.BigEndian.PutUint32(c.size[:], uint32(len(b)))
	binary.BigEndian.PutUint32(c.size[4:], crc32.Checksum(b, castagnoli))
	c.raw(c.size[:])
	c.raw(b)
	c.sum.Write(b)
	c.n.Add(int64(len(b)))
}

func (c *chunkWriter) end() error {
	if len(c.buf) > 0 {
		c.chunk(c.buf)
	}
	c.chunk(nil)
	line, err := json.Marshal(backupEnd{c.n.Load(), hex.EncodeToString(c.sum.Sum(nil))})
	if err != nil {
		return err
	}
	c.raw(append(line, '\n'))
	return c.err
}

// chunkReader reads what chunkWriter wrote, checking each chunk before it
// gives it out, and the whole at the end.
type chunkReader struct {
	r    *bufio.Reader
	head backupHead
	sum  hash.Hash
	n    int64
	left []byte
	done bool
}

var errNoBackup = errors.New("is no backup of a ledger")

func newChunkReader(r io.Reader) (*chunkReader, error) {
	c := &chunkReader{r: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	magic := make([]byte, len(backupMagic))
	if _, err := io.ReadFull(c.r, magic); err != nil || string(magic) != backupMagic {
		return nil, errNoBackup
	}
	line, err := c.r.ReadSlice('\n')
	if err != nil || json.Unmarshal(line, &c.head) != nil {
		return nil, fmt.Errorf("%w: what it says of itself can't be read", dedupe.ErrDamaged)
	}
	if c.head.Format > formatVersion {
		return nil, fmt.Errorf("%w: the backup has format %d, this program knows %d; use the newer program", dedupe.ErrNewer, c.head.Format, formatVersion)
	}
	return c, nil
}

func (c *chunkReader) Read(p []byte) (int, error) {
	for len(c.left) == 0 {
		if c.done {
			return 0, io.EOF
		}
		if err := c.next(); err != nil {
			return 0, fmt.Errorf("%w: backup after %d bytes: %w", dedupe.ErrDamaged, c.n, err)
		}
	}
	n := copy(p, c.left)
	c.left = c.left[n:]
	return n, nil
}

func (c *chunkReader) next() error {
	var size [8]byte
	if _, err := io.ReadFull(c.r, size[:]); err != nil {
		return errors.New("it is cut short")
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > backupChunk {
		return fmt.Errorf("a chunk says it has %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.r, b); err != nil {
		return errors.New("it is cut short")
	}
	if crc32.Checksum(b, castagnoli) != binary.BigEndian.Uint32(size[4:]) {
		return errors.New("a chunk fails its checksum")
	}
	c.sum.Write(b)
	c.n += int64(n)
	c.left = b
	if n > 0 {
		return nil
	}
	c.done = true
	return c.last()
}

func (c *chunkReader) last() error {
	line, err := c.r.ReadSlice('\n')
	var end backupEnd
	switch {
	case err != nil || json.Unmarshal(line, &end) != nil:
		return errors.New("it is cut short")
	case end.Bytes != c.n || end.SHA256 != hex.EncodeToString(c.sum.Sum(nil)):
		return errors.New("it does not have its checksum")
	}
	if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.New("something follows its end")
	}
	return nil
}

// VerifyBackup reads a whole backup and checks it: every chunk, the whole, and
// the checksum of every record in it.
func VerifyBackup(ctx context.Context, r io.Reader) (dedupe.BackupReport, error) {
	in, err := newChunkReader(r)
	if err != nil {
		return dedupe.BackupReport{}, err
	}
	report := in.report()
	for {
		list, err := readKVList(in)
		if errors.Is(err, io.EOF) {
			report.Bytes = in.n
			return report, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return report, err
		}
		for _, kv := range list.Kv {
			if len(kv.Meta) > 0 && kv.Meta[0]&metaDelete != 0 {
				continue
			}
			if err := countBackedUp(&report, kv); err != nil {
				return report, err
			}
		}
	}
}

func (c *chunkReader) report() dedupe.BackupReport {
	return dedupe.BackupReport{At: c.head.At, Batch: c.head.Batch, Writer: fmt.Sprintf("%015x", c.head.Writer)}
}

func countBackedUp(report *dedupe.BackupReport, kv *pb.KV) error {
	report.Records++
	switch kv.Key[0] {
	case kindHead:
		if _, err := decodeHead(kv.Key, kv.Value); err != nil {
			return err
		}
	case kindEvent:
		if len(kv.Key) > bucketSize && (kv.Key[bucketSize] == subEvent || kv.Key[bucketSize] == subCarried) {
			report.Events++
		}
	}
	_, err := unseal(kv.Key, kv.Value)
	return err
}

// readKVList reads one list of Badger's backup stream.
func readKVList(r io.Reader) (*pb.KVList, error) {
	var size [8]byte
	if _, err := io.ReadFull(r, size[:1]); err != nil {
		return nil, err // io.EOF: the end is where a list may end
	}
	if _, err := io.ReadFull(r, size[1:]); err != nil {
		return nil, fmt.Errorf("%w: backup ends inside a list: %w", dedupe.ErrDamaged, err)
	}
	n := binary.LittleEndian.Uint64(size[:])
	if n > maxKVList {
		return nil, fmt.Errorf("%w: a list of the backup says it has %d bytes", dedupe.ErrDamaged, n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("%w: backup ends inside a list: %w", dedupe.ErrDamaged, err)
	}
	list := &pb.KVList{}
	if err := proto.Unmarshal(b, list); err != nil {
		return nil, fmt.Errorf("%w: a list of the backup: %w", dedupe.ErrDamaged, err)
	}
	return list, nil
}

// Restore makes a ledger of a backup in cfg.Dir, which must be empty or not
// there. It is made beside it and moved there when it is whole. The ledger goes
// on under a writer of its own. Deliveries that were open at the backup are held
// until the ledger is opened with ResumeDeliveries, unless resume is set: most
// of them were made after it.
func Restore(ctx context.Context, cfg Config, r io.Reader, resume bool) (report dedupe.BackupReport, err error) {
	cfg.fill()
	in, err := newChunkReader(r)
	if err != nil {
		return report, err
	}
	if err := onlyEmpty(cfg.Dir); err != nil {
		return report, err
	}
	parent := filepath.Dir(filepath.Clean(cfg.Dir))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return report, err
	}
	made, err := os.MkdirTemp(parent, ".onceward-restore-")
	if err != nil {
		return report, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(made))
		}
	}()
	report = in.report()
	next := cfg
	next.Dir = made
	if err := restoreInto(ctx, &next, in, resume, &report); err != nil {
		return report, fmt.Errorf("restore: %w", err)
	}
	report.Bytes = in.n
	if err := os.Remove(cfg.Dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return report, err
	}
	return report, errors.Join(os.Rename(made, cfg.Dir), syncDir(parent))
}

// onlyEmpty is an error when there is anything in a directory.
func onlyEmpty(dir string) error {
	held, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && len(held) > 0 {
		err = fmt.Errorf("directory %q is not empty: a backup is restored into a new one", dir)
	}
	return err
}

func restoreInto(ctx context.Context, cfg *Config, in *chunkReader, resume bool, report *dedupe.BackupReport) error {
	if err := os.MkdirAll(ledgerDir(cfg.Dir), 0o700); err != nil {
		return err
	}
	kv, err := badger.Open(engine(cfg))
	if err != nil {
		return err
	}
	db := &DB{cfg: *cfg, log: cfg.Log, kv: kv}
	err = kv.Load(stopped{ctx, in}, restoreTasks)
	if err == nil {
		_, err = io.Copy(io.Discard, in) // to the end, which is checked
	}
	if err == nil {
		err = kv.Update(func(txn *badger.Txn) error { return db.newEpoch(txn, in.head, resume, report) })
	}
	if err = errors.Join(err, kv.Close()); err != nil {
		return err
	}
	high, err := createHighWater(cfg.Dir)
	if err != nil {
		return err
	}
	return errors.Join(high.write(db.head.no, db.head.hash), high.close())
}

// stopped ends a reader with its context.
type stopped struct {
	ctx context.Context
	r   io.Reader
}

func (s stopped) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

// The notes of a restored ledger.
const (
	noteLedger = "ledger"
	noteHeld   = "held" // value: the newest ref whose deliveries are held
)

// newEpoch gives a restored ledger a writer of its own, and says where it
// comes from.
func (db *DB) newEpoch(txn *badger.Txn, from backupHead, resume bool, report *dedupe.BackupReport) (err error) {
	if err := db.loadFrom(txn); err != nil {
		return err
	}
	report.Events = int64(db.events)
	last, at := db.lastRef, db.cfg.Now()
	db.writer = randomID() & (1<<event.WriterBits - 1)
	e := newEnc(32)
	e.uint(formatVersion)
	e.uint(db.writer)
	e.int(db.cfg.ClaimBucket.Milliseconds())
	key := metaKey("format")
	errs := []error{txn.Set(key, e.seal(key, 0))}
	note := func(name, value string) {
		n := dedupe.Note{Kind: noteLedger, Name: name, Version: 1, Value: []byte(value), UpdatedAt: at}
		key := noteKey(n.Kind, n.Name)
		errs = append(errs, txn.Set(key, sealNote(key, &n)))
	}
	epoch, err := json.Marshal(struct {
		Backup   backupHead `json:"backup"`
		Restored time.Time  `json:"restored_at"`
		Writer   uint64     `json:"writer"`
	}{from, at.UTC(), db.writer})
	if err != nil {
		return err
	}
	note(fmt.Sprintf("epoch-%d", at.UnixMilli()), string(epoch))
	if !resume {
		note(noteHeld, last.String())
		report.Held = true
	}
	return errors.Join(errs...)
}

// heldDue is when a held delivery is due: never.
const heldDue = 253_402_300_799_000 // the last second of the year 9999, in ms

// loadHeld reads which deliveries are held, or ends that.
func (db *DB) loadHeld(txn *badger.Txn) error {
	n, err := readNote(txn, noteLedger, noteHeld)
	if errors.Is(err, dedupe.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	ref, err := event.ParseRef(string(n.Value))
	if err != nil {
		return damaged(noteKey(noteLedger, noteHeld), "names no ref")
	}
	db.held = ref
	return nil
}

// resume ends the hold of a restored ledger, before anything is scheduled.
func (db *DB) resume() error {
	if db.held.IsZero() {
		return nil
	}
	if !db.cfg.ResumeDeliveries {
		db.log.Warn("deliveries that were open when the backup was made are held: most were made after it; start with --resume-deliveries to make them",
			"up_to", db.held.String())
		return nil
	}
	n, err := db.Note(context.Background(), noteLedger, noteHeld)
	if err == nil {
		err = db.DropNote(context.Background(), n)
	}
	if err != nil {
		return fmt.Errorf("resume held deliveries: %w", err)
	}
	db.held = event.Ref{}
	db.log.Info("held deliveries are resumed")
	return nil
}

// concerns are what an operator should see to.
func (db *DB) concerns() []dedupe.Concern {
	if db.held.IsZero() {
		return nil
	}
	n := int64(0)
	db.sched.Open(func(e dedupe.Entry) {
		if e.Due == heldDue {
			n++
		}
	})
	if n == 0 {
		return nil
	}
	return []dedupe.Concern{dedupe.HeldConcern(n, "start once with onceward serve --resume-deliveries")}
}

// hold keeps a delivery that is held from falling due.
func (db *DB) hold(e *dedupe.Entry) {
	if !db.held.IsZero() && e.Ref.Compare(db.held) <= 0 {
		e.Due = heldDue
	}
}
