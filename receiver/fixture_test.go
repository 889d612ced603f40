package receiver

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/ledgertest"
	"github.com/onceward/onceward/verify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is the wall clock of every fixture until a test moves it.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const testSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// fixture is a receiver on a real listener over a real writer and a ledger in
// memory.
type fixture struct {
	r    *Receiver
	mem  *ledgertest.Memory
	addr string
	reg  *prometheus.Registry
	logs *logBuffer
	now  atomic.Int64
	stop context.CancelFunc // ends Serve
	done chan error         // what Serve returned
}

type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// setup starts a receiver. change may alter the config, also its Admit.
func setup(t *testing.T, sources []*Source, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{reg: prometheus.NewRegistry(), logs: &logBuffer{}, done: make(chan error, 1)}
	f.now.Store(noon.UnixNano())
	f.mem = ledgertest.NewMemory(ledgertest.Config{Now: f.clock})
	w, err := dedupe.NewWriter(dedupe.WriterConfig{Ledger: f.mem})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Admit: w, Sources: sources, Registerer: f.reg, Now: f.clock,
		Log: slog.New(slog.NewJSONHandler(f.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&cfg)
	}
	if f.r, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = ln.Addr().String()
	serve, stopServe := context.WithCancel(context.Background())
	write, stopWrite := context.WithCancel(context.Background())
	wrote := make(chan error, 1)
	go func() { wrote <- w.Run(write) }()
	go func() { f.done <- f.r.Serve(serve, ln) }()
	f.stop = stopServe
	t.Cleanup(func() {
		stopServe()
		<-f.done
		stopWrite()
		<-wrote
	})
	return f
}

func (f *fixture) clock() time.Time { return time.Unix(0, f.now.Load()).UTC() }

// events is how many events the ledger accepted.
func (f *fixture) events(t *testing.T) uint64 {
	t.Helper()
	s, err := f.mem.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Events
}

// all lists the accepted events, newest first.
func (f *fixture) all(t *testing.T) []dedupe.Record {
	t.Helper()
	p, err := f.mem.Events(t.Context(), dedupe.Filter{}, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	return p.Items
}

// metric is the value of one counter or gauge.
func (f *fixture) metric(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := f.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, fam := range families {
		if fam.GetName() != name {
			continue
		}
	series:
		for _, m := range fam.GetMetric() {
			have := map[string]string{}
			for _, l := range m.GetLabel() {
				have[l.GetName()] = l.GetValue()
			}
			for i := 0; i < len(labels); i += 2 {
				if have[labels[i]] != labels[i+1] {
					continue series
				}
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s%q", name, labels)
	return 0
}

// verifier makes a verifier of a built-in row.
func verifier(t testing.TB, cfg verify.Config, provider string) *verify.Verifier {
	t.Helper()
	row, ok := verify.Lookup(provider)
	if !ok {
		t.Fatalf("no provider %q", provider)
	}
	cfg.Row = row
	v, err := verify.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// source is a source of that provider under the provider's own name, with one
// secret and one target.
func source(t testing.TB, provider string, change ...func(*Source)) *Source {
	t.Helper()
	cfg := verify.Config{}
	switch provider {
	case "none":
	case "idempotency-key":
		cfg.Auth = "bearer"
		cfg.Secrets = []verify.Secret{
			{ID: "a", Caller: "alpha", Value: verify.NewSecretString("token-of-alpha-000001")},
			{ID: "b", Caller: "beta", Value: verify.NewSecretString("token-of-beta-0000002")},
		}
	default:
		cfg.Secrets = []verify.Secret{{ID: "main", Value: verify.NewSecretString(testSecret)}}
	}
	s := &Source{Name: provider, Verifier: verifier(t, cfg, provider), Routes: []Route{{Target: "billing"}}}
	for _, c := range change {
		c(s)
	}
	return s
}

// sign makes an authentic request of the source as text for the wire.
func (f *fixture) sign(t testing.TB, s *Source, r verify.SignRequest) message {
	t.Helper()
	r.Now = f.clock()
	if r.URL == "" {
		r.URL = "http://" + f.addr + "/in/" + s.Name
	}
	out, err := s.Verifier.Sign(r)
	if err != nil {
		t.Fatal(err)
	}
	m := message{method: out.Method, path: "/in/" + s.Name, body: string(out.Body)}
	for name, values := range out.Header {
		for _, v := range values {
			m.lines = append(m.lines, name+": "+v)
		}
	}
	return m
}

// message is a request written to the wire by hand, so that nothing is
// corrected on the way.
type message struct {
	method, path string
	lines        []string
	body         string
	bare         bool // without Host and Content-Length
}

func (m message) with(lines ...string) message {
	m.lines = append(m.lines[:len(m.lines):len(m.lines)], lines...)
	return m
}

// without drops every header line of that name.
func (m message) without(name string) message {
	var kept []string
	for _, l := range m.lines {
		if !strings.HasPrefix(strings.ToLower(l), strings.ToLower(name)+":") {
			kept = append(kept, l)
		}
	}
	m.lines = kept
	return m
}

// value is the first value of a header.
func (m message) value(name string) string {
	for _, l := range m.lines {
		if k, v, _ := strings.Cut(l, ":"); strings.EqualFold(k, name) {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func (m message) replace(name, value string) message {
	return m.without(name).with(name + ": " + value)
}

func (m message) head(host string) string {
	method := m.method
	if method == "" {
		method = "POST"
	}
	var b strings.Builder
	b.WriteString(method + " " + m.path + " HTTP/1.1\r\n")
	if !m.bare {
		b.WriteString("Host: " + host + "\r\nContent-Length: " + strconv.Itoa(len(m.body)) + "\r\n")
	}
	for _, l := range m.lines {
		b.WriteString(l + "\r\n")
	}
	return b.String() + "\r\n"
}

// reply is an answer with its body read.
type reply struct {
	status int
	header http.Header
	body   string
	closed bool // the connection ended with it
}

func (f *fixture) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// send writes the message on a connection of its own and reads the answer.
func (f *fixture) send(t testing.TB, m message) reply {
	t.Helper()
	return f.raw(t, m.head(f.addr)+m.body)
}

// raw writes text on a connection of its own and reads the first answer.
func (f *fixture) raw(t testing.TB, text string) reply {
	t.Helper()
	conn := f.dial(t)
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		// A server that answers early takes no more: the answer counts.
		_, _ = io.WriteString(conn, text)
	}()
	defer func() {
		conn.Close()
		<-wrote
	}()
	method, _, _ := strings.Cut(text, " ")
	got, err := readReply(bufio.NewReader(conn), method)
	if err != nil {
		t.Fatalf("read answer to %.60q: %v", text, err)
	}
	return got
}

func readReply(br *bufio.Reader, method string) (reply, error) {
	res, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{}, err
	}
	return reply{status: res.StatusCode, header: res.Header, body: string(body), closed: res.Close}, nil
}

// want fails unless the reply has that status.
func (got reply) want(t testing.TB, status int) reply {
	t.Helper()
	if got.status != status {
		t.Fatalf("got %d %s, want %d", got.status, got.body, status)
	}
	return got
}

// admitFunc is an Admitter made of a function.
type admitFunc func(context.Context, *dedupe.Request) error

func (f admitFunc) Accept(ctx context.Context, r *dedupe.Request) error { return f(ctx, r) }

func jsonBody(id string) string { return fmt.Sprintf(`{"id":%q,"type":"invoice.paid","n":1}`, id) }
