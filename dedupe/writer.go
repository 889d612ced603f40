package dedupe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The defaults of a WriterConfig.
const (
	DefaultQueue      = 4096
	DefaultQueueBytes = 64 << 20
	DefaultMaxItems   = 1024
	DefaultMaxBytes   = 7 << 19 // 3.5 MiB
)

// WriterConfig says what a Writer writes to and how much may wait.
type WriterConfig struct {
	Ledger     Committer
	Queue      int   // requests that may wait; 0 = DefaultQueue
	QueueBytes int64 // bytes of bodies that may wait; 0 = DefaultQueueBytes
	MaxItems   int   // events, results and key steps of one batch; 0 = DefaultMaxItems
	MaxBytes   int64 // bytes of one batch, bodies included; 0 = DefaultMaxBytes
	Log        *slog.Logger
	// Now is the clock by which the deadlines of callers are judged, not the
	// ledger's; nil = time.Now.
	Now        func() time.Time
	Registerer prometheus.Registerer // nil: instruments are not registered
}

// Writer commits what many callers bring in batches: one goroutine takes
// everything that waits into one transaction, syncs once, then wakes every
// caller. It waits for nothing to gather; batches form while the one before
// is on its way to disk. All methods but Run are safe for concurrent use.
type Writer struct {
	cfg     WriterConfig // read-only after NewWriter
	metrics *metrics
	rejoin  Rejoiner // nil: the ledger can't be away
	pool    sync.Pool

	// mu guards the queues; held for bookkeeping only, never across a commit.
	mu       sync.Mutex
	requests waitList
	results  waitList
	keys     waitList
	limbo    waitList // results, acts and steps of a batch of which nobody knows what became
	closed   error    // what later callers get; nil while the writer takes work
	away     error    // what requests and claims get while the ledger is away
	full     bool     // the ledger had no room for the last batch

	// wake holds a value when there may be work.
	wake chan struct{}
}

// NewWriter makes a writer and starts nothing: callers wait until Run runs.
// A registration that clashes is an error.
func NewWriter(cfg WriterConfig) (*Writer, error) {
	if cfg.Ledger == nil {
		return nil, errors.New("writer needs a ledger")
	}
	setDefault(&cfg.Queue, DefaultQueue)
	setDefault(&cfg.QueueBytes, DefaultQueueBytes)
	setDefault(&cfg.MaxItems, DefaultMaxItems)
	setDefault(&cfg.MaxBytes, DefaultMaxBytes)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	w := &Writer{cfg: cfg, wake: make(chan struct{}, 1)}
	w.rejoin, _ = cfg.Ledger.(Rejoiner)
	w.pool.New = func() any { return &waiter{done: make(chan error, 1)} }
	m, err := newMetrics(cfg.Registerer, w.depth, w.absence)
	if err != nil {
		return nil, fmt.Errorf("register writer metrics: %w", err)
	}
	w.metrics = m
	return w, nil
}

func setDefault[T int | int64](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

func (w *Writer) depth() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return float64(w.requests.len)
}

// Accept writes one request and returns when its outcomes are durable in
// req.Outcomes. On an error req.Outcomes is nil and, but for ErrFatal and
// ErrAway, nothing was written:
//
//   - ErrOverloaded when the queue is full, at once, or when ctx ended before
//     the request's turn came, or when the ledger was too slow for it.
//   - ErrAway while the ledger is away, at once: the outcome is unknown, and
//     the same request may be sent again.
//   - ErrDiskLow when the ledger refuses new events for lack of space.
//   - ErrTooLarge when the request can never fit one transaction.
//   - ErrDamaged when the ledger can't read a claim it needs.
//   - ErrClosed after Run has ended.
//   - ErrFatal when the ledger failed: the outcome is unknown, and the same
//     request may be sent again after a restart.
//
// Once the request's turn has come the end of ctx is ignored: the answer is
// always what is on disk.
func (w *Writer) Accept(ctx context.Context, req *Request) error {
	req.Outcomes, req.Err = nil, nil
	if len(req.Items) == 0 {
		return nil
	}
	if err := w.admissible(req); err != nil {
		return w.metrics.count(opAccept, err)
	}
	q := w.pool.Get().(*waiter)
	q.req, q.items, q.body = req, len(req.Items), int64(len(req.Body))
	q.bytes = q.body + metaSize(req)
	q.deadline, _ = ctx.Deadline()
	return w.metrics.count(opAccept, w.wait(ctx, &w.requests, q))
}

