package badgerdb

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// maxUnread bounds what is kept of records that can't be read; all are logged.
const maxUnread = 1000

// unread is what of the open deliveries can't be read. They are not made: what
// is to be sent, or whether it was, is not known. All others are, and these stay
// visible: in the log, in a concern, in lists of what is open, and by the mark from
// which each start reads, which does not pass them.
type unread struct {
	mu   sync.Mutex // never held while db.mu is waited for
	said map[string]bool
	refs []event.Ref // each once, ascending
	low  event.Ref   // the first that a start finds from the mark on
}

// passOver takes damage of a record of what may be open as said, and returns any
// other error. ref is zero where the key itself does not tell it.
func (db *DB) passOver(ref event.Ref, err error) error {
	if !errors.Is(err, dedupe.ErrDamaged) {
		return err
	}
	u := &db.unread
	u.mu.Lock()
	defer u.mu.Unlock()
	if i, found := slices.BinarySearchFunc(u.refs, ref, event.Ref.Compare); !found && len(u.refs) < maxUnread {
		u.refs = slices.Insert(u.refs, i, ref)
	}
	if u.said[err.Error()] {
		return nil
	}
	if len(u.said) < maxUnread {
		u.said[err.Error()] = true
	}
	db.metrics.damage.Inc()
	db.log.Error("what may be an open delivery can't be read and is passed over: restore a backup or run onceward ledger salvage", "ref", ref.String(), "error", err)
	return nil
}

// passHere is passOver for what stands where its ref says: the mark stays before
// it, so that the next start says it again.
func (db *DB) passHere(ref event.Ref, err error) error {
	if err == nil {
		return nil
	}
	if err := db.passOver(ref, err); err != nil {
		return err
	}
	u := &db.unread
	u.mu.Lock()
	defer u.mu.Unlock()
	if !ref.IsZero() && (u.low.IsZero() || ref.Compare(u.low) < 0) {
		u.low = ref
	}
	return nil
}

// passDelivery is passOver for one delivery of an event that can be read. Those
// that wait for it in order wait on, as they would if it were dead.
func (db *DB) passDelivery(ev *event.Event, target string, err error) error {
	if err == nil {
		return nil
	}
	db.sched.Block(target, ev.Ref, ev.OrderAt(target))
	return db.passOver(ev.Ref, err)
}

// before is the lower of a mark and what can't be read.
func (u *unread) before(low event.Ref) event.Ref {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.low.IsZero() && u.low.Compare(low) < 0 {
		return u.low
	}
	return low
}

// list is the refs of events of which something can't be read.
func (u *unread) list() []event.Ref {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(u.refs), event.Ref.IsZero)
}

// forget drops an event that is gone, by retention.
func (u *unread) forget(ref event.Ref) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refs = slices.DeleteFunc(u.refs, func(r event.Ref) bool { return r == ref })
	if ref == u.low {
		u.low = event.Ref{}
	}
}

// concerns tell the operator of it.
func (u *unread) concerns() []dedupe.Concern {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.refs) == 0 {
		return nil
	}
	return []dedupe.Concern{{
		Name: "damage",
		Text: fmt.Sprintf("Of %d events something can't be read that says what is to be delivered: those deliveries are not made.", len(u.refs)),
		Do:   "Look at them with onceward ledger check; restore a backup, or make a new ledger of what verifies with onceward ledger salvage.",
	}}
}

// orderOf is the order of a dead delivery whose own record of it can't be read:
// that of its event, so that those behind it wait on.
func (db *DB) orderOf(txn *badger.Txn, target string, ref event.Ref, err error) (event.Order, error) {
	if err := db.passOver(ref, err); err != nil {
		return 0, err
	}
	ev, _, err := db.find(txn, ref)
	switch {
	case errors.Is(err, dedupe.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, db.passOver(ref, err)
	}
	return ev.OrderAt(target), nil
}
