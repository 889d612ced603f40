package forward

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/trace"
)

// TestType is the type of the event that Forwarder.Test sends.
const TestType = "onceward.test"

// testSource is its source, which no configured one is told from by name alone:
// the mark is Onceward-Test.
const testSource = "onceward"

// Probe is what one test request found, step by step. A step that was not
// reached, or not needed, is zero. Of several connections that were tried at
// once the times are those of the last.
type Probe struct {
	Target string
	Site   string // scheme and host, or the socket
	Proxy  string // host of the proxy, "" without
	Key    string // idempotency key that was sent
	Method string
	Signed bool
	At     time.Time

	Host      string   // that was looked up
	Addresses []string // that it has
	DNS       time.Duration
	Address   string // that was connected to
	Connect   time.Duration
	TLS       *ProbeTLS // nil without, or when it failed
	FirstByte time.Duration
	Total     time.Duration // up to the end of the answer

	Status  int // 0 when no answer came
	Proto   string
	Outcome event.Outcome
	Error   string // "" when answered
	Head    []byte // of the answer, at most 4 KiB, as the account keeps it
}

// ProbeTLS is what a handshake agreed on.
type ProbeTLS struct {
	Duration time.Duration
	Version  string
	Protocol string // "h2" or "http/1.1", "" when none was agreed on
	Subject  string // of the target's certificate
	Issuer   string
	NotAfter time.Time
}

// Test sends one request to a target, beside the ledger: nothing of it is
// stored, retried or counted, and neither a pause nor a breaker keeps it back.
// It is built, signed and guarded as an attempt is, on a connection of its
// own, carries an event of type TestType and is marked with Onceward-Test. A
// name that is no target is dedupe.ErrNotFound; what goes wrong on the way is
// in the Probe.
func (f *Forwarder) Test(ctx context.Context, name string) (Probe, error) {
	f.mu.Lock()
	t := f.targets[name]
	f.mu.Unlock()
	if t == nil {
		return Probe{}, fmt.Errorf("target %q: %w", name, dedupe.ErrNotFound)
	}
	if t.Pull {
		return Probe{}, fmt.Errorf("target %q can't be tested: its service fetches deliveries, nobody calls it", name)
	}
	now := f.cfg.Now()
	in := testEventFor(t, now)
	p := Probe{Target: name, Site: t.Site(), Key: in.Event.Key, Signed: len(t.Signing) > 0, At: now}
	if t.Way.Proxy != nil {
		p.Proxy = t.Way.Proxy.Host
	}
	ctx, stop := context.WithTimeout(ctx, t.Timeout)
	defer stop()
	b := newBuilder(t, f.cfg.Version)
	b.std = true
	s := &steps{probe: &p}
	req := b.build(httptrace.WithClientTrace(ctx, s.trace()), event.Delivery{Event: in.Event.Ref, Target: name}, in, now)
	p.Method = req.Method
	tr := newStandard(t, newDial(t, f.cfg.Dial, f.cfg.Resolver))
	defer tr.CloseIdleConnections()
	began := time.Now()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		outcome, text := classify(req.Context(), err)
		return s.end(began, outcome, text), nil
	}
	p.Status, p.Proto = resp.StatusCode, resp.Proto
	p.Head = newKeeper(b.hidden).keep(resp)
	return s.end(began, outcomeOf(resp.StatusCode), ""), nil
}

// testEventFor is an event that no ledger holds.
func testEventFor(t *Target, now time.Time) dedupe.Loaded {
	var r [20]byte
	_, _ = rand.Read(r[:]) // never fails
	id := "test_" + hex.EncodeToString(r[:8])
	body, err := json.Marshal(map[string]string{"type": TestType, "id": id, "target": t.Name, "sent_at": now.UTC().Format(time.RFC3339Nano)})
	if err != nil {
		panic("forward: " + err.Error()) // strings always encode
	}
	ev := &event.Event{
		Ref:    event.NewRef(uint64(now.UnixMilli()), binary.BigEndian.Uint32(r[8:])>>12, binary.BigEndian.Uint64(r[12:])>>4),
		Source: testSource, Provider: testSource, ID: id, Type: TestType, Key: testSource + ":" + id, ReceivedAt: now,
		Method: http.MethodPost, Header: []event.Field{{Name: "Content-Type", Value: "application/json"}},
		BodyHash: event.HashOf(body), Body: event.Slice{Length: int64(len(body))}, Flags: event.FlagTest,
		Trace: trace.NewRoot(true).String(),
	}
	return dedupe.Loaded{Event: ev, Body: body}
}

// steps times the way of one request. The transport may call it from several
// goroutines, and after the request has ended.
type steps struct {
	mu                  sync.Mutex // guards all below
	probe               *Probe     // nil once ended
	dns, dial, tls, out time.Time
}

// on runs f while the request is under way.
func (s *steps) on(f func(p *Probe)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.probe != nil {
		f(s.probe)
	}
}

func (s *steps) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn:  func(string) { s.on(func(*Probe) { s.out = time.Now() }) },
		DNSStart: func(i httptrace.DNSStartInfo) { s.on(func(p *Probe) { s.dns, p.Host = time.Now(), i.Host }) },
		DNSDone: func(i httptrace.DNSDoneInfo) {
			s.on(func(p *Probe) {
				p.DNS = time.Since(s.dns)
				for _, a := range i.Addrs {
					p.Addresses = append(p.Addresses, a.String())
				}
			})
		},
		ConnectStart: func(_, _ string) { s.on(func(*Probe) { s.dial = time.Now() }) },
		ConnectDone: func(_, addr string, err error) {
			s.on(func(p *Probe) {
				if err == nil || p.Address == "" {
					p.Address, p.Connect = addr, time.Since(s.dial)
				}
			})
		},
		TLSHandshakeStart: func() { s.on(func(*Probe) { s.tls = time.Now() }) },
		TLSHandshakeDone: func(st tls.ConnectionState, err error) {
			s.on(func(p *Probe) {
				if err == nil {
					p.TLS = tlsOf(st, time.Since(s.tls))
				}
			})
		},
		WroteRequest:         func(httptrace.WroteRequestInfo) { s.on(func(*Probe) { s.out = time.Now() }) },
		GotFirstResponseByte: func() { s.on(func(p *Probe) { p.FirstByte = time.Since(s.out) }) },
	}
}

func tlsOf(st tls.ConnectionState, took time.Duration) *ProbeTLS {
	p := &ProbeTLS{Duration: took, Version: tls.VersionName(st.Version), Protocol: st.NegotiatedProtocol}
	if len(st.PeerCertificates) > 0 {
		leaf := st.PeerCertificates[0]
		p.Subject, p.Issuer, p.NotAfter = leaf.Subject.String(), leaf.Issuer.String(), leaf.NotAfter
		if p.Subject == "" && len(leaf.DNSNames) > 0 {
			p.Subject = leaf.DNSNames[0]
		}
	}
	return p
}

// end closes the account and hands it over.
func (s *steps) end(began time.Time, outcome event.Outcome, text string) Probe {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.probe
	s.probe = nil
	p.Total, p.Outcome, p.Error = time.Since(began), outcome, text
	out := *p
	out.Addresses = slices.Clone(p.Addresses)
	return out
}
