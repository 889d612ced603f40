package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/postgres/pgtest"
)

// fleet is what gateways on one database have in common.
type fleet struct {
	schema string
	rest   string // of the configuration

	mu     sync.Mutex
	tokens []string // that were shown
}

// share is a ledger of the test's own for gateways with one source and target.
func share(t *testing.T, url string) *fleet {
	t.Helper()
	return &fleet{schema: pgtest.Schema(t), rest: source("stripe", "stripe", "${env:A}") + target(url)}
}

// config is that of the gateway of a name.
func (f *fleet) config(t *testing.T, name string) *Config {
	t.Helper()
	return parsed(t, sharedBase(pgtest.URL(t), f.schema, name)+f.rest)
}

func sharedBase(url, schema, name string) string {
	return fmt.Sprintf(`listen = "127.0.0.1:0"
drain = "5s"
admin = { listen = "127.0.0.1:0" }
retention = { body = "60d" }
[store]
driver = "postgres"
dsn = %q
schema = %q
gateway = %q
migrate = true
max_conns = 4
`, url, schema, name)
}

// options let the fleet know of tokens that are shown.
func (f *fleet) options(o Options) Options {
	o.ShowToken = func(token string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.tokens = append(f.tokens, token)
	}
	return o
}

// run starts a gateway of the fleet.
func (f *fleet) run(t *testing.T, name string, o Options) *running {
	t.Helper()
	return runConfig(t, f.config(t, name), f.options(o))
}

// client is one with the token of the fleet.
func (f *fleet) client(t *testing.T, r *running) *admin.Client {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.tokens) != 1 {
		t.Fatalf("%d tokens were shown, want one", len(f.tokens))
	}
	_, addr := r.Addr()
	c, err := admin.NewClient(admin.ClientConfig{Addr: addr, Token: f.tokens[0]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// twice is a signed request for one gateway and the same for another.
func twice(t *testing.T, a, b *running, id string) (first, second *http.Request) {
	t.Helper()
	first = a.signed(t, "stripe", id, "thing.happened")
	body, err := io.ReadAll(first.Body)
	if err != nil {
		t.Fatal(err)
	}
	first.Body = io.NopCloser(bytes.NewReader(body))
	ingest, _ := b.Addr()
	second = first.Clone(t.Context())
	second.URL.Host, second.Host = ingest, ingest
	second.Body = io.NopCloser(bytes.NewReader(body))
	return first, second
}

// TestShared starts two gateways at once on an empty database. What one accepts
// is a repeat to the other, delivered once, and seen by both; they have one
// token, which was shown once; the account of both verifies through either.
func TestShared(t *testing.T) {
	t.Parallel()
	url, hits := listener(t, ok)
	f := share(t, url)
	all := make([]*running, 2)
	var start sync.WaitGroup
	for i, name := range []string{"a", "b"} {
		cfg := f.config(t, name)
		start.Go(func() { all[i] = runConfig(t, cfg, f.options(Options{})) })
	}
	start.Wait()
	if all[0] == nil || all[1] == nil {
		t.FailNow()
	}
	const events = 8
	for i := range events {
		at, other := all[i%2], all[(i+1)%2]
		id := fmt.Sprint("evt_", i)
		one, two := twice(t, at, other, id)
		resp, answer := at.send(t, one)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Idempotent-Replayed") != "" {
			t.Fatalf("%s: answered %s %v", id, resp.Status, resp.Header)
		}
		resp, repeat := other.send(t, two)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Idempotent-Replayed") != "true" || repeat != answer {
			t.Errorf("%s: a repeat at the other gateway was answered %s %v %q, want %q", id, resp.Status, resp.Header, repeat, answer)
		}
	}
	keys := map[string]int{}
	for range events {
		keys[next(t, hits).key]++
	}
	for _, r := range all {
		c := f.client(t, r)
		eventually(t, func() bool {
			page, err := c.Events(t.Context(), admin.Filter{Status: "delivered"}, "", 100)
			return err == nil && len(page.Items) == events
		})
		d, err := c.Event(t.Context(), "evt_0", "stripe")
		if err != nil || d.Repeats != 1 || len(d.Attempted) != 1 {
			t.Errorf("evt_0: %d repeats, %d attempts, %v; want one of each", d.Repeats, len(d.Attempted), err)
		}
		verifyAccount(t, c)
		if n, err := c.Backup(t.Context(), io.Discard); err == nil || n > 0 || !strings.Contains(err.Error(), "pg_dump") {
			t.Errorf("a backup of %d bytes, %v; want what to use in its place", n, err)
		}
	}
	for _, r := range all {
		if err := r.stop(t); err != nil {
			t.Error(err)
		}
	}
	select {
	case h := <-hits:
		t.Errorf("one more request than events: %+v", h)
	default:
	}
	if len(keys) != events {
		t.Errorf("the target saw %d keys, want %d: %v", len(keys), events, keys)
	}
	for key, n := range keys {
		if n != 1 {
			t.Errorf("%s was sent %d times", key, n)
		}
	}
	left, err := filepath.Glob("[a-z]*.token")
	for _, name := range []string{"data", TokenFileName, auditKeyFile, "captured"} {
		if _, serr := os.Lstat(name); serr == nil || err != nil || len(left) > 0 {
			t.Errorf("%s was written", name)
		}
	}
}

