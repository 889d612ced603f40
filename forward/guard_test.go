package forward

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/onceward/onceward/event"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	refusedAddrs := []string{
		// unspecified
		"0.0.0.0", "0.0.0.1", "0.255.255.255", "::", "::ffff:0.0.0.0", "64:ff9b::0.0.0.0",
		// link-local and the metadata services on it
		"169.254.169.254", "169.254.0.1", "169.254.170.2", "169.254.170.23", "169.254.255.255", "fe80::1", "fe80::1%eth0", "febf::1",
		"fe80::a9fe:a9fe",
		// the same in other spellings
		"::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "0:0:0:0:0:ffff:a9fe:a9fe", "::169.254.169.254", "::a9fe:a9fe",
		"::ffff:0:169.254.169.254", "::ffff:0:a9fe:a9fe",
		// 6to4
		"2002:a9fe:a9fe::", "2002:a9fe:a9fe::1", "2002:a9fe:a9fe:1::5", "2002:0:1::", "2002:e000:1::", "2002:ffff:ffff::",
		// NAT64, well-known and local, at each place of the address
		"64:ff9b::169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b::224.0.0.1", "64:ff9b::255.255.255.255", "64:ff9b::100.100.100.200",
		"64:ff9b:1::169.254.169.254", "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:a9:fe:a9fe::", "64:ff9b:1::a9:fea9:fe00:0",
		// Teredo: server, and client with its bits turned
		"2001:0:a9fe:a9fe::", "2001:0:4136:e378:8000:63bf:5601:5601",
		// ISATAP
		"2001:db8::5efe:169.254.169.254", "2001:db8::200:5efe:169.254.169.254", "fd00::5efe:a9fe:a9fe", "2001:db8:1:2:300:5efe:a9fe:a9fe",
		// other metadata services
		"100.100.100.200", "::ffff:100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254",
		// multicast, broadcast, reserved, site-local
		"224.0.0.1", "239.255.255.250", "::ffff:224.0.0.1", "255.255.255.255", "240.0.0.1", "ff02::1", "ff05::2", "ff0e::1", "fec0::1",
		"::ffff:255.255.255.255",
	}
	if len(refusedAddrs) < 60 {
		t.Fatalf("%d spellings, want at least 60", len(refusedAddrs))
	}
	for _, s := range refusedAddrs {
		if err := (guard{}).check(netip.MustParseAddr(s)); !errors.Is(err, ErrBlocked) {
			t.Errorf("%s: %v, want refused", s, err)
		}
		all := guard{allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}
		if err := all.check(netip.MustParseAddr(s)); !errors.Is(err, ErrBlocked) {
			t.Errorf("%s with everything allowed: %v, want refused", s, err)
		}
	}
	for _, s := range []string{
		"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd12:3456::1", "fc00::1",
		"8.8.8.8", "2606:4700::1111", "169.253.255.255", "169.255.0.0", "223.255.255.255", "1.0.0.0", "64:ff9b::10.0.0.1", "64:ff9b:1::10.0.0.1",
		"2002:0a00:1::1", "fd00:ec3::254", "100.100.100.201", "2001:db8::5efe:10.0.0.1",
	} {
		if err := (guard{}).check(netip.MustParseAddr(s)); err != nil {
			t.Errorf("%s: %v, want allowed", s, err)
		}
	}
	if err := (guard{}).check(netip.Addr{}); !errors.Is(err, ErrBlocked) {
		t.Errorf("no address: %v, want refused", err)
	}
}

func TestGuardAllowList(t *testing.T) {
	t.Parallel()
	g := guard{allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32")}}
	for addr, ok := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "fd00:1::5": true, "fd00:1::5%eth0": true,
		"10.2.0.1": false, "127.0.0.1": false, "::1": false, "8.8.8.8": false, "fd00:2::5": false, "64:ff9b::10.1.2.3": false,
	} {
		if err := g.check(netip.MustParseAddr(addr)); (err == nil) != ok {
			t.Errorf("%s: %v, want allowed = %v", addr, err, ok)
		}
	}
}

func TestGuardControl(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{
		"127.0.0.1:80": true, "[::1]:443": true, "169.254.169.254:80": false, "[fe80::1%eth0]:80": false,
		"localhost:80": false, "": false, "2852039166:80": false, "0xa9fea9fe:80": false,
	} {
		if err := (guard{}).control(context.Background(), "tcp", address, nil); (err == nil) != ok {
			t.Errorf("%q: %v, want allowed = %v", address, err, ok)
		}
	}
}

