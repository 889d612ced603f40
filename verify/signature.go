package verify

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Bounds on what is read of a signature header. Real ones hold one or two
// signatures; more than this is somebody else's idea.
const (
	maxSignatureLen = 8 << 10
	maxCandidates   = 32
	maxGroups       = 4
)

// candidate is a signature that may match, undecoded.
type candidate struct {
	text  string
	label string // of the only secret it may match; "" is any
}

// candidates are those of one request.
type candidates struct {
	s [maxCandidates]candidate
	n int
}

func (c *candidates) add(s, label string) bool {
	if c.n == maxCandidates {
		return false
	}
	c.s[c.n] = candidate{s, label}
	c.n++
	return true
}

func (c *candidates) all() []candidate { return c.s[:c.n] }

// sigPlace is a place where a signature may be.
type sigPlace struct {
	src   source
	label string
}

// sigScheme is a Scheme made ready for requests.
type sigScheme struct {
	places    []sigPlace
	format    Format
	sep       string
	groups    bool
	prefix    string
	bare      bool // the prefix may be missing
	repeat    bool
	key       string
	enc       Encoding
	tmpls     []template
	ts        source
	tsKey     string // where the timestamp is in the signature's own list
	hasTS     bool
	tsMayLack bool
	tsInBody  bool
	unit      Unit
	tolerance time.Duration
	id        locator // the header that {id} stands for
}

// read takes signature, timestamp and signed ID from the request into x. The
// result carries the reason where that fails.
func (c *sigScheme) read(x *exchange) Result {
	found := false
	for i := range c.places {
		p := &c.places[i]
		if p.src[0].kind == kindHeader && strings.HasSuffix(p.src[0].name, "#") {
			n, res := c.readNumbered(x, p)
			if res.Reason != OK {
				return res
			}
			found = found || n > 0
			continue
		}
		text, res := c.textAt(x, p)
		if res.Reason == OK && text != "" {
			found = true
			res = c.split(x, text, p.label)
		}
		if res.Reason != OK {
			return res
		}
	}
	if !found {
		return refuse(ReasonSignatureMissing, "there is no signature")
	}
	return c.finish(x)
}

// finish reads what is signed beside the body.
func (c *sigScheme) finish(x *exchange) Result {
	res := c.readTime(x)
	if res.Reason != OK {
		return res
	}
	if c.id.name != "" {
		var p presence
		if x.id, p = c.id.find(x, nil); p != once || x.id == "" {
			return refuse(ReasonSignedPartMissing, "the signed ID header is absent, empty or sent twice")
		}
	}
	return res
}

// readNumbered reads NAME-1, NAME-2 and so on up to the first that is not there.
func (c *sigScheme) readNumbered(x *exchange, p *sigPlace) (n int, res Result) {
	base := strings.TrimSuffix(p.src[0].name, "#")
	for n < maxCandidates {
		s, found := single(x.req.Header[http.CanonicalHeaderKey(base+strconv.Itoa(n+1))])
		if found == many {
			return n, refuse(ReasonSignatureMalformed, "a signature header was sent more than once")
		}
		if s == "" {
			break
		}
		if len(s) > maxSignatureLen {
			return n, refuse(ReasonSignatureMalformed, "the signature header is too long")
		}
		if res = c.split(x, s, p.label); res.Reason != OK {
			return n, res
		}
		n++
	}
	return n, Result{Reason: OK}
}

// textAt returns the text of the signature at a place, "" for none. Several
// headers are one list where the format is a list, and a fault where it is not.
func (c *sigScheme) textAt(x *exchange, p *sigPlace) (string, Result) {
	var text string
	if l := &p.src[0]; len(p.src) == 1 && l.kind == kindHeader && len(l.steps) == 0 {
		vs := x.req.Header[l.name]
		switch {
		case len(vs) == 0:
		case len(vs) == 1:
			text = vs[0]
		case len(vs) > maxCandidates:
			return "", refuse(ReasonSignatureMalformed, "too many signature headers")
		case c.repeat:
			return c.addAll(x, vs, p.label)
		case c.format == FormatKV || c.format == FormatMany:
			text = strings.Join(vs, c.sep[:1])
		case c.format == FormatList:
			text = strings.Join(vs, " ")
		default:
			return "", refuse(ReasonSignatureMalformed, "the signature header was sent more than once")
		}
	} else {
		var found presence
		text, _, found = p.src.find(x)
		if found == many {
			return "", refuse(ReasonSignatureMalformed, "the signature was sent more than once")
		}
	}
	if len(text) > maxSignatureLen {
		return "", refuse(ReasonSignatureMalformed, "the signature header is too long")
	}
	return text, Result{Reason: OK}
}

