package receiver

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"net/url"
	"strings"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

const headerIdempotency = "Idempotency-Key"

// maxSyncKey is the longest key, in characters.
const maxSyncKey = 255

// parseKey reads the Idempotency-Key of a request: raw, or one RFC 9651
// string, which is the same key. ok is false for what is neither: several
// values, in several lines or joined by a comma, none at all, or characters
// that are not visible ASCII. present says that there was a header.
func parseKey(values []string) (key string, present, ok bool) {
	switch len(values) {
	case 0:
		return "", false, true
	case 1:
	default:
		return "", true, false
	}
	v := strings.Trim(values[0], " \t")
	if strings.HasPrefix(v, `"`) {
		if v, ok = unquote(v); !ok {
			return "", true, false
		}
		return v, true, validKey(v)
	}
	return v, true, validKey(v) && !strings.Contains(v, ",")
}

// unquote reads an RFC 9651 string without parameters.
func unquote(v string) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(v); i++ {
		switch c := v[i]; c {
		case '\\':
			if i++; i == len(v) || v[i] != '"' && v[i] != '\\' {
				return "", false
			}
			b.WriteByte(v[i])
		case '"':
			return b.String(), i == len(v)-1
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

func validKey(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return len(s) > 0 && len(s) <= maxSyncKey
}

// syncID is the key of a request that takes part: the header's on sources of
// one's own callers, else the provider's event ID. "" without a problem is
// that there is none.
func (c *call) syncID(res *verify.Result) (string, *answer) {
	if c.src.keyed {
		id, _, ok := parseKey(c.req.Header[headerIdempotency])
		if !ok {
			return "", &problemKeyInvalid
		}
		return id, nil
	}
	if len(res.Events) == 0 || res.Events[0].ID == "" {
		return "", nil
	}
	if id := res.Events[0].ID; validKey(id) {
		return id, nil
	}
	return "", &problemKeyInvalid
}

// claimOf is what the request claims.
func (c *call) claimOf(res *verify.Result, id string) *dedupe.KeyStep {
	src, s := c.src, c.src.sync
	caller := ""
	if src.keyed {
		caller = res.Caller
	}
	cl := &dedupe.KeyClaim{
		Source: src.name, Caller: caller, ID: id, Target: s.Target, Idempotent: s.Idempotent, Window: src.window,
		Downstream: src.src.Keys.Render(dedupe.KeyFacts{
			Source: src.name, Caller: caller, ID: id, HasCaller: src.keyed, BodyHash: event.HashOf(c.body),
		}),
		Print: c.print(),
	}
	for _, name := range src.src.Former {
		cl.Former = append(cl.Former, dedupe.KeyOf(dedupe.KindSync, name, caller, id))
	}
	return &dedupe.KeyStep{Kind: dedupe.StepClaim, Key: dedupe.KeyOf(dedupe.KindSync, src.name, caller, id), Claim: cl}
}

// print is the fingerprint of the request: method, path, query, content type
// and body, each with its length. Of a provider that changes its bytes between
// retries the body is left out. Header names are not part of it, and media
// types are compared without their case.
func (c *call) print() event.Hash {
	body := event.HashOf(c.body)
	if !c.src.keyed && !c.src.row.BodyStable {
		body = event.Hash{}
	}
	media, params, _ := strings.Cut(c.req.Header.Get("Content-Type"), ";")
	h := sha256.New()
	h.Write([]byte("onceward request 1\x00"))
	for _, s := range [...]string{c.req.Method, c.suffix, c.req.URL.RawQuery, strings.ToLower(strings.TrimSpace(media)), params, string(body[:])} {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	return event.Hash(h.Sum(nil))
}

// suffixOf is the raw path after the source's own. False for one that would
// lead out of the target's path, however it is written.
func suffixOf(u *url.URL, base string) (string, bool) {
	raw := strings.TrimPrefix(u.EscapedPath(), base)
	plain, err := url.PathUnescape(raw)
	if err != nil {
		return "", false
	}
	for _, seg := range strings.FieldsFunc(plain, func(r rune) bool { return r == '/' || r == '\\' }) {
		if name, _, _ := strings.Cut(seg, ";"); name == "." || name == ".." {
			return "", false
		}
	}
	return raw, !strings.ContainsFunc(plain, func(r rune) bool { return r < 0x20 || r == 0x7f })
}

// upgrades reports a request for another protocol.
func upgrades(req *http.Request) bool {
	return len(req.Header["Upgrade"]) > 0 || namedByConnection(req.Header["Connection"], "Upgrade")
}

// wantsStream reports a request that takes nothing but a stream of events.
func wantsStream(req *http.Request) bool {
	accept := req.Header["Accept"]
	return len(accept) == 1 && isEventStream(accept[0]) && !strings.Contains(accept[0], ",")
}

func isEventStream(media string) bool {
	media, _, _ = strings.Cut(media, ";")
	return strings.EqualFold(strings.TrimSpace(media), "text/event-stream")
}
