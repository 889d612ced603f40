package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// errNotPublic is why a provider's host was not called.
var errNotPublic = errors.New("is not a public address")

// special are the parts of the public ranges that lead elsewhere or nowhere:
// what is reserved, private or shared, and addresses in which another address
// is hidden that a translator would connect to.
var special = mustPrefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

// global is where public IPv6 addresses are.
var global = netip.MustParsePrefix("2000::/3")

func mustPrefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// public reports whether an address is one of the internet at large. Requests
// decide about such calls; none may reach what only the gateway reaches.
func public(a netip.Addr) bool {
	if a = a.Unmap(); !a.IsValid() || a.Zone() != "" || a.Is6() && !global.Contains(a) {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// publicTransport calls public addresses only, judged by the address that is
// connected to. It asks no proxy and keeps no connection.
func publicTransport() *http.Transport {
	d := &net.Dialer{Timeout: 3 * time.Second, Control: controlPublic}
	return &http.Transport{
		DialContext: d.DialContext, TLSHandshakeTimeout: 3 * time.Second, ForceAttemptHTTP2: true,
		DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10,
	}
}

func controlPublic(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial: %w", errNotPublic)
	}
	if !public(at.Addr()) {
		return fmt.Errorf("dial %s: %w", at.Addr(), errNotPublic)
	}
	return nil
}

// withoutURL is an error of an HTTP client without the URL, which may hold a
// token.
func withoutURL(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return ue.Err
	}
	return err
}