// addAll takes a plain signature from each header but the last, which it returns.
func (c *sigScheme) addAll(x *exchange, vs []string, label string) (string, Result) {
	for _, v := range vs {
		if len(v) > maxSignatureLen {
			return "", refuse(ReasonSignatureMalformed, "the signature header is too long")
		}
	}
	last := len(vs) - 1
	for _, v := range vs[:last] {
		if res := c.split(x, v, label); res.Reason != OK {
			return "", res
		}
	}
	return vs[last], Result{Reason: OK}
}

// split fills x.cands from the signature's text.
func (c *sigScheme) split(x *exchange, text, label string) Result {
	switch c.format {
	case FormatKV:
		return c.splitKV(x, text, label)
	case FormatList:
		return c.splitList(x, text, label)
	case FormatPositional, FormatMany:
		return c.splitMany(x, text, label)
	}
	sig, ok := strings.CutPrefix(text, c.prefix)
	if !ok && !c.bare {
		return refuse(ReasonSignatureMalformed, "the signature does not begin with its prefix")
	}
	if !x.cands.add(sig, label) {
		return refuse(ReasonSignatureMalformed, "too many signatures")
	}
	return Result{Reason: OK}
}

// detailNoVersion is said of a list without an entry of the key that counts.
const detailNoVersion = "the signature header holds no signature of the known version"

func (c *sigScheme) splitKV(x *exchange, text, label string) Result {
	times := 0
	x.sigText, x.sigSep = text, c.sep
	for more := true; more; {
		var pair string
		pair, text, more = cutAny(text, c.sep)
		pair = strings.Trim(pair, " \t")
		key, val, ok := strings.Cut(pair, "=")
		if !ok {
			if pair == "" && len(c.sep) > 1 {
				continue // between two separators
			}
			return refuse(ReasonSignatureMalformed, "the signature header is not a list of key=value")
		}
		switch key {
		case c.key:
			if !x.cands.add(val, label) {
				return refuse(ReasonSignatureMalformed, "too many signatures")
			}
		case c.tsKey:
			times++
			x.timestamp = val
		}
	}
	if c.tsKey != "" && times != 1 {
		return refuse(ReasonSignatureMalformed, "the signature header does not hold exactly one timestamp")
	}
	if x.cands.n == 0 {
		return refuse(ReasonSignatureMismatch, detailNoVersion)
	}
	return Result{Reason: OK}
}

