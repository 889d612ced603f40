package verify

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Bounds on what is read of a signature header. Real ones hold one or two
// signatures; more than this is somebody else's idea.
const (
	maxSignatureLen = 8 << 10
	maxCandidates   = 32
)

// candidates are the signatures of one request that may match, undecoded.
type candidates struct {
	s [maxCandidates]string
	n int
}

func (c *candidates) add(s string) bool {
	if c.n == maxCandidates {
		return false
	}
	c.s[c.n] = s
	c.n++
	return true
}

func (c *candidates) all() []string { return c.s[:c.n] }

// sigScheme is a Scheme made ready for requests.
type sigScheme struct {
	sig       locator
	format    Format
	prefix    string
	key       string
	enc       Encoding
	tmpl      template
	ts        locator
	tsKey     string // where the timestamp is in the signature's own list
	hasTS     bool
	unit      Unit
	tolerance time.Duration
	id        locator // the header that {id} stands for
}

// compile makes a scheme ready and reports all of its faults. The IDs are those
// of the mode; the first header among them is {id}.
func (s Scheme) compile(ids []composite) (sigScheme, error) {
	c := sigScheme{format: s.Format, prefix: s.Prefix, key: s.Key, enc: s.Encoding, unit: s.Unit, tolerance: time.Duration(s.Tolerance)}
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	var err error
	if c.sig, err = parseLocator(s.Sig); err != nil {
		bad("sig: %w", err)
	}
	if c.format == "" {
		c.format = FormatPlain
	}
	switch c.format {
	case FormatPlain:
		if c.key != "" {
			bad("key %q: a plain signature has none", c.key)
		}
	case FormatKV, FormatList:
		if c.key == "" {
			bad("format %s: needs the key of the entries that count", c.format)
		}
		if c.prefix != "" {
			bad("prefix %q: only a plain signature has one", c.prefix)
		}
	default:
		bad("format %q: want plain, kv or list", c.format)
	}
	if c.enc == "" {
		c.enc = Hex
	}
	if c.enc != Hex && c.enc != Base64 && c.enc != Base64URL {
		bad("encoding %q: want hex, base64 or base64url", c.enc)
	}
	errs = append(errs, c.compileTime(s), c.compileTemplate(s, ids))
	return c, errors.Join(errs...)
}

func (c *sigScheme) compileTime(s Scheme) error {
	if c.unit == "" {
		c.unit = Seconds
	}
	var errs []error
	if c.unit != Seconds && c.unit != Milliseconds {
		errs = append(errs, fmt.Errorf("unit %q: want s or ms", c.unit))
	}
	if s.Tolerance < 0 {
		errs = append(errs, fmt.Errorf("tolerance %v: is negative", s.Tolerance))
	}
	if s.Timestamp == "" {
		if s.Tolerance > 0 {
			errs = append(errs, errors.New("tolerance: needs a timestamp"))
		}
		return errors.Join(errs...)
	}
	c.hasTS = true
	key, inSig := strings.CutPrefix(s.Timestamp, "sig:")
	if !inSig {
		var err error
		c.ts, err = parseLocator(s.Timestamp)
		return errors.Join(append(errs, wrap("timestamp", err))...)
	}
	if c.tsKey = key; key == "" || c.format != FormatKV || key == c.key {
		errs = append(errs, fmt.Errorf("timestamp %q: needs format kv and a key of its own", s.Timestamp))
	}
	return errors.Join(errs...)
}

func (c *sigScheme) compileTemplate(s Scheme, ids []composite) error {
	if s.Signed == "" {
		return errors.New("signed: is empty")
	}
	var err error
	if c.tmpl, err = parseTemplate(s.Signed); err != nil {
		return fmt.Errorf("signed: %w", err)
	}
	var errs []error
	if c.tmpl.has(partTimestamp) && !c.hasTS {
		errs = append(errs, errors.New("signed: {timestamp} needs a timestamp"))
	}
	if c.hasTS && s.Tolerance > 0 && !c.tmpl.coversTimestamp(c) {
		errs = append(errs, errors.New("signed: does not cover the timestamp, so its age proves nothing"))
	}
	if c.tmpl.has(partID) {
		var ok bool
		if c.id, ok = firstHeader(ids); !ok {
			errs = append(errs, errors.New("signed: {id} needs an ID in a header"))
		}
	}
	return errors.Join(errs...)
}