// verifyAccount holds that the account of all writers verifies with the keys of
// all gateways and not with a stranger's.
func verifyAccount(t *testing.T, c *admin.Client) {
	t.Helper()
	k, err := c.AuditKey(t.Context())
	if err != nil || len(k.All) != 2 || k.All[0] != k.Key {
		t.Fatalf("keys %+v, %v; want two, and its own first", k, err)
	}
	if _, err := c.SignAudit(t.Context()); err != nil {
		t.Fatal(err)
	}
	stranger, _, err := audit.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, try := range []struct {
		keys []string
		good bool
	}{{k.All, true}, {[]string{stranger.Public()}, false}} {
		keys, err := audit.ParseKeys(strings.Join(try.keys, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		rep, err := audit.VerifyPiped(audit.VerifyConfig{Keys: keys}, func(w io.Writer) error { return c.ExportAudit(t.Context(), w) })
		if err != nil || len(rep.Logs) != 2 || (len(rep.Faults) == 0) != try.good {
			t.Errorf("verified with %v: %d logs, faults %v, %v", try.keys, len(rep.Logs), rep.Faults, err)
		}
	}
}

// TestNameTaken starts a gateway under the name of one that runs: the first one
// ends and says why, the second makes the deliveries it had. Started again under
// that name, it knows what came before.
func TestNameTaken(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	status.Store(http.StatusServiceUnavailable)
	url, hits := listener(t, func(hit) int { return int(status.Load()) })
	f := share(t, url)
	// Few attempts while the second one starts, however long that takes, and no
	// breaker that opens meanwhile.
	f.rest = source("stripe", "stripe", "${env:A}") +
		fmt.Sprintf("[[target]]\nname = \"app\"\nurl = %q\ninitial = \"1s\"\nmax = \"1s\"\nbreaker = { off = true }\n", url)
	cfg := f.config(t, "one")
	g, err := New(cfg, f.options(Options{}))
	if err != nil {
		t.Fatal(err)
	}
	first := &running{Gateway: g, cfg: cfg, client: &http.Client{}}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(context.WithoutCancel(t.Context())) }()
	select {
	case <-g.Ready():
	case err := <-ended:
		t.Fatal(err)
	}
	if resp, _ := first.send(t, first.signed(t, "stripe", "evt_1", "x")); resp.StatusCode != http.StatusOK {
		t.Fatalf("answered %s", resp.Status)
	}
	first.client.CloseIdleConnections()
	next(t, hits)
	second := f.run(t, "one", Options{})
	select {
	case err := <-ended:
		if !errors.Is(err, dedupe.ErrFatal) || !strings.Contains(err.Error(), "another process has taken this gateway's name") {
			t.Errorf("the first ended with: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the first goes on under a name that was taken")
	}
	status.Store(http.StatusOK)
	c := f.client(t, second)
	eventually(t, func() bool {
		for len(hits) > 0 {
			if h := next(t, hits); h.key != "stripe:evt_1" {
				t.Errorf("sent under %q", h.key)
			}
		}
		d, err := c.Event(t.Context(), "evt_1", "stripe")
		return err == nil && d.Status == "delivered"
	})
	_, again := twice(t, second, second, "evt_1")
	if resp, _ := second.send(t, again); resp.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the second takes what the first accepted for new: %s", resp.Status)
	}
	if err := second.stop(t); err != nil {
		t.Fatal(err)
	}
	third := f.run(t, "one", Options{})
	_, again = twice(t, third, third, "evt_1")
	if resp, _ := third.send(t, again); resp.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("started again it takes what it accepted for new: %s", resp.Status)
	}
	f.client(t, third) // one token was shown in all
}

