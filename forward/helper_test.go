package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a ledger in memory behind its group commit, with places to stand
// in the way.
type store struct {
	*ledgertest.Memory
	writer *dedupe.Writer

	load   func(event.Ref) error        // nil error: goes on to Memory
	finish func([]*dedupe.Result) error // called before the commit
	lease  func(target string) error
	put    func() error // of a note
	notes  func() error
	full   bool // nothing is written any more, for want of room
	stuck  bool // or it is not said why
}

func (s *store) Full() bool { return s.full }

func (s *store) Notes(ctx context.Context, kind string) ([]dedupe.Note, error) {
	if s.notes != nil {
		if err := s.notes(); err != nil {
			return nil, err
		}
	}
	return s.Memory.Notes(ctx, kind)
}

func (s *store) PutNote(ctx context.Context, n dedupe.Note) (dedupe.Note, error) {
	if s.put != nil {
		if err := s.put(); err != nil {
			return dedupe.Note{}, err
		}
	}
	return s.Memory.PutNote(ctx, n)
}

func (s *store) Finish(ctx context.Context, rs ...*dedupe.Result) error {
	if s.finish != nil {
		if err := s.finish(rs); err != nil {
			return err
		}
	}
	if s.full || s.stuck {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", dedupe.ErrOverloaded, ctx.Err())
	}
	return s.writer.Finish(ctx, rs...)
}

func (s *store) Load(ctx context.Context, ref event.Ref) (dedupe.Loaded, error) {
	if s.load != nil {
		if err := s.load(ref); err != nil {
			return dedupe.Loaded{}, err
		}
	}
	return s.Memory.Load(ctx, ref)
}

func (s *store) Lease(ctx context.Context, target string, n int, ttl time.Duration) ([]dedupe.Lease, time.Time, error) {
	if s.lease != nil {
		if err := s.lease(target); err != nil {
			return nil, time.Time{}, err
		}
	}
	return s.Memory.Lease(ctx, target, n, ttl)
}

// logs is a log that a test reads.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// rig is a forwarder on a ledger of its own.
type rig struct {
	tb    testing.TB
	store *store
	reg   *prometheus.Registry
	log   *logs
	f     *Forwarder
	stop  func() error // ends Run and returns what it did
	n     int
}

// newRig makes the parts; run starts them.
func newRig(tb testing.TB, edit func(*Config)) *rig {
	tb.Helper()
	return rigOn(tb, ledgertest.NewMemory(ledgertest.Config{}), edit)
}