// Finish records results and returns when they are durable; each Result's
// Late is then set. Results never wait for room in the queue and are written
// although the disk is low. While the ledger is away they are kept; when it is
// back they turn out to be written, or are then. An end of ctx before their
// turn is ErrOverloaded and those not yet written stay unwritten; while the
// ledger is away it is ErrAway. Other errors are as for Accept.
func (w *Writer) Finish(ctx context.Context, results ...*Result) error {
	for len(results) > 0 {
		q := w.pool.Get().(*waiter)
		n := 0
		for n < len(results) && n < w.cfg.MaxItems {
			size := resultSize(results[n])
			if n > 0 && q.bytes+size > w.cfg.MaxBytes {
				break
			}
			q.bytes += size
			n++
		}
		q.results, q.items = results[:n], n
		q.deadline, _ = ctx.Deadline()
		if err := w.metrics.count(opFinish, w.wait(ctx, &w.results, q)); err != nil {
			return err
		}
		results = results[n:]
	}
	return nil
}

// Record writes acts that follow from no request or result and returns when
// they are durable. Like results they never wait for room. Texts are cut to
// MaxActText bytes. Errors are as for Finish.
func (w *Writer) Record(ctx context.Context, acts ...*Act) error {
	if len(acts) == 0 {
		return nil
	}
	q := w.pool.Get().(*waiter)
	q.acts, q.items = acts, len(acts)
	for _, a := range acts {
		q.bytes += a.size()
	}
	q.deadline, _ = ctx.Deadline()
	return w.metrics.count(opRecord, w.wait(ctx, &w.results, q))
}

// wait queues q, waits for its outcome and puts q back into the pool.
func (w *Writer) wait(ctx context.Context, l *waitList, q *waiter) error {
	err := ctx.Err()
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrOverloaded, err)
	} else if err = w.enqueue(l, q); err == nil {
		select {
		case err = <-q.done:
		case <-ctx.Done():
			if why := w.withdraw(q); why != nil {
				err = fmt.Errorf("%w: %w", why, ctx.Err())
			} else {
				err = <-q.done
			}
		}
	}
	*q = waiter{done: q.done}
	w.pool.Put(q)
	return err
}

func (w *Writer) enqueue(l *waitList, q *waiter) error {
	w.mu.Lock()
	switch {
	case w.closed != nil:
		err := w.closed // read under mu: a failing commit replaces it
		w.mu.Unlock()
		return err
	case w.away != nil && q.fresh():
		err := w.away
		w.mu.Unlock()
		return err
	case l == &w.keys && q.claims() && l.len >= w.cfg.Queue:
		w.mu.Unlock()
		return ErrOverloaded
	case q.req != nil && bounded && (l.len >= w.cfg.Queue || l.len > 0 && l.body+q.body > w.cfg.QueueBytes):
		w.mu.Unlock()
		return ErrOverloaded // bounded on purpose: the provider will come back
	}
	l.push(q)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // the writer knows already
	}
	return nil
}

// withdraw takes q out of the queue and says what its caller is told, nil when
// its turn has come.
func (w *Writer) withdraw(q *waiter) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q.in == nil {
		return nil
	}
	q.in.remove(q)
	if w.away != nil {
		return w.away
	}
	return ErrOverloaded
}

// flight is the batch under way and the callers it answers. The writer reuses
// one.
type flight struct {
	batch    Batch
	requests []*waiter
	results  []*waiter
	keys     []*waiter
	late     []*waiter
	items    int
	turn     int // which queue had the first pick
	slow     int // batches in a row that the ledger was too slow for
}

// Run writes until ctx ends, then writes what still waits and returns nil;
// what can't be written then because the ledger is away gets ErrAway. When the
// ledger fails it answers every caller, waiting and later, with ErrFatal and
// returns it: the process must end, since what is on disk is unknown. Run may be
// called once.
func (w *Writer) Run(ctx context.Context) error {
	f := &flight{}
	for {
		if err := w.drain(ctx, f); err != nil {
			return err
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			w.close(ErrClosed)
			return w.drain(ctx, f)
		}
	}
}

