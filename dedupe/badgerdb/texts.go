package badgerdb

import (
	"encoding/binary"
	"encoding/hex"
	"sort"
)

// Most of an event's record, and of an attempt's, is text that the next one has
// too: names of headers, the kind of content, a status line; and signatures in
// hexadecimal, which take twice what they say. Such a text takes a byte in a record,
// and digits half a byte each: an event a little over half of what it took, and what
// is written once is written again by each flush and merge of the engine. A record
// stays readable without any other.

// phrases are the texts that take one byte, by their place. The list is part of
// the format: it may grow at its end, up to maxPhrases, and nothing in it changes.
var phrases = [...]string{
	// Headers of requests.
	"Accept", "Accept-Encoding", "Authorization", "Cache-Control", "Connection", "Content-Encoding", "Content-Length",
	"Content-Type", "Forwarded", "Traceparent", "Tracestate", "User-Agent", "X-Amzn-Trace-Id", "X-Forwarded-For",
	"X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto", "X-Real-Ip", "X-Request-Id", "Cdn-Loop", "Cf-",
	// Headers of providers.
	"Stripe-Signature", "X-Github-", "Delivery", "Event", "Hook-Id", "Hook-Installation-Target-", "X-Gitlab-",
	"X-Hub-Signature", "X-Hub-Signature-256", "X-Hubspot-", "X-Shopify-", "Hmac-Sha256", "X-Slack-", "X-Twilio-",
	"I-Twilio-Idempotency-Token", "Request-Timestamp", "Svix-", "Webhook-", "X-Webhook-", "X-Signature", "Signature",
	"Timestamp",
	// Values of both.
	"application/json", "application/x-www-form-urlencoded", "; charset=utf-8", "text/plain", "text/html", "gzip",
	"deflate", "keep-alive", "https://", "http://", "www.", ".com", "POST", "sha256=", "sha1=", ",v1=", "v1,",
	"Mozilla/5.0", "GitHub-Hookshot/", "Go-http-client/", "no-cache", "compatible",
	// Answers of targets, and why there was none.
	"HTTP/1.1 200 OK\r\n", "HTTP/2.0 200 OK\r\n", "HTTP/1.1 202 Accepted\r\n", "HTTP/1.1 204 No Content\r\n",
	"HTTP/1.1 503 Service Unavailable\r\n", "HTTP/1.1 ", "HTTP/2.0 ", "\r\n", ": ", " GMT\r\n", "Retry-After", "Server",
	"Date: Mon, ", "Date: Tue, ", "Date: Wed, ", "Date: Thu, ", "Date: Fri, ", "Date: Sat, ", "Date: Sun, ",
	" Jan 20", " Feb 20", " Mar 20", " Apr 20", " May 20", " Jun 20", " Jul 20", " Aug 20", " Sep 20", " Oct 20", " Nov 20", " Dec 20",
	"Content-Length: 0\r\n", "X-Content-Type-Options", "nosniff", "Strict-Transport-Security", "max-age=", "Keep-Alive", "timeout=",
	"nginx", "cloudflare", "X-Powered-By", "Etag", "Vary", "Via", "close", `{"ok":true}`,
	"2xx", "4xx", "5xx", "timeout", "connection refused", "no answer in time",
}

// The bytes of a packed text: below firstPhrase as they are.
const (
	firstPhrase = 0x80
	maxPhrases  = codeID - firstPhrase
	codeID      = 0xfc // the event's ID, once it was read
	codeSource  = 0xfd // its source
	codeHex     = 0xfe // the byte after it says how many follow, each of two digits
	codeByte    = 0xff // the byte after it, as it is

	minHex = 12 // digits that are worth it
	maxHex = 2 * 0xff

	// maxText is the longest text that is packed: what reading one can take.
	maxText = 256 << 10
)

// phrase is a text and the byte it takes.
type phrase struct {
	text string
	code byte
}

// phrasesOf are the phrases that begin with a byte, the longest first.
var phrasesOf = func() (of [256][]phrase) {
	for i, p := range phrases {
		of[p[0]] = append(of[p[0]], phrase{p, firstPhrase + byte(i)})
	}
	for _, list := range of {
		sort.SliceStable(list, func(i, j int) bool { return len(list[i].text) > len(list[j].text) })
	}
	return of
}()

// known is what the texts of a record may repeat.
type known struct{ source, id string }