func rigOn(tb testing.TB, mem *ledgertest.Memory, edit func(*Config)) *rig {
	tb.Helper()
	r := &rig{tb: tb, store: &store{Memory: mem}, reg: prometheus.NewRegistry(), log: &logs{}}
	w, err := dedupe.NewWriter(dedupe.WriterConfig{Ledger: mem})
	if err != nil {
		tb.Fatal(err)
	}
	r.store.writer = w
	cfg := Config{
		Ledger: r.store, Registerer: r.reg, Version: "test",
		Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if edit != nil {
		edit(&cfg)
	}
	if r.f, err = New(cfg); err != nil {
		tb.Fatal(err)
	}
	return r
}

// run sets the targets and starts writer and forwarder. They end with the
// test, or with stop.
func (r *rig) run(ts ...Target) {
	r.tb.Helper()
	if err := r.f.SetTargets(ts); err != nil {
		r.tb.Fatal(err)
	}
	writing, endWriting := context.WithCancel(context.Background())
	running, endRunning := context.WithCancel(context.Background())
	var writer sync.WaitGroup
	writer.Go(func() { _ = r.store.writer.Run(writing) })
	ended := make(chan error, 1)
	go func() { ended <- r.f.Run(running) }()
	r.stop = sync.OnceValue(func() error {
		endRunning()
		err := <-ended
		endWriting()
		writer.Wait()
		return err
	})
	r.tb.Cleanup(func() { _ = r.stop() })
}

// admit accepts one event. Fields of ev that are zero are filled in.
func (r *rig) admit(ev event.Event, body string) event.Ref {
	r.tb.Helper()
	r.n++
	if ev.Source == "" {
		ev.Source = "shop"
	}
	if ev.ID == "" {
		ev.ID = fmt.Sprintf("evt_%d", r.n)
	}
	if ev.Method == "" {
		ev.Method = http.MethodPost
	}
	if ev.ReceivedAt.IsZero() {
		ev.ReceivedAt = time.Now()
	}
	ev.BodyHash = event.HashOf([]byte(body))
	ev.Body = event.Slice{Length: int64(len(body))}
	req := &dedupe.Request{Body: []byte(body), Items: []dedupe.Item{{Event: ev, RawID: ev.ID}}}
	if err := r.store.Commit(context.Background(), &dedupe.Batch{Requests: []*dedupe.Request{req}}); err != nil {
		r.tb.Fatal(err)
	}
	return req.Outcomes[0].Ref
}

func (r *rig) delivery(ref event.Ref, target string) event.Delivery {
	r.tb.Helper()
	rec, err := r.store.Get(context.Background(), ref)
	if err != nil {
		r.tb.Fatal(err)
	}
	for _, d := range rec.Deliveries {
		if d.Target == target {
			return d
		}
	}
	r.tb.Fatalf("event %s has no delivery for %q", ref, target)
	return event.Delivery{}
}

func (r *rig) attempts(ref event.Ref) []event.Attempt {
	r.tb.Helper()
	as, err := r.store.Attempts(context.Background(), ref)
	if err != nil {
		r.tb.Fatal(err)
	}
	return as
}

// deliveredOnce fails unless each delivery landed by one attempt, in time.
func (r *rig) deliveredOnce(refs []event.Ref, target string) {
	r.tb.Helper()
	for _, ref := range refs {
		d := r.delivery(ref, target)
		var n, late int
		for _, a := range r.attempts(ref) {
			if a.Target == target {
				n++
			}
			if a.Late {
				late++
			}
		}
		if d.State != event.Delivered || d.Attempts != 1 || n != 1 || late != 0 {
			r.tb.Errorf("%s is %v after %d attempts, %d recorded, %d late, want delivered by one", d.DeliveryID(), d.State, d.Attempts, n, late)
		}
	}
}

// metric is the value of one sample, the count of a histogram's, or -1 when
// there is none.
func (r *rig) metric(name, target, label, value string) float64 {
	r.tb.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.tb.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got := map[string]string{}
			for _, l := range m.GetLabel() {
				got[l.GetName()] = l.GetValue()
			}
			if f.GetName() != name || got["target"] != target || got[label] != value {
				continue
			}
			switch {
			case m.Counter != nil:
				return m.Counter.GetValue()
			case m.Gauge != nil:
				return m.Gauge.GetValue()
			}
			return float64(m.Histogram.GetSampleCount())
		}
	}
	return -1
}

// await polls a condition on outside work, with a deadline.
func await(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			tb.Fatalf("waited 30 s for: %s", what)
		case <-tick.C:
		}
	}
}

func (r *rig) closed(ref event.Ref, target string) {
	r.tb.Helper()
	await(r.tb, "delivery to be closed", func() bool { return !r.delivery(ref, target).State.Open() })
}

func mustURL(tb testing.TB, s string) *url.URL {
	tb.Helper()
	u, err := url.Parse(s)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

// fast is a schedule for tests on the real clock.
var fast = Schedule{Initial: time.Millisecond, Factor: 1, Max: time.Millisecond}

// pipes is a network in memory: a server per host, over net.Pipe, so that
// tests on a synthetic clock can wait for each other.
type pipes struct {
	mu    sync.Mutex
	hosts map[string]*pipeListener
}

func newPipes() *pipes { return &pipes{hosts: map[string]*pipeListener{}} }

// serve answers for host until the test ends.
func (p *pipes) serve(tb testing.TB, host string, h http.Handler) {
	tb.Helper()
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	p.mu.Lock()
	p.hosts[host] = l
	p.mu.Unlock()
	srv := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(l)
	}()
	tb.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
}

func (p *pipes) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	l := p.hosts[host]
	p.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.done:
	case <-ctx.Done():
	}
	return nil, errors.Join(here.Close(), there.Close(), net.ErrClosed)
}

type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// slowDial takes its time to connect.
func slowDial(dial DialFunc, d time.Duration) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		time.Sleep(d)
		return dial(ctx, network, address)
	}
}
