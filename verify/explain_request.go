package verify

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	bomText   = "\xef\xbb\xbf"
	maxGunzip = 32 << 20
)

// clock explains a request that is authentic and out of time.
func (l *lab) clock() (Cause, bool) {
	if l.res.Secret == "" && l.v.mode.PublicKey == nil || l.res.Reason != ReasonTimestampOld && l.res.Reason != ReasonTimestampFuture {
		return Cause{}, false
	}
	if passes(l.otherUnit(), l.r) && l.otherUnit().Verify(l.r).Reason == OK {
		return Cause{}, false // the unit is what is wrong
	}
	text := "the request is authentic and was signed " + age(l.res.Skew) + ": it was sent again or held up, or a clock is wrong"
	if l.res.Reason == ReasonTimestampFuture {
		text = "the request is authentic and was signed " + age(l.res.Skew) + ": the clock here or there is wrong"
	}
	return Cause{ID: CauseClock, Text: text, Sure: true}, true
}

// otherUnit is the verifier with the other unit of time.
func (l *lab) otherUnit() *Verifier {
	s := l.v.mode.scheme()
	if s == nil || s.Timestamp == "" {
		return nil
	}
	other := Milliseconds
	if s.Unit == Milliseconds {
		other = Seconds
	}
	return l.rebuild(nil, func(m *Mode) { m.scheme().Unit = other })
}

// unit tries seconds for milliseconds and the other way round.
func (l *lab) unit() (Cause, bool) {
	v := l.otherUnit()
	ok := v != nil && v.Verify(l.r).Reason == OK
	return Cause{ID: CauseMilliseconds, Sure: true, Text: "the timestamp is in milliseconds where seconds are expected, or the other way round"}, ok
}

// newlines tries the body with and without a line break at its end.
func (l *lab) newlines() (Cause, bool) {
	for _, end := range []string{"\n", "\r\n"} {
		if b, ok := bytes.CutSuffix(l.r.Body, []byte(end)); ok && passes(l.v, l.changed(b)) {
			return Cause{ID: CauseNewlineAdded, Sure: true, Text: "a line break was added to the end of the body after it was signed"}, true
		}
	}
	for _, end := range []string{"\n", "\r\n"} {
		if passes(l.v, l.changed(append(bytes.Clone(l.r.Body), end...))) {
			return Cause{ID: CauseNewlineLost, Sure: true, Text: "the line break at the end of the body was lost after it was signed"}, true
		}
	}
	return Cause{}, false
}

// bom tries the body with and without a byte order mark.
func (l *lab) bom() (Cause, bool) {
	c := Cause{ID: CauseBOM, Sure: true}
	if b, ok := bytes.CutPrefix(l.r.Body, []byte(bomText)); ok {
		c.Text = "a byte order mark was put before the body after it was signed"
		return c, passes(l.v, l.changed(b))
	}
	c.Text = "the byte order mark before the body was lost after it was signed"
	return c, passes(l.v, l.changed(append([]byte(bomText), l.r.Body...)))
}

// gzip tries a compressed body unpacked.
func (l *lab) gzip() (Cause, bool) {
	c := Cause{ID: CauseGzip, Text: "the body is compressed, and the signature covers what is inside"}
	if b, ok := gunzip(l.r.Body); ok {
		c.Sure = passes(l.v, l.changed(b))
		return c, true
	}
	if enc := l.r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		c.Text = "the request says that its body is compressed and it is not: something unpacked it on the way, and the signature covers the packed bytes"
		return c, true
	}
	return c, false
}

func gunzip(b []byte) ([]byte, bool) {
	zr, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, false
	}
	out, err := io.ReadAll(io.LimitReader(zr, maxGunzip))
	return out, err == nil
}

// lineEnds tries the other kind of line ends.
func (l *lab) lineEnds() (Cause, bool) {
	c := Cause{ID: CauseLineEnds, Sure: true, Text: "the line ends of the body were changed after it was signed"}
	unix := bytes.ReplaceAll(l.r.Body, []byte("\r\n"), []byte("\n"))
	dos := bytes.ReplaceAll(unix, []byte("\n"), []byte("\r\n"))
	return c, passes(l.v, l.changed(unix)) || passes(l.v, l.changed(dos))
}