// coversTimestamp reports whether the time is among the signed bytes.
func (t template) coversTimestamp(c *sigScheme) bool {
	return t.has(partTimestamp) || c.tsKey == "" && t.covers(c.ts)
}

// firstHeader returns the first locator that is a header by itself.
func firstHeader(ids []composite) (locator, bool) {
	for _, c := range ids {
		if len(c) == 1 && c[0].kind == kindHeader {
			return c[0], true
		}
	}
	return locator{}, false
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// read takes signature, timestamp and signed ID from the request into x. The
// result carries the reason where that fails.
func (c *sigScheme) read(x *exchange) Result {
	text, res := c.signature(x)
	if res.Reason != OK {
		return res
	}
	if res = c.split(x, text); res.Reason != OK {
		return res
	}
	if res = c.readTime(x); res.Reason != OK {
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

// signature returns the text of the signature. Several headers are one list
// where the format is a list, and a fault where it is not.
func (c *sigScheme) signature(x *exchange) (string, Result) {
	var text string
	if c.sig.kind == kindHeader {
		switch vs := x.req.Header[c.sig.name]; {
		case len(vs) == 0:
		case len(vs) == 1:
			text = vs[0]
		case len(vs) > maxCandidates:
			return "", refuse(ReasonSignatureMalformed, "too many signature headers")
		case c.format == FormatKV:
			text = strings.Join(vs, ",")
		case c.format == FormatList:
			text = strings.Join(vs, " ")
		default:
			return "", refuse(ReasonSignatureMalformed, "the signature header was sent more than once")
		}
	} else {
		var p presence
		text, p = c.sig.find(x, x.docFor(c.sig))
		if p == many {
			return "", refuse(ReasonSignatureMalformed, "the signature was sent more than once")
		}
	}
	if text == "" {
		return "", refuse(ReasonSignatureMissing, "there is no signature")
	}
	if len(text) > maxSignatureLen {
		return "", refuse(ReasonSignatureMalformed, "the signature header is too long")
	}
	return text, Result{Reason: OK}
}

// split fills x.cands from the signature's text.
func (c *sigScheme) split(x *exchange, text string) Result {
	switch c.format {
	case FormatKV:
		return c.splitKV(x, text)
	case FormatList:
		return c.splitList(x, text)
	}
	sig, ok := strings.CutPrefix(text, c.prefix)
	if !ok {
		return refuse(ReasonSignatureMalformed, "the signature does not begin with its prefix")
	}
	x.cands.add(sig)
	return Result{Reason: OK}
}

func (c *sigScheme) splitKV(x *exchange, text string) Result {
	times := 0
	for more := true; more; {
		var pair string
		pair, text, more = strings.Cut(text, ",")
		key, val, ok := strings.Cut(strings.Trim(pair, " \t"), "=")
		if !ok {
			return refuse(ReasonSignatureMalformed, "the signature header is not a list of key=value")
		}
		switch key {
		case c.key:
			if !x.cands.add(val) {
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
		return refuse(ReasonSignatureMismatch, "the signature header holds no signature of the known version")
	}
	return Result{Reason: OK}
}

func (c *sigScheme) splitList(x *exchange, text string) Result {
	entries := 0
	for more := true; more; {
		var entry string
		entry, text, more = strings.Cut(text, " ")
		version, sig, ok := strings.Cut(entry, ",")
		if !ok {
			continue
		}
		entries++
		if version == c.key && !x.cands.add(sig) {
			return refuse(ReasonSignatureMalformed, "too many signatures")
		}
	}
	switch {
	case entries == 0:
		return refuse(ReasonSignatureMalformed, "the signature header is not a list of version,signature")
	case x.cands.n == 0:
		return refuse(ReasonSignatureMismatch, "the signature header holds no signature of the known version")
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
		x.timestamp, p = c.ts.find(x, x.docFor(c.ts))
		if p == many {
			return refuse(ReasonTimestampMalformed, "the timestamp was sent more than once")
		}
		if x.timestamp == "" {
			return refuse(ReasonTimestampMissing, "there is no timestamp")
		}
	}
	t, ok := parseTimestamp(x.timestamp, c.unit)
	if !ok {
		return refuse(ReasonTimestampMalformed, "the timestamp is not a number of at most 20 digits")
	}
	res.Skew, res.HasSkew = x.req.Now.Sub(t), true
	return res
}

// judge finishes a result whose signature matched: the age decides.
func (c *sigScheme) judge(res Result) Result {
	if !c.hasTS {
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
