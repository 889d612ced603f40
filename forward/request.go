package forward

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// The header names that are the gateway's own.
const (
	headerKey        = "Idempotency-Key"
	headerEvent      = "Onceward-Event"
	headerSource     = "Onceward-Source"
	headerEventID    = "Onceward-Event-Id"
	headerType       = "Onceward-Event-Type"
	headerDelivery   = "Onceward-Delivery"
	headerAttempt    = "Onceward-Attempt"
	headerReceivedAt = "Onceward-Received-At"
	headerTest       = "Onceward-Test"
	headerTrace      = "Traceparent"
	headerAgent      = "User-Agent"

	headerWebhookID        = "Webhook-Id"
	headerWebhookTimestamp = "Webhook-Timestamp"
	headerWebhookSignature = "Webhook-Signature"

	ownHeaders = 10 // of them that most requests have; with a few of the sender's, a map of one group
)

// receivedLayout is RFC 3339 with all nine digits, so that texts sort as
// times do.
const receivedLayout = "2006-01-02T15:04:05.000000000Z"

// builder makes a target's requests. It is read-only and shared by the
// target's workers.
type builder struct {
	target *Target
	url    url.URL
	fixed  http.Header // the target's own headers; values are never changed
	agent  []string
	std    bool     // Go's transport carries it, not plain
	hidden [][]byte // what an answer that is kept must not hold
}

func newBuilder(t *Target, version string) *builder {
	b := &builder{
		target: t, url: *t.URL, fixed: make(http.Header, len(t.Headers)),
		agent: []string{"Onceward/" + version}, std: t.standard(), hidden: t.secrets(),
	}
	for name, value := range t.Headers {
		b.fixed[http.CanonicalHeaderKey(name)] = []string{string(value)}
	}
	return b
}

// headers is a header under construction, whose single values share one
// array.
type headers struct {
	h    http.Header
	vals []string
}

func (s *headers) set(key, value string) {
	s.vals = append(s.vals, value)
	n := len(s.vals)
	s.h[key] = s.vals[n-1 : n : n]
}

func (s *headers) add(key, value string) {
	if old, ok := s.h[key]; ok {
		s.h[key] = append(old, value)
		return
	}
	s.set(key, value)
}

// build makes the request of one attempt. Its context is ctx, or ends with it.
func (b *builder) build(ctx context.Context, d event.Delivery, in dedupe.Loaded, now time.Time) *http.Request {
	ev := in.Event
	s := headers{
		h:    make(http.Header, ownHeaders+len(ev.Header)+len(b.fixed)),
		vals: make([]string, 0, ownHeaders+len(ev.Header)),
	}
	s.pass(ev.Header, &b.target.Shape, len(b.target.Signing) > 0)
	if _, ok := s.h[headerAgent]; !ok {
		s.h[headerAgent] = b.agent
	}
	for key, vals := range b.fixed {
		s.h[key] = vals
	}
	s.own(d, ev, now)
	if b.target.Shape.CloudEvents {
		s.cloudEvent(ev)
	}
	if len(b.target.Signing) > 0 {
		id, ts := ev.Ref.String(), unixSeconds(now.Unix())
		s.set(headerWebhookID, id)
		s.set(headerWebhookTimestamp, ts)
		s.set(headerWebhookSignature, signatures(b.target.Signing, id, ts, in.Body))
	}
	u := b.url
	u.RawQuery = joinQuery(u.RawQuery, ev.Query)
	req := (&http.Request{
		Method: b.method(ev), URL: &u, Host: u.Host, Header: s.h,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	return b.once(req, in.Body)
}

// once gives req its body in a way that the transport can't send it twice.
// What follows is about Transport; plain sends nothing twice.
//
// Go's transport sends a request again when a kept-alive connection breaks if
// its method is safe or it has an Idempotency-Key, and in both cases only when
// it has no body or one that can be had again. A body that is a plain reader
// keeps it from that; NopCloser keeps head and body in one write.
//
// Of a plain reader the transport can't say that its length is 0: it would
// send an empty chunked body. Safe methods get one with an encoding that
// switches that off and adds no header. The others get no body, and the key's
// name is spelt in lower case, which is the same on the wire but not to the
// transport, which looks for its canonical form. Over HTTP/2 the transport may
// still send a stream again that the server refused, so there a second
// connection for the same attempt ends it.
func (b *builder) once(req *http.Request, body []byte) *http.Request {
	switch {
	case len(body) == 0 && !b.std:
		req.Body = http.NoBody // plain sends it once
	case len(body) > 0:
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.ContentLength = int64(len(body))
	case safe(req.Method):
		req.Body = io.NopCloser(bytes.NewReader(nil))
		req.TransferEncoding = identity
	default:
		req.Body = http.NoBody
		req.Header[strings.ToLower(headerKey)] = req.Header[headerKey]
		delete(req.Header, headerKey)
		return req.WithContext(onConnection(req.Context()))
	}
	return req
}

var identity = []string{"identity"}

// onConnection is ctx for one connection: asking for a second one ends it,
// before anything is written to that.
func onConnection(ctx context.Context) context.Context {
	conns := 0
	ctx, cancel := context.WithCancelCause(ctx)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if conns++; conns > 1 {
			cancel(errResend)
		}
	}})
}

