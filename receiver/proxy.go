package receiver

import (
	"net/netip"
	"strings"
)

// peer is the address at the other end of the connection.
func (c *call) peer() netip.Addr { return addrOf(c.req.RemoteAddr) }

func addrOf(hostport string) netip.Addr {
	if ap, err := netip.ParseAddrPort(hostport); err == nil {
		return ap.Addr().Unmap()
	}
	a, err := netip.ParseAddr(hostport)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap()
}

func (g *generation) trusts(a netip.Addr) bool {
	if !a.IsValid() {
		return false
	}
	for _, p := range g.trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// peerIsLocal reports whether the request comes from this machine itself and
// not through a proxy on it.
func (c *call) peerIsLocal() bool {
	a := c.peer()
	return a.IsLoopback() && !c.gen.trusts(a)
}

// clientAddr is the peer, or behind trusted proxies the right-most address of
// X-Forwarded-For that is no trusted proxy. What stands left of it was
// written by the sender and is never looked at.
func (g *generation) clientAddr(remote string, forwarded []string) netip.Addr {
	addr := addrOf(remote)
	if !g.trusts(addr) {
		return addr
	}
	for i := len(forwarded) - 1; i >= 0; i-- {
		rest := forwarded[i]
		for rest != "" {
			var last string
			if j := strings.LastIndexByte(rest, ','); j >= 0 {
				rest, last = rest[:j], rest[j+1:]
			} else {
				rest, last = "", rest
			}
			next := addrOf(strings.TrimSpace(last))
			if !next.IsValid() {
				return addr
			}
			if addr = next; !g.trusts(addr) {
				return addr
			}
		}
	}
	return addr
}

// publicURL is the URL the provider called: the configured one, else what a
// trusted proxy says it was asked for, else what this request says. Path and
// query are as they came, also behind a configured origin or a trailing
// slash.
func (c *call) publicURL() string {
	req := c.req
	called := req.RequestURI
	if called == "" || called[0] != '/' {
		called = req.URL.RequestURI()
	}
	if base := c.src.src.PublicURL; base != "" {
		return joinPublic(base, called)
	}
	scheme, host := "http", req.Host
	if req.TLS != nil {
		scheme = "https"
	}
	if len(c.gen.trusted) > 0 && c.gen.trusts(c.peer()) {
		if s := rightmost(req.Header["X-Forwarded-Proto"]); strings.EqualFold(s, "https") || strings.EqualFold(s, "http") {
			scheme = strings.ToLower(s)
		}
		if h := rightmost(req.Header["X-Forwarded-Host"]); h != "" {
			host = h
		}
	}
	return scheme + "://" + host + called
}

// joinPublic puts what was called behind the configured URL: path and query
// behind an origin, a trailing slash and the query behind a URL with a path.
func joinPublic(base, called string) string {
	path, query, hasQuery := strings.Cut(called, "?")
	_, rest, _ := strings.Cut(base, "://")
	switch i := strings.IndexByte(rest, '/'); {
	case i < 0:
		base += path
	case i == len(rest)-1:
		base = base[:len(base)-1] + path
	case strings.HasSuffix(path, "/") && !strings.HasSuffix(base, "/"):
		base += "/"
	}
	if hasQuery {
		base += "?" + query
	}
	return base
}

// rightmost is the last value of a list header: the one the nearest proxy
// wrote.
func rightmost(values []string) string {
	if len(values) == 0 {
		return ""
	}
	v := values[len(values)-1]
	return strings.TrimSpace(v[strings.LastIndexByte(v, ',')+1:])
}
