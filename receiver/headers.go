package receiver

import (
	"net/http"
	"slices"
	"strings"

	"github.com/onceward/onceward/event"
)

// contentHeaders describe the bytes and pass for every provider.
var contentHeaders = []string{"Content-Type", "Content-Encoding", "Content-Language", "User-Agent"}

// neverPass are headers that carry credentials or belong to the connection,
// whatever a row says. Read-only.
var neverPass = map[string]bool{
	"Authorization": true, "Proxy-Authorization": true, "Proxy-Authenticate": true, "Cookie": true, "Set-Cookie": true,
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "Host": true, "Content-Length": true, "Expect": true,
}

// shownHeaders are those whose values a refusal shows as well.
var shownHeaders = []string{"Accept", "Content-Length", "Date", "Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host",
	"X-Forwarded-Proto", "X-Request-Id"}

// compileHeaders prepares the list of headers that pass and that may be shown.
func (c *compiled) compileHeaders() {
	secret := map[string]bool{}
	for _, name := range c.row.CredentialHeaders {
		secret[http.CanonicalHeaderKey(name)] = true
	}
	c.show = map[string]bool{}
	takes := func(name string) bool { return !secret[name] && !neverPass[name] && !strings.Contains(name, "_") }
	for _, list := range [][]string{contentHeaders, c.row.EventHeaders, c.row.SignatureHeaders} {
		for _, name := range list {
			if name = http.CanonicalHeaderKey(name); takes(name) && !slices.Contains(c.pass, name) {
				c.pass = append(c.pass, name)
			}
		}
	}
	slices.Sort(c.pass)
	for _, list := range [][]string{contentHeaders, c.row.EventHeaders, shownHeaders} {
		for _, name := range list {
			name = http.CanonicalHeaderKey(name)
			c.show[name] = !secret[name] && !neverPass[name] || name == "Content-Length"
		}
	}
	for _, name := range c.row.SignatureHeaders {
		delete(c.show, http.CanonicalHeaderKey(name))
	}
	c.keepBody = true
	for _, loc := range c.row.CredentialParams {
		if !strings.HasPrefix(loc, "query:") {
			c.keepBody = false
		}
	}
}

// maxFields bounds the header lines kept of one request.
const maxFields = 100

// passing is the sender's headers that targets may see, sorted by name, with
// their values as they came. What the sender's Connection header names
// belongs to the connection and does not pass.
func (c *call) passing() []event.Field {
	h := c.req.Header
	out := make([]event.Field, 0, 8)
	for _, name := range c.src.pass {
		values := h[name]
		if len(values) == 0 || namedByConnection(h["Connection"], name) {
			continue
		}
		for _, v := range values {
			if len(out) == maxFields {
				return out
			}
			out = append(out, event.Field{Name: name, Value: v})
		}
	}
	return out
}

func namedByConnection(values []string, name string) bool {
	for _, v := range values {
		for token := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(token), name) {
				return true
			}
		}
	}
	return false
}
