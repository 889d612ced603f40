package gateway

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/onceward/onceward/forward"
)

// targets checks every target.
func (c *checker) targets() {
	seen, claimed, used := map[string]*node{}, map[string]*node{}, map[string]bool{}
	pullers := map[string]string{}
	for i := range c.cfg.Targets {
		c.name(c.cfg.tree.get("target").item(i), "target", c.cfg.Targets[i].Name, seen)
	}
	for i := range c.cfg.Sources {
		for _, name := range c.cfg.Sources[i].targetNames() {
			used[name] = true
		}
	}
	for i := range c.cfg.Targets {
		t, n := &c.cfg.Targets[i], c.cfg.tree.get("target").item(i)
		c.formerly(n, "target", t.Formerly, seen, claimed)
		c.targetSchedule(t, n)
		c.targetOrder(t, n)
		c.pulled(t, n, pullers)
		if !t.Pull {
			c.targetURL(t, n)
			c.targetHeaders(t, n)
			c.signing(t, n.get("signing_secrets"))
			c.outbound(t, n)
			c.idempotent(t, n)
		}
		if t.Name != "" && !used[t.Name] {
			c.rep.warn(n.or("name"), "no source sends to target "+strconv.Quote(t.Name), "name it in the targets of a source, or remove it")
		}
	}
}

// signing checks the secrets a target's attempts are signed with.
func (c *checker) signing(t *TargetConfig, n *node) {
	c.secrets(t.SigningSecrets, n, true)
	for i, s := range t.SigningSecrets {
		if _, err := forward.ParseSigningSecret(s.Value.Reveal()); err != nil && !s.unset {
			c.rep.at(n.item(i), err.Error(), `want one as Standard Webhooks writes it: "whsec_" and base64`)
		}
	}
}

// metadataHosts name cloud metadata services, which are never called.
var metadataHosts = []string{"metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal"}

// targetURL checks the URL; it is never shown, since a path can be a
// credential.
func (c *checker) targetURL(t *TargetConfig, n *node) {
	at := n.or("url")
	if strings.HasPrefix(t.URL, unixScheme) {
		c.unixURL(t, n)
		return
	}
	u, err := url.Parse(t.URL)
	switch {
	case t.URL == "":
		if n.get("url") == nil {
			c.rep.at(at, "this target has no url", `write url = "http://127.0.0.1:9000/"`)
		} else if len(at.unset) == 0 {
			c.rep.at(at, "the url is empty", `write url = "http://127.0.0.1:9000/"`)
		}
	case err != nil || u.Opaque != "":
		c.rep.at(at, "the url can't be parsed", `want one such as "http://127.0.0.1:9000/hooks"`)
	case u.Scheme != "http" && u.Scheme != "https":
		c.rep.at(at, "the url is neither http nor https", `want one such as "http://127.0.0.1:9000/hooks"`)
	case u.Hostname() == "":
		c.rep.at(at, "the url has no host", `want one such as "http://127.0.0.1:9000/hooks"`)
	case u.User != nil:
		c.rep.at(at, "the url holds a user or password", "put them into headers, from a reference")
	case u.Fragment != "" || strings.Contains(t.URL, "#"):
		c.rep.at(at, "the url has a fragment, which is never sent", "remove it")
	case forbidden(u.Hostname()):
		c.rep.at(at, "the url leads to a link-local, metadata, multicast or unspecified address", "these are never called")
	case c.ownListener(u):
		c.rep.at(at, "the url leads back to this gateway", "events would go in circles")
	}
}

// forbidden reports hosts that the forwarder's dialer refuses in any case,
// where the name alone shows it.
func forbidden(host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return slices.Contains(metadataHosts, strings.ToLower(strings.TrimSuffix(host, ".")))
	}
	ip = ip.Unmap()
	return ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || ip == netip.MustParseAddr("fd00:ec2::254") ||
		ip.Is4() && (ip.As4()[0] == 0 || ip.As4() == [4]byte{255, 255, 255, 255})
}

// ownListener reports a URL that is one of our two sockets.
func (c *checker) ownListener(u *url.URL) bool {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	for _, listen := range []string{c.cfg.Listen, c.cfg.Admin.Listen} {
		i := strings.LastIndexByte(listen, ':')
		if i < 0 {
			continue
		}
		own := address{strings.Trim(listen[:i], "[]"), listen[i+1:]}
		if loopback(u.Hostname()) && sameSocket(own, address{u.Hostname(), port}) {
			return true
		}
	}
	return false
}

// targetHeaders refuses names that are ours or belong to the connection.
func (c *checker) targetHeaders(t *TargetConfig, n *node) {
	for name, value := range t.Headers {
		at := n.get("headers", name)
		lower := strings.ToLower(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name) || strings.Contains(name, "_"):
			c.rep.at(at, "is not a header name", "want letters, digits and -")
		case strings.HasPrefix(lower, "onceward-") || strings.HasPrefix(lower, "webhook-") || slices.Contains(ownHeaders, lower):
			c.rep.at(at, "this header is set by the gateway", "remove it")
		case !httpguts.ValidHeaderFieldValue(value.Value.Reveal()):
			c.rep.at(at, "the value holds a control character", "a header is one line")
		case !at.expanded && referenceLike.MatchString(value.Value.Reveal()):
			c.rep.at(at, "the value looks like a reference but would be sent as it stands", "write ${env:NAME} or ${file:path}")
		}
	}
}

var ownHeaders = []string{"idempotency-key", "traceparent", "host", "connection", "content-length", "transfer-encoding",
	"te", "trailer", "upgrade", "keep-alive", "proxy-connection", "cookie", "expect"}