// pack appends a text to b.
func (k *known) pack(b []byte, s string) []byte {
	dull := 0 // hexadecimal digits up to here are too few
	for i := 0; i < len(s); {
		c := s[i]
		if code, n := k.match(c, s[i:]); n > 0 {
			b, i = append(b, code), i+n
			continue
		}
		if hexValue[c] != 0 && i >= dull {
			digits := hexRun(s[i:])
			if digits >= minHex {
				b = append(b, codeHex, byte(digits/2))
				for end := i + digits; i < end; i += 2 {
					b = append(b, (hexValue[s[i]]-1)<<4|(hexValue[s[i+1]]-1))
				}
				continue
			}
			dull = i + digits
		}
		if c >= firstPhrase {
			b = append(b, codeByte)
		}
		b, i = append(b, c), i+1
	}
	return b
}

// match finds what s, whose first byte is c, begins with and takes one byte.
func (k *known) match(c byte, s string) (code byte, n int) {
	switch {
	case has(c, s, k.id):
		return codeID, len(k.id)
	case has(c, s, k.source):
		return codeSource, len(k.source)
	}
	for i := range phrasesOf[c] {
		if p := &phrasesOf[c][i]; len(s) >= len(p.text) && s[1] == p.text[1] && s[:len(p.text)] == p.text {
			return p.code, len(p.text)
		}
	}
	return 0, 0
}

// has reports whether s, whose first byte is c, begins with p, and p has a length
// that saves something.
func has(c byte, s, p string) bool {
	return len(p) > 1 && c == p[0] && len(s) >= len(p) && s[:len(p)] == p
}

// hexValue is one more than what a digit stands for, 0 for what is none. Capital
// letters are none: a text reads back as it was.
var hexValue = func() (of [256]byte) {
	for i, c := range []byte("0123456789abcdef") {
		of[c] = byte(i) + 1
	}
	return of
}()

// hexRun counts the digits at the beginning of s, an even number of them.
func hexRun(s string) int {
	n := 0
	for n < len(s) && n < maxHex && hexValue[s[n]] != 0 {
		n++
	}
	return n &^ 1
}

// unpack appends to b the text that was packed, false when it was not.
func (k *known) unpack(b, packed []byte) ([]byte, bool) {
	for {
		n := 0
		for n < len(packed) && packed[n] < firstPhrase {
			n++
		}
		b, packed = append(b, packed[:n]...), packed[n:]
		if len(packed) == 0 {
			return b, len(b) <= maxText
		}
		c := packed[0]
		packed = packed[1:]
		switch {
		case int(c-firstPhrase) < len(phrases):
			b = append(b, phrases[c-firstPhrase]...)
		case c == codeID:
			b = append(b, k.id...)
		case c == codeSource:
			b = append(b, k.source...)
		case c == codeByte && len(packed) > 0:
			b, packed = append(b, packed[0]), packed[1:]
		case c == codeHex && len(packed) > 0 && len(packed) > int(packed[0]):
			n := 1 + int(packed[0])
			b, packed = hex.AppendEncode(b, packed[1:n]), packed[n:]
		default:
			return nil, false
		}
		if len(b) > maxText {
			return nil, false
		}
	}
}

// text writes a text packed, or as it is where that is not longer. Its length has
// a bit that says which.
func (e *enc) text(s string) {
	e.flags |= flagTexts
	at := len(e.b)
	if len(s) <= maxText {
		e.b = e.known.pack(append(e.b, 0), s)
		if n := len(e.b) - at - 1; n < len(s) {
			var length [binary.MaxVarintLen64]byte
			more := binary.PutUvarint(length[:], uint64(n)<<1|1) - 1
			e.b = append(e.b, length[:more]...)
			copy(e.b[at+1+more:], e.b[at+1:at+1+n])
			copy(e.b[at:], length[:1+more])
			return
		}
	}
	e.b = e.b[:at]
	e.uint(uint64(len(s)) << 1)
	e.b = append(e.b, s...)
}

// textRoom is enough for most texts, so that they are unpacked on the stack.
const textRoom = 128

// text reads what either text or, in a record without packed ones, str wrote.
func (d *dec) text() string {
	if !d.texts {
		return d.str()
	}
	var room [textRoom]byte
	return string(d.unpacked(room[:0]))
}

// textBytes is text for what is kept as bytes, nil when it is empty.
func (d *dec) textBytes() []byte {
	if !d.texts {
		return d.bytes()
	}
	var room [textRoom]byte
	if b := d.unpacked(room[:0]); len(b) > 0 {
		return append([]byte(nil), b...)
	}
	return nil
}

// unpacked is a part of the payload, or in room or what that had to grow to.
func (d *dec) unpacked(room []byte) []byte {
	n := d.uint()
	packed := n&1 != 0
	if n >>= 1; n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	if !packed {
		return v
	}
	out, ok := d.known.unpack(room, v)
	if !ok {
		d.fail()
		return nil
	}
	return out
}
