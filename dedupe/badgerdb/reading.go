package badgerdb

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/onceward/onceward/dedupe"
)

// reading goes through the records of a damaged ledger as they stand in its
// files, and looks on behind damage.
type reading struct {
	*survey
	ctx   context.Context
	fault func(where, what string)

	read, lost uint64
	heads      []uint64 // numbers of those that verify
}

// run calls f for every record that verifies, in no order and with all its
// versions. Deletions are records too.
func (r *reading) run(f func(rawEntry) error) error {
	for _, t := range r.tables {
		if err := r.table(t.path, f); err != nil {
			return err
		}
	}
	for _, l := range r.logs {
		if err := r.log(l.path, f); err != nil {
			return err
		}
	}
	return nil
}

// table reads what it can of a table. Which records a block held that does not
// verify is known by its first key and the next one's.
func (r *reading) table(path string, f func(rawEntry) error) error {
	t, err := openRawTable(path)
	if err != nil {
		return nil // the survey has said it
	}
	defer t.close()
	for i, b := range t.blocks {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		var stop error
		err := t.each(i, func(e rawEntry) error {
			stop = r.entry(e, f)
			return stop
		})
		if stop != nil {
			return stop
		}
		if err == nil {
			continue
		}
		to := "the end of the table"
		if i+1 < len(t.blocks) {
			to = keyText(withoutVersion(t.blocks[i+1].first))
		}
		r.fault(fmt.Sprintf("%s block %d at %d", path, i, b.at), fmt.Sprintf("its records from %s to %s can't be read: %v", keyText(withoutVersion(b.first)), to, err))
	}
	return nil
}

func withoutVersion(key []byte) []byte { return key[:max(0, len(key)-8)] }

func (r *reading) log(path string, f func(rawEntry) error) error {
	l, err := openRawLog(path)
	if err != nil {
		return nil // the survey has said it
	}
	var stop error
	l.every(func(e rawEntry) bool {
		if stop = r.ctx.Err(); stop == nil {
			stop = r.entry(e, f)
		}
		return stop == nil
	}, func(from, to int) {
		r.fault(path, fmt.Sprintf("holds nothing that verifies from %d to %d", from, to))
	})
	return stop
}

// entry hands a record on when it verifies.
func (r *reading) entry(e rawEntry, f func(rawEntry) error) error {
	if len(e.key) > 0 && e.key[0] == '!' {
		return nil // Badger's own
	}
	if e.meta&metaDelete == 0 {
		if err := verifyEntry(e); err != nil {
			r.lost++
			r.fault(keyText(e.key), err.Error())
			return nil
		}
		if no := headNumber(e); no > 0 {
			r.heads = append(r.heads, no)
		}
	}
	r.read++
	return f(e)
}

func verifyEntry(e rawEntry) error {
	if e.meta&metaPtr != 0 {
		return damaged(e.key, "its value stands in another file")
	}
	_, err := unseal(e.key, e.value)
	return err
}

// gaps reports the batches of which not even the heads are there.
func (r *reading) gaps() {
	slices.Sort(r.heads)
	r.heads = slices.Compact(r.heads)
	for i := 1; i < len(r.heads); i++ {
		if from, to := r.heads[i-1]+1, r.heads[i]-1; from <= to {
			r.fault("heads", fmt.Sprintf("those of batches %d to %d are gone", from, to))
		}
	}
}

// count adds a record to the report by its key.
func countRecord(r *dedupe.CheckReport, e rawEntry) {
	if len(e.key) == 0 || e.meta&metaDelete != 0 {
		return
	}
	switch e.key[0] {
	case kindHead:
		r.Heads++
	case kindClaim:
		r.Claims++
	case kindAttempt:
		r.Attempts++
	case kindBody:
		if len(e.key) == bucketSize+18 && binary.BigEndian.Uint16(e.key[bucketSize+16:]) == 0 {
			r.Bodies++
		}
	case kindEvent:
		if len(e.key) > bucketSize && (e.key[bucketSize] == subEvent || e.key[bucketSize] == subCarried) {
			r.Events++
		}
	}
}
