package dedupe

import "time"

// waiter is one caller's place in the queue of a Writer. Waiters are pooled;
// the caller that took one from the pool puts it back.
type waiter struct {
	req      *Request
	results  []*Result
	acts     []*Act
	keys     []*KeyStep
	items    int
	bytes    int64     // counted towards a batch
	body     int64     // counted towards the queue
	deadline time.Time // zero: none

	// done carries the outcome to the caller, once per use.
	done chan error

	// The Writer's mutex guards the rest.
	next, prev *waiter
	in         *waitList // where it waits; nil: its turn has come
}

// waitList is a queue of waiters from which any one can leave at once, so
// that callers who gave up hold no memory. The Writer's mutex guards it.
type waitList struct {
	head, tail *waiter
	len        int
	body       int64
}

func (l *waitList) push(q *waiter) {
	q.prev, q.next, q.in = l.tail, nil, l
	if l.tail == nil {
		l.head = q
	} else {
		l.tail.next = q
	}
	l.tail = q
	l.len++
	l.body += q.body
}

// putBack puts a waiter whose turn had come first in line again.
func (l *waitList) putBack(q *waiter) {
	q.prev, q.next, q.in = nil, l.head, l
	if l.head == nil {
		l.tail = q
	} else {
		l.head.prev = q
	}
	l.head = q
	l.len++
	l.body += q.body
}

// empty takes everybody out, in order.
func (l *waitList) empty() (out []*waiter) {
	for q := l.head; q != nil; q = l.head {
		l.remove(q)
		out = append(out, q)
	}
	return out
}

func (l *waitList) remove(q *waiter) {
	if q.prev == nil {
		l.head = q.next
	} else {
		q.prev.next = q.next
	}
	if q.next == nil {
		l.tail = q.prev
	} else {
		q.next.prev = q.prev
	}
	q.prev, q.next, q.in = nil, nil, nil
	l.len--
	l.body -= q.body
}

// budget is what a batch may still take.
type budget struct {
	items int
	bytes int64
}

// take moves waiters from the front of l to out while they fit. Those past
// their deadline go to late. A waiter larger than a whole batch is taken when
// alone is true and nothing was taken before it, and ends the batch.
func (l *waitList) take(b *budget, now time.Time, alone bool, out, late []*waiter) (taken, expired []*waiter) {
	for q := l.head; q != nil; q = l.head {
		if !q.deadline.IsZero() && now.After(q.deadline) {
			l.remove(q)
			late = append(late, q)
			continue
		}
		fits := q.items <= b.items && q.bytes <= b.bytes
		if !fits && !(alone && len(out) == 0) {
			break
		}
		l.remove(q)
		out = append(out, q)
		b.items -= q.items
		b.bytes -= q.bytes // below zero for one too large: nothing more fits
	}
	return out, late
}
