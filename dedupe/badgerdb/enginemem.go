package badgerdb

import (
	"errors"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"unsafe"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/ristretto/v2/z"
)

// largestLeft is the size of the largest memtable that a kill left behind, at
// least that of cfg. Their logs are files of twice their size.
func largestLeft(cfg *Config) (int64, error) {
	size := cfg.MemTable
	entries, err := os.ReadDir(ledgerDir(cfg.Dir))
	if errors.Is(err, fs.ErrNotExist) {
		return size, nil
	}
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), walSuffix) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return 0, err
		}
		size = max(size, info.Size()/2)
	}
	return size, nil
}

// maxTables is how many tables of their size hold the ledger at its start.
const maxTables = 8192

// tableSize is the size of tables with which there are not too many. What can't
// be read counts as nothing: opening will say so.
func tableSize(cfg *Config) int64 {
	sum, size := int64(0), cfg.TableSize
	entries, _ := os.ReadDir(ledgerDir(cfg.Dir))
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), ".sst") {
			sum += info.Size()
		}
	}
	for size < sum/maxTables {
		size *= 2
	}
	return size
}

// flushLarger has memtables that were larger than those of cfg flushed by an
// engine of their size: one with smaller memtables can't hold what is in their
// logs, and panics.
func flushLarger(cfg *Config) error {
	larger := *cfg
	var err error
	if larger.MemTable, err = largestLeft(cfg); err != nil || larger.MemTable == cfg.MemTable {
		return err
	}
	kv, err := badger.Open(engine(&larger))
	if err != nil {
		return err
	}
	return kv.Close()
}

// unpool has the engine keep no memory in which it has put tables together.
// It keeps up to eight such buffers for the next tables, whatever their size:
// under load each has soon held a flush, at three times a memtable, and all
// together pass any limit. Here they are let go as soon as they are returned,
// by a receiver on the engine's channel for them; it ends when the engine is
// closed. The engine offers no setting for it, and its field is its own: where
// it is not found nothing is done, and a test says so.
func unpool(kv *badger.DB) {
	if ch := poolOf(kv); ch != nil {
		go func() {
			for a := range ch {
				a.Release()
			}
		}()
	}
}

// poolOf is the channel of the engine's idle buffers, nil where it has none by
// this name and type.
func poolOf(kv *badger.DB) chan *z.Allocator {
	pool := reflect.ValueOf(kv).Elem().FieldByName("allocPool")
	if pool.Kind() != reflect.Pointer || pool.IsNil() {
		return nil
	}
	field := pool.Elem().FieldByName("allocCh")
	if !field.IsValid() || field.Type() != reflect.TypeFor[chan *z.Allocator]() {
		return nil
	}
	return *(*chan *z.Allocator)(unsafe.Pointer(field.UnsafeAddr()))
}