// TestSharedPause pauses a target at one gateway: the other one makes no attempt
// either once it has taken that over, and both go on when it is resumed.
func TestSharedPause(t *testing.T) {
	t.Parallel()
	url, hits := listener(t, ok)
	f := share(t, url)
	a, b := f.run(t, "a", Options{}), f.run(t, "b", Options{})
	if err := a.forwarder.Pause(t.Context(), "app", dedupe.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	paused := func(r *running) bool { return r.forwarder.Status()[0].Paused }
	eventually(t, func() bool { return paused(b) })
	for _, r := range []*running{a, b} {
		if resp, _ := r.send(t, r.signed(t, "stripe", "evt_"+r.cfg.Store.Gateway, "x")); resp.StatusCode != http.StatusOK {
			t.Fatalf("answered %s", resp.Status)
		}
	}
	if n := len(hits); n > 0 || !paused(a) {
		t.Errorf("%d attempts at a target that is paused", n)
	}
	if err := b.forwarder.Resume(t.Context(), "app", dedupe.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	keys := []string{next(t, hits).key, next(t, hits).key}
	slices.Sort(keys)
	if !slices.Equal(keys, []string{"stripe:evt_a", "stripe:evt_b"}) {
		t.Errorf("sent %v", keys)
	}
	eventually(t, func() bool { return !paused(a) })
}

// TestSharedJob has a replay job taken from the gateway that works on it: by one
// to whose clock it is not heard of any more, while it goes on, and again after
// it has stopped. Each delivery is opened once.
func TestSharedJob(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(l ledger) ledger { return l })
	for _, stops := range []bool{false, true} {
		taken := false
		for try := 0; try < 20 && !taken; try++ { // a machine under load may miss the middle of a job
			before := openedBy(t, p.b)
			if j := p.takeJob(t, stops); j.State != audit.JobDone || j.Opened != pairEvents {
				t.Fatalf("job %+v", j)
			}
			eventually(t, func() bool { return p.sent(t) })
			n := openedBy(t, p.b) - before
			taken = n > 0 && n < pairEvents
		}
		if !taken {
			t.Error("no job was taken over in its middle")
		}
	}
	if n := openedBy(t, p.a) + openedBy(t, p.b); n != float64(pairEvents*p.jobs) {
		t.Errorf("the gateways opened %v deliveries, want %d", n, pairEvents*p.jobs)
	}
}

// TestSharedJobControl is the same with notes that anyone may overwrite: more is
// opened than there is.
func TestSharedJobControl(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(l ledger) ledger { return loose{l} })
	for range 20 {
		before := openedBy(t, p.a) + openedBy(t, p.b)
		p.takeJob(t, false)
		if openedBy(t, p.a)+openedBy(t, p.b)-before > pairEvents {
			return
		}
	}
	t.Error("two gateways worked on one job, and nothing was opened twice: the test can't see it")
}

// loose is a ledger whose notes have no versions.
type loose struct{ ledger }

func (l loose) PutNote(ctx context.Context, n dedupe.Note) (dedupe.Note, error) {
	return l.ledger.PutNote(ctx, l.newest(ctx, n))
}

func (l loose) Replay(ctx context.Context, r dedupe.Replay) (dedupe.ReplayCount, error) {
	if keep := r.Keep; keep != nil {
		r.Keep = func(n dedupe.ReplayCount) dedupe.Note { return l.newest(ctx, keep(n)) }
	}
	return l.ledger.Replay(ctx, r)
}