// drain writes batches until nothing waits.
func (w *Writer) drain(ctx context.Context, f *flight) error {
	for w.next(f) {
		for _, q := range f.late {
			q.done <- ErrOverloaded
		}
		if f.items == 0 {
			continue
		}
		if err := w.write(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// close makes later callers get err and returns who still waits.
func (w *Writer) close(err error) {
	w.mu.Lock()
	w.closed = err
	w.mu.Unlock()
}

// next fills f with what waits, false when nothing does. The queues take
// turns at the first pick, so that none starves another; the others get what
// room is left.
func (w *Writer) next(f *flight) bool {
	now := w.cfg.Now()
	rest := budget{items: w.cfg.MaxItems, bytes: w.cfg.MaxBytes}
	f.requests, f.results, f.keys, f.late, f.items = f.requests[:0], f.results[:0], f.keys[:0], f.late[:0], 0
	queues := [...]struct {
		list *waitList
		to   *[]*waiter
	}{{&w.keys, &f.keys}, {&w.requests, &f.requests}, {&w.results, &f.results}}
	w.mu.Lock()
	first := -1
	for i := range queues {
		at := (f.turn + 1 + i) % len(queues)
		q := queues[at]
		if q.list.len == 0 {
			continue
		}
		if first < 0 {
			first = at
		}
		none := len(f.requests)+len(f.results)+len(f.keys) == 0
		*q.to, f.late = q.list.take(&rest, now, none, *q.to, f.late)
	}
	w.mu.Unlock()
	f.turn = max(first, 0)
	f.fill()
	return f.items > 0 || len(f.late) > 0
}

// fill puts what was taken into the batch.
func (f *flight) fill() {
	b := &f.batch
	clear(b.Requests)
	clear(b.Results)
	clear(b.Acts)
	clear(b.Keys)
	b.Requests, b.Results, b.Acts, b.Keys = b.Requests[:0], b.Results[:0], b.Acts[:0], b.Keys[:0]
	for _, q := range f.requests {
		b.Requests = append(b.Requests, q.req)
		f.items += q.items
	}
	for _, q := range f.results {
		b.Results = append(b.Results, q.results...)
		b.Acts = append(b.Acts, q.acts...)
		f.items += q.items
	}
	for _, q := range f.keys {
		b.Keys = append(b.Keys, q.keys...)
		f.items += q.items
	}
}

// write commits f, to its end whatever becomes of ctx, and wakes its callers.
func (w *Writer) write(ctx context.Context, f *flight) error {
	if earlyAck {
		ackEarly(w, f)
	}
	started := time.Now()
	err := w.cfg.Ledger.Commit(context.WithoutCancel(ctx), &f.batch)
	w.metrics.commit.Observe(time.Since(started).Seconds())
	w.metrics.items.Observe(float64(f.items))
	for _, q := range f.requests {
		if err == nil && q.req.Err == nil && len(q.req.Outcomes) != len(q.req.Items) {
			err = errors.New("ledger gave no outcome")
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, ErrFatal):
		return w.fail(f, err)
	case errors.Is(err, ErrAway) && w.rejoin != nil:
		return w.bridge(ctx, f, err)
	case errors.Is(err, ErrOverloaded):
		return w.shed(ctx, f, err)
	default:
		return w.fail(f, err)
	}
	f.slow = 0
	w.noteFull(false)
	Failpoint("wake")
	for _, q := range f.requests {
		answer(q, q.req.Err) // the ledger may have refused one alone
	}
	answerAll(f.results, nil)
	w.answerKeys(f.keys)
	return nil
}

// fail ends the writer: nobody gets an outcome of a batch that may or may not
// be on disk.
func (w *Writer) fail(f *flight, err error) error {
	if !errors.Is(err, ErrFatal) {
		err = fmt.Errorf("%w: %w", ErrFatal, err)
	}
	w.metrics.count(opCommit, err)
	w.close(err)
	answerAll(f.requests, err)
	answerAll(f.results, err)
	answerAll(f.keys, err)
	answerAll(w.everybody(), err)
	return fmt.Errorf("commit batch: %w", err)
}

// everybody takes all who wait out of their queues.
func (w *Writer) everybody() (out []*waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range [...]*waitList{&w.limbo, &w.requests, &w.results, &w.keys} {
		out = append(out, l.empty()...)
	}
	return out
}

func answerAll(qs []*waiter, err error) {
	for _, q := range qs {
		answer(q, err)
	}
}

// answer wakes a caller. An outcome that is not durable is taken back first.
func answer(q *waiter, err error) {
	if err != nil && q.req != nil {
		q.req.Outcomes = nil
	}
	q.done <- err
}