// url tries other spellings of the signed URL.
func (l *lab) url() (Cause, bool) {
	now := l.v.signedURL(l.r)
	free := &Verifier{auth: l.v.auth, options: l.v.options} // as if there were no public_url
	for _, u := range urlSpellings(now, l.r) {
		r := *l.r
		r.URL = u
		if _, query, ok := strings.Cut(u, "?"); ok {
			r.RawQuery = query
		}
		if u == now || !verifyCopy(free, &r) {
			continue
		}
		return Cause{ID: CauseURL, Sure: true, Text: "the provider signs the URL " + quoteShort(u) + " and " + quoteShort(now) +
			" is what arrives: set public_url to the address registered with the provider"}, true
	}
	return Cause{}, false
}

// verifyCopy runs the family alone.
func verifyCopy(v *Verifier, r *Request) bool {
	x := &exchange{req: r, url: v.signedURL(r), options: v.options}
	res := v.auth.verify(x)
	return res.Reason == OK || res.Secret != "" && (res.Reason == ReasonTimestampOld || res.Reason == ReasonTimestampFuture)
}

// urlSpellings are what else the URL may have been when it was registered.
func urlSpellings(s string, r *Request) []string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return nil
	}
	hosts := []string{u.Host, u.Hostname(), r.Header.Get("X-Forwarded-Host"), r.Header.Get("Host")}
	for _, port := range []string{":443", ":80", ":8080"} {
		hosts = append(hosts, u.Hostname()+port)
	}
	path := u.EscapedPath()
	paths := []string{path, strings.TrimSuffix(path, "/"), path + "/"}
	queries := []string{"", "?" + u.RawQuery}
	if u.RawQuery == "" {
		queries = queries[:1]
	}
	var out []string
	for _, scheme := range []string{"https", "http"} {
		for _, host := range hosts {
			for _, p := range paths {
				for _, q := range slices.Backward(queries) {
					if one := scheme + "://" + host + p + q; host != "" && !slices.Contains(out, one) {
						out = append(out, one)
					}
				}
			}
		}
	}
	return out
}

// digest tries other digests, also in the header of an older signature.
func (l *lab) digest() (Cause, bool) {
	if l.v.mode.HMAC == nil {
		return Cause{}, false
	}
	for _, d := range []Digest{SHA1, SHA256, SHA512, SHA384} {
		for _, name := range append([]string{""}, signatureLike(l.r)...) {
			v := l.rebuild(nil, func(m *Mode) {
				m.HMAC.Digest, m.HMAC.DigestIn, m.HMAC.Digests = d, "", nil
				if m.Custom == customStripe {
					m.Custom = ""
				}
				if name != "" {
					m.HMAC.Sig, m.HMAC.Prefix, m.HMAC.PrefixOptional = "header:"+name, string(d)+"=", true
				}
			})
			if !passes(v, l.r) {
				continue
			}
			text := "the request is signed with " + string(d) + ", which is not what is expected"
			if name != "" {
				text = "the signature that matches is the one with " + string(d) + " in the header " + name + ": the expected header was lost, or the sender is too old to send it"
			}
			return Cause{ID: CauseDigest, Text: text, Sure: true}, true
		}
	}
	return Cause{}, false
}

// encoding tries other encodings of the signature.
func (l *lab) encoding() (Cause, bool) {
	for _, e := range []Encoding{Hex, Base64, Base64URL} {
		v := l.rebuild(nil, func(m *Mode) {
			if s := m.scheme(); s != nil {
				s.Encoding = e
			}
			if m.Custom == customStripe {
				m.Custom = ""
			}
		})
		if passes(v, l.r) {
			return Cause{ID: CauseEncoding, Sure: true, Text: "the signature is written in " + string(e) + ", which is not what is expected"}, true
		}
	}
	return Cause{}, false
}

// otherMode tries the other ways in which the provider authenticates.
func (l *lab) otherMode() (Cause, bool) {
	row, ok := Lookup(l.v.row.Name)
	if !ok {
		return Cause{}, false
	}
	for _, m := range row.Modes {
		if m.Name == l.v.mode.Name || m.None {
			continue
		}
		v, err := New(Config{Row: row, Auth: m.Name, Secrets: l.secrets(), PublicURL: l.v.publicURL, Options: l.v.options})
		if err == nil && passes(v, l.r) {
			return Cause{ID: CauseMode, Sure: true, Text: "the request is authentic by auth = \"" + m.Name + "\", and the source has \"" + l.v.mode.Name + "\""}, true
		}
	}
	return Cause{}, false
}

// charset tries the body in another character set.
func (l *lab) charset() (Cause, bool) {
	c := Cause{ID: CauseCharset, Sure: true, Text: "the character set of the body was changed after it was signed"}
	for _, b := range [][]byte{toLatin1(l.r.Body), fromLatin1(l.r.Body)} {
		if b != nil && passes(l.v, l.changed(b)) {
			return c, true
		}
	}
	return c, false
}