func (l loose) newest(ctx context.Context, n dedupe.Note) dedupe.Note {
	old, _ := l.Note(ctx, n.Kind, n.Name)
	n.Version = old.Version
	return n
}

// pair is two gateways with delivered events, of which one can be made to see
// the other as gone.
type pair struct {
	a, b  *running
	ahead *atomic.Int64 // of b's clock
	jobs  int           // that were done
	seen  sync.Map      // requests by key
}

const pairEvents = 60

func newPair(t *testing.T, through func(ledger) ledger) *pair {
	t.Helper()
	p := &pair{ahead: new(atomic.Int64)}
	url, _ := listener(t, func(h hit) int {
		n, _ := p.seen.LoadOrStore(h.key, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
		return http.StatusOK
	})
	f := share(t, url)
	start := func(name string, now func() time.Time) *running {
		cfg := f.config(t, name)
		g, err := New(cfg, f.options(Options{Env: testEnv, Now: now}))
		if err != nil {
			t.Fatal(err)
		}
		g.open = func(ctx context.Context) (ledger, error) {
			l, err := g.openLedger(ctx)
			if err != nil {
				return nil, err
			}
			return through(l), nil
		}
		return runGateway(t, g, cfg)
	}
	p.a = start("a", time.Now)
	p.b = start("b", func() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) })
	for i := range pairEvents {
		if resp, _ := p.a.send(t, p.a.signed(t, "stripe", fmt.Sprint("evt_", i), "x")); resp.StatusCode != http.StatusOK {
			t.Fatalf("answered %s", resp.Status)
		}
	}
	eventually(t, func() bool { return p.sent(t) })
	return p
}

// takeJob starts a job at a, has b take it over in its middle, and waits for
// its end.
func (p *pair) takeJob(t *testing.T, stops bool) audit.Job {
	t.Helper()
	job, err := p.a.jobs.Start(t.Context(), audit.Args{Source: "stripe"}, audit.Replay{By: dedupe.By{Actor: "test"}}, audit.JobRate{Count: 20, Per: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	get := func() audit.Job {
		j, err := p.b.jobs.Get(t.Context(), job.ID)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	eventually(t, func() bool { return get().Opened > 0 })
	if stops && get().State.Open() {
		if err := p.a.stop(t); err != nil {
			t.Fatal(err)
		}
	}
	p.ahead.Add(int64(time.Minute))
	eventually(t, func() bool { return !get().State.Open() })
	p.jobs++
	return get()
}

// sent reports whether every event was sent once, and once for each job. More
// is an error.
func (p *pair) sent(t *testing.T) bool {
	n, each := 0, int64(1+p.jobs)
	p.seen.Range(func(_, v any) bool {
		if got := v.(*atomic.Int64).Load(); got == each {
			n++
		} else if got > each {
			t.Errorf("a key was sent %d times, want %d", got, each)
		}
		return true
	})
	return n == pairEvents
}

// openedBy is how many deliveries replay jobs opened at a gateway.
func openedBy(t *testing.T, r *running) float64 {
	t.Helper()
	all, err := r.opts.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.GetName() == "onceward_replay_deliveries_total" {
			return m.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("deliveries that were opened are not counted")
	return 0
}

// TestStandby: a server that takes no writes is refused in one sentence.
func TestStandby(t *testing.T) {
	t.Parallel()
	c := pgtest.Own(t)
	cfg := parsed(t, sharedBase(c.URL, "s", "one"))
	if _, err := MigrateLedger(t.Context(), cfg, false); err != nil {
		t.Fatal(err)
	}
	if err := c.Standby(); err != nil {
		t.Fatal(err)
	}
	g, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Run(t.Context()); !errors.Is(err, ErrNoLedger) || !strings.Contains(err.Error(), "is a read-only standby: point the gateway at the primary") {
		t.Errorf("a standby: %v", err)
	}
	if rep, err := InspectLedger(t.Context(), cfg, g.log); err != nil || len(rep.Faults) > 0 {
		t.Errorf("a standby can be read: %+v, %v", rep, err)
	}
}