// nameServer answers look-ups of any name on loopback: the n-th query for an
// IPv4 address gets answers(n), queries for IPv6 get none.
func nameServer(t *testing.T, answers func(n int64) []netip.Addr) *net.Resolver {
	t.Helper()
	var n atomic.Int64
	return answering(t, func(q dnsmessage.Type) []netip.Addr {
		if q != dnsmessage.TypeA {
			return nil
		}
		return answers(n.Add(1))
	})
}

// answering answers look-ups of any name on loopback, by their type.
func answering(t *testing.T, answers func(dnsmessage.Type) []netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var msg dnsmessage.Message
			if msg.Unpack(buf[:size]) != nil || len(msg.Questions) != 1 {
				continue
			}
			q := msg.Questions[0]
			out := dnsmessage.Message{Header: dnsmessage.Header{ID: msg.ID, Response: true, Authoritative: true}, Questions: msg.Questions}
			for _, a := range answers(q.Type) {
				body := dnsmessage.ResourceBody(&dnsmessage.AAAAResource{AAAA: a.As16()})
				if q.Type == dnsmessage.TypeA {
					body = &dnsmessage.AResource{A: a.As4()}
				}
				out.Answers = append(out.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type}, Body: body,
				})
			}
			if raw, err := out.Pack(); err == nil {
				_, _ = conn.WriteTo(raw, from)
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp4", conn.LocalAddr().String())
	}}
}

// A name that answers with a good address first and a metadata address later
// is refused on the address that is connected to, and the delivery waits: the
// fault may be mended.
func TestGuardRebinding(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		w.Header().Set("Connection", "close")
	}))
	defer srv.Close()
	port := mustURL(t, srv.URL).Port()
	good, bad := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("169.254.169.254")
	var evil atomic.Bool
	r := newRig(t, func(c *Config) {
		c.Resolver = nameServer(t, func(int64) []netip.Addr {
			if evil.Load() {
				return []netip.Addr{bad}
			}
			return []netip.Addr{good}
		})
	})
	r.run(Target{Name: "a", URL: mustURL(t, "http://rebind.test.:"+port+"/"), Schedule: fast, Concurrency: 1})
	first := r.admit(event.Event{Targets: []string{"a"}}, "one")
	r.closed(first, "a")
	if got := r.delivery(first, "a").State; got != event.Delivered {
		t.Fatalf("before rebinding: %v, want delivered: %+v", got, r.attempts(first))
	}
	evil.Store(true)
	second := r.admit(event.Event{Targets: []string{"a"}}, "two")
	await(t, "two refused attempts", func() bool { return len(r.attempts(second)) >= 2 })
	for _, a := range r.attempts(second) {
		if a.Outcome != event.OutcomeBlocked || a.State != event.Pending {
			t.Errorf("attempt = %s, %v (%s), want blocked and pending", a.Outcome, a.State, a.Error)
		}
	}
	evil.Store(false)
	r.closed(second, "a")
	if got, want := hits.Load(), int64(2); got != want {
		t.Errorf("target saw %d requests, want %d", got, want)
	}
}

// Hosts that are addresses in the spellings that URL parsers and resolvers
// disagree on reach no listener.
func TestGuardSpellings(t *testing.T) {
	t.Parallel()
	for i, host := range []string{
		"169.254.169.254", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "0.0.0.0", "[::]", "0", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376",
		"169.254.43518", "[fe80::1]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "255.255.255.255",
	} {
		t.Run(strconv.Itoa(i)+" "+host, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(c *Config) { c.Resolver = nameServer(t, func(int64) []netip.Addr { return nil }) })
			r.run(Target{Name: "a", URL: mustURL(t, "http://"+host+":1/"), Schedule: Schedule{Initial: 1 << 40, Max: 1 << 40}})
			ref := r.admit(event.Event{Targets: []string{"a"}}, "x")
			await(t, "an attempt", func() bool { return len(r.attempts(ref)) > 0 })
			switch a := r.attempts(ref)[0]; a.Outcome {
			case event.OutcomeBlocked, event.OutcomeDNSError:
			default:
				t.Errorf("outcome = %s (%s), want blocked, or no such host", a.Outcome, a.Error)
			}
		})
	}
}
