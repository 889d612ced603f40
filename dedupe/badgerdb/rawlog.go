package badgerdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"strconv"

	"github.com/dgraph-io/badger/v4/y"
)

const (
	logHeader = 20 // key ID and IV, before the first entry
	// maxLogEntry bounds the value of an entry: none of ours comes near.
	maxLogEntry = 8 << 20
)

// rawLog is a write-ahead file: the entries of transactions in a row, then
// zeros. Badger stops at the first entry that does not verify and cuts the file
// off there, without a word.
type rawLog struct {
	data []byte
	at   int
}

// openRawLog reads a write-ahead file up to the zeros at its end.
func openRawLog(path string) (*rawLog, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	// The file is sparse and long; what is used of it stands at the beginning,
	// but a hole may stand before what is left after damage.
	data, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return &rawLog{data: bytes.TrimRight(data, "\x00"), at: logHeader}, nil
}

// next is the entry at the present place, false when none verifies there.
func (l *rawLog) next() (e rawEntry, ok bool) {
	if l.at < 0 || l.at+2 > len(l.data) {
		return e, false
	}
	b := l.data[l.at:]
	e.meta, e.user = b[0], b[1]
	n := 2
	var klen, vlen uint64
	for _, p := range []*uint64{&klen, &vlen, &e.expires} {
		v, w := binary.Uvarint(b[n:])
		if w <= 0 {
			return e, false
		}
		*p, n = v, n+w
	}
	if klen < 8 || klen > 1<<16 || vlen > maxLogEntry {
		return e, false
	}
	end := n + int(klen) + int(vlen)
	if end+4 > len(b)+4 { // the last bytes of a checksum may be zeros, which were trimmed
		return e, false
	}
	var sum [4]byte
	copy(sum[:], b[min(end, len(b)):])
	if crc32.Checksum(b[:end], castagnoli) != binary.BigEndian.Uint32(sum[:]) {
		return e, false
	}
	key := b[n : n+int(klen)]
	e.key, e.version = key[:len(key)-8], y.ParseTs(key)
	e.value = b[n+int(klen) : end]
	l.at += end + 4
	return e, true
}

// committed calls f for the entries of every whole transaction up to the first
// place that does not verify, as Badger would read them. It returns where that
// is; what stands after it Badger would throw away.
func (l *rawLog) committed(f func(rawEntry)) (stop int) {
	var txn []rawEntry
	for {
		stop, txn = l.at, txn[:0]
		for {
			e, ok := l.next()
			if !ok {
				return stop
			}
			if e.meta&metaFin != 0 {
				ts, err := strconv.ParseUint(string(e.value), 10, 64)
				if err != nil || len(txn) == 0 || txn[0].version != ts {
					return stop
				}
				break
			}
			if len(txn) > 0 && txn[0].version != e.version {
				return stop
			}
			txn = append(txn, e)
			if e.meta&metaTxn == 0 { // alone
				break
			}
		}
		for _, e := range txn {
			f(e)
		}
	}
}

// every calls f for every entry that verifies, looking on behind damage, until
// it returns false. It calls lost for every stretch that does not verify.
func (l *rawLog) every(f func(rawEntry) bool, lost func(from, to int)) {
	for l.at < len(l.data) {
		if e, ok := l.next(); ok {
			if e.meta&metaFin == 0 && !f(e) {
				return
			}
			continue
		}
		from := l.at
		for l.at++; l.at < len(l.data); l.at++ {
			at := l.at
			if _, ok := l.next(); ok {
				l.at = at
				break
			}
		}
		lost(from, l.at)
	}
}