// safe names the methods that the transport takes for safe to send again.
func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

func methodOf(ev *event.Event) string {
	if ev.Method == "" {
		return http.MethodPost
	}
	return ev.Method
}

// method is the shape's, or the event's own.
func (b *builder) method(ev *event.Event) string {
	if m := b.target.Shape.Method; m != "" {
		return m
	}
	return methodOf(ev)
}

// joinQuery joins the target's own query and the event's, bytes unchanged but
// for those that no request line can hold.
func joinQuery(own, raw string) string {
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '#' }) {
		raw = encode(raw, func(c byte) bool { return c > ' ' && c != 0x7f && c != '#' })
	}
	if own == "" || raw == "" {
		return own + raw
	}
	return own + "&" + raw
}

// own sets the gateway's headers over everything else.
func (s *headers) own(d event.Delivery, ev *event.Event, now time.Time) {
	id := d.DeliveryID()
	s.set(headerKey, visible(d.Key(ev)))
	s.set(headerEvent, ev.Ref.String())
	s.set(headerSource, visible(ev.Source))
	if ev.ID != "" {
		s.set(headerEventID, percent(ev.ID))
	}
	if ev.Type != "" {
		s.set(headerType, percent(ev.Type))
	}
	s.set(headerDelivery, visible(id))
	s.set(headerAttempt, strconv.FormatUint(uint64(d.Attempts)+1, 10))
	s.set(headerReceivedAt, ev.ReceivedAt.UTC().Format(receivedLayout))
	if ctx, _, ok := attemptContext(ev, id, now.UnixNano()); ok {
		s.set(headerTrace, ctx.String())
	}
	if ev.Flags.Has(event.FlagTest) {
		s.set(headerTest, "true")
	}
}

// pass adds the stored headers of the sender that may go on. signed says that
// the gateway signs, so that the sender's webhook-* headers stay behind.
func (s *headers) pass(fields []event.Field, shape *Shape, signed bool) {
	for i := range fields {
		name, value := fields[i].Name, fields[i].Value
		if !httpguts.ValidHeaderFieldName(name) || strings.IndexByte(name, '_') >= 0 || !httpguts.ValidHeaderFieldValue(value) {
			continue
		}
		key := http.CanonicalHeaderKey(name)
		if reserved(key) || senderOnly(key) || !shape.passes(key) || signed && webhookHeader(key) || named(fields, key) {
			continue
		}
		s.add(key, value)
	}
}

// reserved names the headers that neither a sender nor a target's own headers
// may set: the gateway's, those of one hop, and those that belong to the
// request the sender made.
func reserved(key string) bool {
	switch key {
	case headerKey, "X-Idempotency-Key", headerTrace, "Tracestate", "Baggage",
		"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te",
		"Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings", "Expect",
		"Host", "Content-Length", "Accept-Encoding", "Cookie", "Cookie2", "Set-Cookie":
		return true
	}
	return strings.HasPrefix(key, "Onceward-")
}

func webhookHeader(key string) bool { return strings.HasPrefix(key, "Webhook-") }

// named reports whether a stored Connection header names key as one of its
// hop.
func named(fields []event.Field, key string) bool {
	for i := range fields {
		if !strings.EqualFold(fields[i].Name, "Connection") {
			continue
		}
		for token := range strings.SplitSeq(fields[i].Value, ",") {
			if strings.EqualFold(strings.TrimSpace(token), key) {
				return true
			}
		}
	}
	return false
}

// visible is s if all of it is visible ASCII, else s with the rest
// percent-encoded: no value can hold a line break.
func visible(s string) string {
	return encode(s, func(c byte) bool { return c > ' ' && c < 0x7f })
}

// percent is s with everything but visible ASCII, and the percent sign
// itself, percent-encoded: s can be had back, whatever it held.
func percent(s string) string {
	return encode(s, func(c byte) bool { return c > ' ' && c < 0x7f && c != '%' })
}

// encode percent-encodes the bytes of s that keep does not allow.
func encode(s string, keep func(byte) bool) string {
	i := 0
	for i < len(s) && keep(s[i]) {
		i++
	}
	if i == len(s) {
		return s
	}
	const hex = "0123456789ABCDEF"
	out := make([]byte, i, len(s)+16)
	copy(out, s)
	for ; i < len(s); i++ {
		if c := s[i]; keep(c) {
			out = append(out, c)
		} else {
			out = append(out, '%', hex[c>>4], hex[c&0xf])
		}
	}
	return string(out)
}
