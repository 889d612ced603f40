package dedupe

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

// A dump is a line that says what it is, a line of JSON, and the records of a
// ledger, each with its length (4 bytes) and its CRC-32C (4) before it; see
// AppendMoved. A record of length 0 ends it, and after it a line of JSON with
// the number of records and the hash over them, kind by kind: a file that was
// cut or changed anywhere is not taken.
const (
	dumpMagic   = "onceward ledger dump 1\n"
	dumpFormat  = 1
	maxDumpLine = 64 << 10
	maxRecord   = 1 << 30 // no record is as long
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// DumpHead says what a dump is of.
type DumpHead struct {
	Format int       `json:"format"`
	ID     string    `json:"id"` // of this dump
	Of     string    `json:"of"` // the ledger
	At     time.Time `json:"at"` // wall clock when it was begun
}

type dumpEnd struct {
	Records uint64      `json:"records"`
	Counts  []MoveCount `json:"counts"`
}

// DumpWriter writes the records of a ledger to a file.
type DumpWriter struct {
	w     *bufio.Writer
	tally MoveTally
	buf   []byte
}

// NewDumpWriter begins a dump.
func NewDumpWriter(w io.Writer, h DumpHead) (*DumpWriter, error) {
	h.Format = dumpFormat
	line, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	d := &DumpWriter{w: bufio.NewWriterSize(w, 1<<20)}
	_, err = d.w.WriteString(dumpMagic + string(line) + "\n")
	return d, err
}

// Put writes a record.
func (d *DumpWriter) Put(m Moved) error {
	d.buf = AppendMoved(d.buf[:0], m)
	d.tally.add(m.kind(), d.buf)
	return d.frame(d.buf)
}

func (d *DumpWriter) frame(b []byte) error {
	if len(b) > maxRecord {
		return fmt.Errorf("a record of %d bytes does not fit into a dump", len(b))
	}
	var size [8]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(b)))
	binary.BigEndian.PutUint32(size[4:], crc32.Checksum(b, castagnoli))
	if _, err := d.w.Write(size[:]); err != nil {
		return err
	}
	_, err := d.w.Write(b)
	return err
}

// End writes what the dump must have to be taken, and returns the tally of all.
func (d *DumpWriter) End() (*MoveTally, error) {
	line, err := json.Marshal(dumpEnd{d.tally.Records(), d.tally.Counts()})
	if err == nil {
		err = d.frame(nil)
	}
	if err == nil {
		_, err = d.w.Write(append(line, '\n'))
	}
	if err == nil {
		err = d.w.Flush()
	}
	return &d.tally, err
}

// DumpReader reads what a DumpWriter wrote.
type DumpReader struct {
	r    *bufio.Reader
	head DumpHead
	n    uint64
}

// NewDumpReader begins to read a dump.
func NewDumpReader(r io.Reader) (*DumpReader, error) {
	d := &DumpReader{r: bufio.NewReaderSize(r, maxDumpLine)}
	magic := make([]byte, len(dumpMagic))
	if _, err := io.ReadFull(d.r, magic); err != nil || string(magic) != dumpMagic {
		return nil, errors.New("is no dump of a ledger")
	}
	line, err := d.r.ReadSlice('\n')
	if err != nil || json.Unmarshal(line, &d.head) != nil {
		return nil, fmt.Errorf("%w: what the dump says of itself can't be read", ErrDamaged)
	}
	if d.head.Format > dumpFormat {
		return nil, fmt.Errorf("%w: the dump has format %d, this program knows %d; use the newer program", ErrNewer, d.head.Format, dumpFormat)
	}
	return d, nil
}

// Head says what the dump is of.
func (d *DumpReader) Head() DumpHead { return d.head }

// Each gives every record to put and returns the tally of all, which the end of
// the dump has confirmed. Anything that is not as it was written is ErrDamaged.
func (d *DumpReader) Each(put func(Moved) error) (*MoveTally, error) {
	var tally MoveTally
	for {
		b, err := d.frame()
		if err != nil {
			return &tally, fmt.Errorf("%w: dump after %d records: %w", ErrDamaged, d.n, err)
		}
		if len(b) == 0 {
			break
		}
		m, err := DecodeMoved(b)
		if err != nil {
			return &tally, fmt.Errorf("dump after %d records: %w", d.n, err)
		}
		d.n++
		tally.add(m.kind(), b)
		if err := put(m); err != nil {
			return &tally, err
		}
	}
	if err := d.end(&tally); err != nil {
		return &tally, fmt.Errorf("%w: dump after %d records: %w", ErrDamaged, d.n, err)
	}
	return &tally, nil
}

func (d *DumpReader) frame() ([]byte, error) {
	var size [8]byte
	if _, err := io.ReadFull(d.r, size[:]); err != nil {
		return nil, errors.New("it is cut short")
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxRecord {
		return nil, fmt.Errorf("a record says it has %d bytes", n)
	}
	var buf bytes.Buffer // grows with what is there, not with what is said
	if m, err := io.CopyN(&buf, d.r, int64(n)); err != nil || m != int64(n) {
		return nil, errors.New("it is cut short")
	}
	if crc32.Checksum(buf.Bytes(), castagnoli) != binary.BigEndian.Uint32(size[4:]) {
		return nil, errors.New("a record fails its checksum")
	}
	return buf.Bytes(), nil
}

func (d *DumpReader) end(tally *MoveTally) error {
	line, err := d.r.ReadSlice('\n')
	var end dumpEnd
	if err != nil || json.Unmarshal(line, &end) != nil {
		return errors.New("it is cut short")
	}
	counts := tally.Counts()
	if end.Records != tally.Records() || len(end.Counts) != len(counts) {
		return errors.New("it has not the records it says it has")
	}
	for i := range counts {
		if counts[i] != end.Counts[i] {
			return fmt.Errorf("it has not the %s it says it has", counts[i].Kind)
		}
	}
	if _, err := d.r.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.New("something follows its end")
	}
	return nil
}