// toLatin1 writes UTF-8 as ISO 8859-1, nil where that can't be.
func toLatin1(b []byte) []byte {
	if !utf8.Valid(b) {
		return nil
	}
	var out []byte
	for _, r := range string(b) {
		if r > 0xff {
			return nil
		}
		out = append(out, byte(r))
	}
	return out
}

// fromLatin1 writes ISO 8859-1 as UTF-8.
func fromLatin1(b []byte) []byte {
	var out []byte
	for _, c := range b {
		out = utf8.AppendRune(out, rune(c))
	}
	return out
}

// reserialised tries the spellings that JSON libraries give a body.
func (l *lab) reserialised() (Cause, bool) {
	c := Cause{ID: CauseReserialised, Text: "the body was parsed and written anew after it was signed: sign and verify the bytes as they come"}
	if len(l.r.Body) == 0 || checkJSON(l.r.Body) != jsonValid {
		return c, false
	}
	for _, b := range jsonSpellings(l.r.Body) {
		if passes(l.v, l.changed(b)) {
			c.Sure = true
			return c, true
		}
	}
	return c, l.res.Reason == ReasonSignatureMismatch && l.v.auth.coversBody()
}

// jsonSpellings are the texts that libraries commonly write for the same value.
func jsonSpellings(b []byte) [][]byte {
	var compact bytes.Buffer
	if json.Compact(&compact, b) != nil {
		return nil
	}
	bases := [][]byte{b, compact.Bytes(), spaced(compact.Bytes())}
	for _, indent := range []string{"  ", "    ", "\t"} {
		var out bytes.Buffer
		if json.Indent(&out, compact.Bytes(), "", indent) == nil {
			bases = append(bases, out.Bytes())
		}
	}
	if sorted, ok := sortedJSON(compact.Bytes()); ok {
		bases = append(bases, sorted, spaced(sorted))
	}
	var all [][]byte
	for _, base := range bases {
		var html bytes.Buffer
		json.HTMLEscape(&html, base)
		plain := unescapeJSON(base)
		all = append(all, base, html.Bytes(), asciiJSON(base), asciiJSON(plain), plain,
			bytes.ReplaceAll(base, []byte("/"), []byte(`\/`)), bytes.ReplaceAll(base, []byte(`\/`), []byte("/")),
			asciiJSON(bytes.ReplaceAll(plain, []byte("/"), []byte(`\/`))))
	}
	return all
}

// sortedJSON writes the value with the keys of objects in order.
func sortedJSON(b []byte) ([]byte, bool) {
	var v any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil, false
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return nil, false
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), true
}

// spaced puts a blank after the commas and colons of compact JSON.
func spaced(b []byte) []byte {
	var out []byte
	for i := 0; i < len(b); {
		if b[i] == '"' {
			end := skipString(b, i)
			out = append(out, b[i:end]...)
			i = end
			continue
		}
		out = append(out, b[i])
		if b[i] == ',' || b[i] == ':' {
			out = append(out, ' ')
		}
		i++
	}
	return out
}

// asciiJSON escapes everything beyond ASCII.
func asciiJSON(b []byte) []byte {
	var out []byte
	for _, r := range string(b) {
		out = appendASCII(out, r)
	}
	return out
}

// unescapeJSON writes escapes of characters beyond ASCII, of slashes and of the
// characters of HTML as the characters themselves.
func unescapeJSON(b []byte) []byte {
	var out []byte
	for i := 0; i < len(b); {
		if b[i] != '"' {
			out = append(out, b[i])
			i++
			continue
		}
		end := skipString(b, i)
		var s string
		if json.Unmarshal(b[i:end], &s) != nil {
			out = append(out, b[i:end]...)
		} else {
			var enc bytes.Buffer
			e := json.NewEncoder(&enc)
			e.SetEscapeHTML(false)
			_ = e.Encode(s) // a string always encodes
			out = append(out, bytes.TrimSuffix(enc.Bytes(), []byte("\n"))...)
		}
		i = end
	}
	return out
}

// noSignature says what is there in place of the signature.
func (l *lab) noSignature() (Cause, bool) {
	if l.res.Reason != ReasonSignatureMissing && l.res.Reason != ReasonTimestampMissing {
		return Cause{}, false
	}
	text := "the request carries no signature: no secret is set at the provider, or a proxy takes the header away"
	if names := signatureLike(l.r); len(names) > 0 {
		text = "the signature is not where it should be; headers that look like one: " + strings.Join(names, ", ")
	}
	return Cause{ID: CauseNoSignature, Text: text}, true
}
