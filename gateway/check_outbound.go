package gateway

import (
	"errors"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/onceward/onceward/forward"
)

const asCloudEvents = "cloudevents"

// outbound checks how a target is reached and what it is sent.
func (c *checker) outbound(t *TargetConfig, n *node) {
	c.auth(t, n)
	c.proxy(t, n)
	c.clientTLS(t, n)
	if n.get("as") != nil {
		c.oneOf(n.get("as"), "as", t.As, asCloudEvents)
	}
	if n.get("method") != nil {
		c.oneOf(n.get("method"), "method", t.Method, forward.Methods()...)
	}
	for _, l := range []struct {
		key  string
		list []string
	}{{"headers_allow", t.HeadersAllow}, {"headers_deny", t.HeadersDeny}} {
		for i, p := range l.list {
			if err := forward.CheckHeaderPattern(p); err != nil {
				c.rep.at(n.get(l.key).item(i), err.Error(), "remove it")
			}
		}
	}
	if t.As == asCloudEvents {
		for name := range t.Headers {
			if strings.HasPrefix(strings.ToLower(name), "ce-") {
				c.rep.at(n.get("headers", name), "this header is an attribute of CloudEvents, set by the gateway", "remove it")
			}
		}
	}
}

// auth checks the credential of a target.
func (c *checker) auth(t *TargetConfig, n *node) {
	at := n.get("auth")
	if at == nil || at.bad {
		return
	}
	a := &t.Auth
	bearer, user, password := at.get("bearer"), at.get("user"), at.get("password")
	switch {
	case bearer != nil && (user != nil || password != nil):
		c.rep.at(at, "auth holds a bearer token and a user", "an attempt has one credential; remove one of them")
	case bearer == nil && user == nil:
		c.rep.at(at, "auth says neither who nor what", `write { bearer = "${env:TOKEN}" } or { user = "…", password = "${env:PASSWORD}" }`)
	case user != nil && (a.User == "" || strings.Contains(a.User, ":")):
		c.rep.at(user, "the user is empty or holds a colon", "Basic authentication can't carry that")
	case user != nil && password == nil:
		c.rep.at(at, "auth has a user and no password", `write password = "${env:PASSWORD}"`)
	}
	c.credential(bearer, a.Bearer)
	c.credential(password, a.Password)
	for name := range t.Headers {
		if strings.EqualFold(name, "Authorization") {
			c.rep.at(n.get("headers", name), "auth sets this header as well", "remove one of them")
		}
	}
	if u, err := url.Parse(t.URL); err == nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		c.rep.warn(at, "the credential crosses the network unencrypted", "use https")
	}
}

// credential checks one value that stands in a header.
func (c *checker) credential(at *node, s SecretConfig) {
	if at == nil || s.unset {
		return
	}
	if v := at.get("value"); v != nil {
		at = v
	}
	if c.secret(at, s.Value, true) && !httpguts.ValidHeaderFieldValue(s.Value.Reveal()) {
		c.rep.at(at, "the value holds a control character", "a header is one line")
	}
}

// proxy checks the proxy of a target. Through one the name of the target is
// looked up by the proxy, so what stands there has to be what it seems.
func (c *checker) proxy(t *TargetConfig, n *node) {
	at := n.get("proxy")
	if at == nil || len(at.unset) > 0 {
		return
	}
	p, err := url.Parse(t.Proxy)
	switch {
	case err != nil || p.Scheme != "http" && p.Scheme != "https" || p.Hostname() == "" || p.Opaque != "" ||
		strings.Trim(p.Path, "/") != "" || p.RawQuery != "" || p.Fragment != "":
		c.rep.at(at, "the proxy is not usable", `want one such as "http://proxy.internal:3128"`)
	case forbidden(p.Hostname()):
		c.rep.at(at, "the proxy is at a link-local, metadata, multicast or unspecified address", "these are never called")
	case strings.HasPrefix(t.URL, unixScheme):
		c.rep.at(at, "a unix socket is not reached through a proxy", "remove it")
		return
	}
	if u, err := url.Parse(t.URL); err == nil && oddHost(u.Hostname()) {
		c.rep.at(n.or("url"), "the host is a number in a spelling that proxies may take for an address", "write the address as usual")
	}
	if len(t.Allow) > 0 {
		c.rep.warn(n.or("allow"), "allow judges the proxy's address, not the target's", "the proxy looks the target's name up")
	}
}

// oddHost reports names that some resolvers take for an address: those whose
// last part is a number.
func oddHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last == "" || strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == ""
}

// unixURL checks a target behind a unix socket.
func (c *checker) unixURL(t *TargetConfig, n *node) {
	at := n.or("url")
	socket, _, err := splitUnix(t.URL)
	if err != nil {
		c.rep.at(at, "the url is not that of a unix socket", `want "unix:/run/app.sock", or "unix:/run/app.sock:/path"`)
		return
	}
	t.socket = c.cfg.path(socket)
	if len(t.socket) > 107 {
		c.rep.at(at, "the path of the socket is longer than 107 bytes", "the system takes no longer ones")
	}
	if info, err := os.Stat(t.socket); err == nil && info.Mode()&fs.ModeSocket == 0 {
		c.rep.at(at, "the url names a file that is no socket", "name the socket that the service listens on")
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.rep.warn(at, "the socket can't be looked at: "+cause(err), "the gateway needs the right to connect to it")
	}
	for _, key := range []string{"tls", "allow"} {
		if v := n.get(key); v != nil {
			c.rep.at(v, key+" means nothing to a unix socket", "remove it")
		}
	}
}