// cutAny cuts at the first of the separators.
func cutAny(s, seps string) (before, after string, found bool) {
	if len(seps) == 1 {
		return strings.Cut(s, seps)
	}
	if i := strings.IndexAny(s, seps); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// splitMany reads signatures with separators between; in the positional format the
// first entry is the timestamp.
func (c *sigScheme) splitMany(x *exchange, text, label string) Result {
	if c.format == FormatPositional {
		var ok bool
		if x.timestamp, text, ok = cutAny(text, c.sep); !ok {
			return refuse(ReasonSignatureMalformed, "the signature header is not a time and signatures")
		}
		x.timestamp = strings.Trim(x.timestamp, " \t")
	}
	for more := true; more; {
		var sig string
		sig, text, more = cutAny(text, c.sep)
		if sig = strings.Trim(sig, " \t"); sig == "" {
			continue
		}
		if !x.cands.add(strings.TrimPrefix(sig, c.prefix), label) {
			return refuse(ReasonSignatureMalformed, "too many signatures")
		}
	}
	if x.cands.n == 0 {
		return refuse(ReasonSignatureMalformed, "the signature header holds no signature")
	}
	return Result{Reason: OK}
}

func (c *sigScheme) splitList(x *exchange, text, label string) Result {
	entries := 0
	for more := true; more; {
		var entry string
		entry, text, more = strings.Cut(text, " ")
		version, sig, ok := strings.Cut(entry, ",")
		if !ok {
			continue
		}
		entries++
		// Some senders put a comma and a blank between entries.
		if more {
			sig = strings.TrimSuffix(sig, ",")
		}
		if version == c.key && !x.cands.add(sig, label) {
			return refuse(ReasonSignatureMalformed, "too many signatures")
		}
	}
	switch {
	case entries == 0:
		return refuse(ReasonSignatureMalformed, "the signature header is not a list of version,signature")
	case x.cands.n == 0:
		return refuse(ReasonSignatureMismatch, detailNoVersion)
	}
	return Result{Reason: OK}
}

// readTime reads the timestamp and how far it is from now; it doesn't judge.
func (c *sigScheme) readTime(x *exchange) Result {
	res := Result{Reason: OK}
	if !c.hasTS {
		return res
	}
	if c.tsKey == "" {
		var p presence
		x.timestamp, _, p = c.ts.find(x)
		if p == many {
			return refuse(ReasonTimestampMalformed, "the timestamp was sent more than once")
		}
		if x.timestamp == "" && c.tsMayLack {
			return res
		}
		if x.timestamp == "" && c.tsInBody {
			// Whether it was ever there is known once the body is.
			res.lacksTime = true
			return res
		}
		if x.timestamp == "" {
			return refuse(ReasonTimestampMissing, "there is no timestamp")
		}
	}
	if c.unit == AnyTime {
		if len(x.timestamp) > maxTimestampText {
			return refuse(ReasonTimestampMalformed, "the timestamp is too long")
		}
		return res
	}
	t, ok := parseTimestamp(x.timestamp, c.unit)
	if !ok {
		return refuse(ReasonTimestampMalformed, "the timestamp is not written as it should be")
	}
	res.Skew, res.HasSkew = x.req.Now.Sub(t), true
	return res
}

// judge finishes a result whose signature matched: the age decides.
func (c *sigScheme) judge(res Result) Result {
	if res.lacksTime {
		return spoil(res, ReasonTimestampMissing, "authentic, but there is no timestamp in the body")
	}
	if !res.HasSkew {
		return res
	}
	switch res.Reason = checkAge(res.Skew, c.tolerance); res.Reason {
	case ReasonTimestampOld:
		res.Detail = "authentic, but signed longer ago than the tolerance"
	case ReasonTimestampFuture:
		res.Detail = "authentic, but signed further in the future than the tolerance"
	}
	return res
}

// eachGroup tries several lists with blanks between, each with its own time, until
// one is authentic. What came closest is said of all.
func (c *sigScheme) eachGroup(x *exchange, try func(Result) Result) Result {
	text, res := c.textAt(x, &c.places[0])
	if res.Reason == OK && text == "" {
		res = refuse(ReasonSignatureMissing, "there is no signature")
	}
	if res.Reason != OK {
		return res
	}
	groups := strings.Fields(text)
	if len(groups) > maxGroups {
		return refuse(ReasonSignatureMalformed, "too many signatures")
	}
	best := refuse(ReasonSignatureMalformed, "the signature header is not a list of key=value")
	for _, g := range groups {
		x.cands.n = 0
		res = c.split(x, g, "")
		if res.Reason == OK {
			res = c.finish(x)
		}
		if res.Reason == OK {
			res = try(res)
		}
		if res.Reason == OK {
			return res
		}
		if best.Reason == ReasonSignatureMalformed || res.Secret != "" {
			best = res
		}
	}
	return best
}

// refuse makes a result that is not OK. Details are fixed texts: nothing that
// was sent can get into them.
func refuse(r Reason, detail string) Result { return Result{Reason: r, Detail: detail} }

// decodeInto decodes the text of a signature into dst. It takes only the one
// spelling an encoder writes (and upper-case hex), and nothing longer than dst.
func (e Encoding) decodeInto(dst []byte, s string) (int, bool) {
	if e == Hex {
		if len(s) == 0 || hex.DecodedLen(len(s)) > len(dst) {
			return 0, false
		}
		var tmp [2 * maxDigest]byte
		n, err := hex.Decode(dst, append(tmp[:0], s...))
		return n, err == nil
	}
	enc := base64.StdEncoding
	if e == Base64URL {
		enc = base64.RawURLEncoding
		s = strings.TrimRight(s, "=")
	}
	if len(s) == 0 || strings.ContainsAny(s, "\r\n") || enc.DecodedLen(len(s)) > len(dst) {
		return 0, false
	}
	var tmp [2 * maxDigest]byte
	n, err := enc.Strict().Decode(dst, append(tmp[:0], s...))
	return n, err == nil
}

// encode writes b as text.
func (e Encoding) encode(b []byte) string {
	switch e {
	case Base64:
		return base64.StdEncoding.EncodeToString(b)
	case Base64URL:
		return base64.RawURLEncoding.EncodeToString(b)
	default:
		return hex.EncodeToString(b)
	}
}
