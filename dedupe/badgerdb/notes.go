package badgerdb

import (
	"bytes"
	"context"
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
)

var _ dedupe.Notebook = (*DB)(nil)

func notePrefix(kind string) []byte {
	return append(append([]byte{kindNote}, kind...), 0)
}

func noteKey(kind, name string) []byte { return append(notePrefix(kind), name...) }

func sealNote(key []byte, n *dedupe.Note) []byte {
	e := newEnc(len(n.Value) + 24)
	e.uint(n.Version)
	e.time(n.UpdatedAt)
	e.bytes(n.Value)
	return e.seal(key, 0)
}

func decodeNote(key, val []byte) (n dedupe.Note, err error) {
	payload, err := unseal(key, val)
	if err != nil {
		return n, err
	}
	kind, name, ok := bytes.Cut(key[1:], []byte{0})
	if !ok {
		return n, damaged(key, "malformed key")
	}
	d := &dec{b: payload}
	n = dedupe.Note{Kind: string(kind), Name: string(name), Version: d.uint(), UpdatedAt: d.time(), Value: d.bytes()}
	return n, d.end(key)
}

func readNote(txn *badger.Txn, kind, name string) (dedupe.Note, error) {
	key := noteKey(kind, name)
	val, err := get(txn, key)
	if err != nil {
		return dedupe.Note{}, err
	}
	return decodeNote(key, val)
}

// PutNote keeps a note; see dedupe.Notebook.
func (db *DB) PutNote(ctx context.Context, n dedupe.Note) (dedupe.Note, error) {
	if err := n.Check(); err != nil {
		return dedupe.Note{}, err
	}
	err := db.note(ctx, n, func(txn *badger.Txn, have uint64) error {
		if have != n.Version {
			return dedupe.ErrStale
		}
		n.Version++
		n.UpdatedAt = db.clock.now()
		key := noteKey(n.Kind, n.Name)
		return txn.Set(key, sealNote(key, &n))
	})
	if err != nil {
		return dedupe.Note{}, err
	}
	return n, nil
}

// DropNote removes a note; see dedupe.Notebook.
func (db *DB) DropNote(ctx context.Context, n dedupe.Note) error {
	return db.note(ctx, n, func(txn *badger.Txn, have uint64) error {
		switch have {
		case 0:
			return dedupe.ErrNotFound
		case n.Version:
			return txn.Delete(noteKey(n.Kind, n.Name))
		}
		return dedupe.ErrStale
	})
}

// note changes one note in a transaction of its own, given the version that is
// kept now.
func (db *DB) note(ctx context.Context, n dedupe.Note, change func(*badger.Txn, uint64) error) error {
	if !db.disk.roomy() {
		return errNoRoom
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.writable(); err != nil {
		return err
	}
	txn := db.kv.NewTransaction(true)
	defer txn.Discard()
	have, err := readNote(txn, n.Kind, n.Name)
	if err != nil && !errors.Is(err, dedupe.ErrNotFound) {
		return err
	}
	if err := change(txn, have.Version); err != nil {
		return err
	}
	if err := db.beforeSync(); err != nil {
		return db.fail(err)
	}
	if err := db.commitTxn(txn); err != nil {
		return db.fail(err)
	}
	dedupe.Failpoint("note.done")
	return nil
}

// Note reads a note.
func (db *DB) Note(_ context.Context, kind, name string) (n dedupe.Note, err error) {
	err = db.view(func(txn *badger.Txn) error {
		n, err = readNote(txn, kind, name)
		return err
	})
	return n, err
}

// Notes lists the notes of a kind.
func (db *DB) Notes(_ context.Context, kind string) (out []dedupe.Note, err error) {
	err = db.view(func(txn *badger.Txn) error {
		opt := badger.DefaultIteratorOptions
		opt.Prefix = notePrefix(kind)
		it := txn.NewIterator(opt)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			key := it.Item().KeyCopy(nil)
			val, err := it.Item().ValueCopy(nil)
			if err != nil {
				return engineErr(key, err)
			}
			n, err := decodeNote(key, val)
			if err != nil {
				return err
			}
			out = append(out, n)
		}
		return nil
	})
	return out, err
}
