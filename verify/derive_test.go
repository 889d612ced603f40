package verify

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// accepted is one vector that verifies, with what verifies it.
type accepted struct {
	name string
	row  Row
	vec  vector
	ver  *Verifier
	req  *Request
}

// acceptedVectors returns every vector that wants ok or a verified handshake. The
// requests are shared and not to be changed.
func acceptedVectors(t testing.TB) []accepted {
	t.Helper()
	acceptedOnce.Do(func() { acceptedAll = loadAccepted(t) })
	return acceptedAll
}

var (
	acceptedOnce sync.Once
	acceptedAll  []accepted // read-only once loaded
)

func loadAccepted(t testing.TB) []accepted {
	t.Helper()
	files, err := filepath.Glob("../testdata/vectors/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("vector files: %v, %d found", err, len(files))
	}
	var out []accepted
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var vs []vector
		if err := json.Unmarshal(b, &vs); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, v := range vs {
			if v.Want != "ok" && v.Want != "challenge" {
				continue
			}
			row, _ := Lookup(v.Provider)
			req := v.request()
			ver, err := v.verifier(row, req)
			if err != nil {
				t.Fatalf("%s %s: %v", v.Provider, v.Case, err)
			}
			res := ver.Verify(req)
			if res.Reason != OK && slices.Contains(v.WantAlt, outcome(res)) {
				continue
			}
			if res.Reason != OK {
				t.Fatalf("%s %s: %s", v.Provider, v.Case, res.Reason)
			}
			if res.Handshake != nil && res.Secret == "" && !ver.verifiesHandshake(req) {
				continue // nothing of it is signed
			}
			if ver.mode.None {
				continue
			}
			out = append(out, accepted{v.Provider + "/" + v.Case, row, v, ver, req})
		}
	}
	return out
}

// verifiesHandshake reports whether a handshake rule that matches is a verified one.
func (v *Verifier) verifiesHandshake(r *Request) bool {
	x := &exchange{req: r, url: v.signedURL(r), options: v.options}
	for _, h := range v.handshakes {
		if h.matches(x) {
			return h.rule.Verify
		}
	}
	return false
}

// copyRequest copies so deeply that a test may change anything.
func copyRequest(r *Request) *Request {
	c := *r
	c.Header, c.Body = r.Header.Clone(), bytes.Clone(r.Body)
	return &c
}

// schemeOf returns the signature scheme behind an authenticator, nil for none.
func schemeOf(a authenticator) *sigScheme {
	switch a := a.(type) {
	case *hmacAuth:
		return &a.sigScheme
	case *pubAuth:
		return &a.sigScheme
	case stripeAuth:
		return &a.sigScheme
	case twilioAuth:
		return &a.sigScheme
	case contentfulAuth:
		return &a.sigScheme
	case plivoAuth:
		return &a.sigScheme
	case connectWiseAuth:
		return &a.sigScheme
	case httpSigAuth:
		return &a.sigScheme
	case *snsAuth:
		return &a.sigScheme
	default:
		return nil
	}
}

// credentialPlaces returns everywhere the credential of this vector may be.
func (a *accepted) credentialPlaces() []locator {
	var out []locator
	if s := schemeOf(a.ver.auth); s != nil {
		for _, p := range s.places {
			out = append(out, p.src...)
		}
		return out
	}
	switch f := a.ver.auth.(type) {
	case *tokenAuth:
		if f.each == "" {
			out = append(out, f.in...)
		}
	case *jwtAuth:
		out = append(out, f.in...)
	case *basicAuth:
		out = append(out, locator{kind: kindHeader, name: "Authorization", whole: "header:Authorization"})
	}
	return out
}

// credential returns the header or query parameter with the credential and the
// part of it that has to be right; ok is false where it is inside the body.
func (a *accepted) credential() (l locator, text, part string, ok bool) {
	for _, l := range a.credentialPlaces() {
		if strings.HasSuffix(l.name, "#") {
			l.name = http.CanonicalHeaderKey(strings.TrimSuffix(l.name, "#") + "1")
		}
		x := &exchange{req: a.req, url: a.ver.signedURL(a.req), options: a.ver.options}
		l.steps = nil
		text, _ := l.find(x, nil)
		if text == "" || l.kind != kindHeader && l.kind != kindQuery {
			continue
		}
		return l, text, a.decisive(x, text), true
	}
	return l, "", "", false
}

// decisive returns the one signature in the text, or "" where there are several.
func (a *accepted) decisive(x *exchange, text string) string {
	s := schemeOf(a.ver.auth)
	if s == nil {
		return text
	}
	if len(s.places[0].src[0].steps) > 0 {
		return "" // packed with what is no signature
	}
	if _, ok := a.ver.auth.(httpSigAuth); ok {
		params, _ := signatureParams(text, s.prefix)
		return params["signature"]
	}
	if s.groups {
		return ""
	}
	if s.read(x); x.cands.n != 1 {
		return ""
	}
	return x.cands.s[0].text
}

// with returns a copy of the request with another text at the place; "" takes the
// place away.
func (a *accepted) with(l locator, text string) *Request {
	r := copyRequest(a.req)
	if l.kind == kindHeader {
		if r.Header.Del(l.name); text != "" {
			r.Header[l.name] = []string{text}
		}
		return r
	}
	vals, _ := url.ParseQuery(r.RawQuery)
	if vals.Del(l.name); text != "" {
		vals.Set(l.name, text)
	}
	base, _, _ := strings.Cut(r.URL, "?")
	r.RawQuery = vals.Encode()
	r.URL = base + "?" + r.RawQuery
	return r
}

func (a *accepted) refused(t *testing.T, what string, r *Request, want ...Reason) {
	t.Helper()
	res := a.ver.Verify(r)
	if res.Reason == OK || res.Events != nil || res.Handshake != nil || res.Secret != "" && res.Reason == ReasonSignatureMismatch && a.ver.mode.JWT == nil {
		t.Errorf("%s: got %s with %d events, want a refusal with nothing in it", what, res.Reason, len(res.Events))
		return
	}
	if len(want) > 0 && !slices.Contains(want, res.Reason) {
		t.Errorf("%s: got %s, want one of %s", what, res.Reason, want)
	}
}

func TestDerivedBodyTampering(t *testing.T) {
	t.Parallel()
	for _, a := range acceptedVectors(t) {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			if !a.ver.Row().BodySigned {
				return // TestRowFacts holds the row against its scheme
			}
			step := 1 + len(a.req.Body)/50
			for i := 0; i < len(a.req.Body); i += step {
				r := copyRequest(a.req)
				r.Body[i] ^= 0x01
				a.refused(t, "flipped byte of the body", r)
			}
			for what, body := range map[string][]byte{
				"byte appended":   append(bytes.Clone(a.req.Body), '\n'),
				"byte put before": append([]byte{' '}, a.req.Body...),
				"BOM put before":  append([]byte("\xef\xbb\xbf"), a.req.Body...),
			} {
				r := copyRequest(a.req)
				r.Body = body
				a.refused(t, what, r)
			}
			if len(a.req.Body) > 0 {
				r := copyRequest(a.req)
				r.Body = r.Body[:len(r.Body)-1]
				a.refused(t, "byte cut off", r)
			}
		})
	}
}

func TestDerivedSignatureTampering(t *testing.T) {
	t.Parallel()
	for _, a := range acceptedVectors(t) {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			l, text, part, ok := a.credential()
			if !ok {
				a.tamperInBody(t)
				return
			}
			at := strings.Index(text, part)
			for i := 0; i < len(part); i += 1 + len(part)/100 {
				b := []byte(text)
				b[at+i] ^= 0x01
				a.refused(t, "flipped byte of the signature", a.with(l, string(b)))
			}
			gone := copyRequest(a.req)
			for _, p := range a.credentialPlaces() {
				p.name = strings.Replace(p.name, "#", "1", 1)
				one := a
				one.req = gone
				if p.kind == kindHeader || p.kind == kindQuery {
					gone = one.with(p, "")
				}
			}
			a.refused(t, "signature dropped", gone, ReasonSignatureMissing)
			if l.kind == kindHeader {
				r := copyRequest(gone)
				r.Header[l.name] = []string{""}
				a.refused(t, "signature emptied", r, ReasonSignatureMissing)
			}
			a.refused(t, "endless signature", a.with(l, strings.Repeat("x", maxTokenLen+1)))
			if part != "" {
				a.refused(t, "half a signature", a.with(l, text[:at+len(part)/2]))
			}
			if s := schemeOf(a.ver.auth); l.kind == kindHeader && (s == nil || s.format == FormatPlain && !s.repeat) {
				r := copyRequest(a.req)
				r.Header.Add(l.name, text)
				a.refused(t, "signature sent twice", r, ReasonSignatureMalformed, ReasonSignatureMissing)
			}
			if s := schemeOf(a.ver.auth); s != nil && s.format == FormatKV && s.tsKey != "" && !s.groups {
				r := copyRequest(a.req)
				r.Header.Add(l.name, text)
				a.refused(t, "list with two timestamps", r, ReasonSignatureMalformed)
			}
		})
	}
}

// tamperInBody flips the bytes of a signature that stands in the body as it is.
func (a *accepted) tamperInBody(t *testing.T) {
	t.Helper()
	s := schemeOf(a.ver.auth)
	if s == nil {
		return
	}
	x := &exchange{req: a.req, url: a.ver.signedURL(a.req), options: a.ver.options}
	s.read(x)
	for _, c := range x.cands.all() {
		i := bytes.Index(a.req.Body, []byte(c.text))
		if i < 0 {
			continue // written with escapes
		}
		for k := range c.text {
			r := copyRequest(a.req)
			r.Body[i+k] ^= 0x01
			a.refused(t, "flipped byte of the signature in the body", r)
		}
	}
}

func TestDerivedTimeShift(t *testing.T) {
	t.Parallel()
	for _, a := range acceptedVectors(t) {
		s := a.ver.mode.scheme()
		if s == nil || s.Tolerance == 0 || !a.ver.Verify(a.req).HasSkew {
			continue
		}
		fetched := a.ver.mode.fetches()
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			tolerance := time.Duration(s.Tolerance)
			signed := a.req.Now.Add(-a.ver.Verify(a.req).Skew)
			for _, tt := range []struct {
				at   time.Duration
				want Reason
			}{
				{-tolerance - time.Nanosecond, ReasonTimestampFuture}, {-tolerance, OK}, {0, OK},
				{tolerance, OK}, {tolerance + time.Nanosecond, ReasonTimestampOld},
				{100 * 365 * 24 * time.Hour, ReasonTimestampOld}, {-30 * 365 * 24 * time.Hour, ReasonTimestampFuture},
			} {
				r := copyRequest(a.req)
				r.Now = signed.Add(tt.at)
				res := a.ver.Verify(r)
				if res.Reason != tt.want || res.Skew != tt.at || !res.HasSkew {
					t.Errorf("%v after signing: got %s, skew %v, want %s (fetched: %t)", tt.at, res.Reason, res.Skew, tt.want, fetched)
				}
				if tt.want != OK && (res.Events != nil || res.Handshake != nil) {
					t.Errorf("%v after signing: a refusal has events", tt.at)
				}
			}
		})
	}
}

// TestDerivedTokenTimes shifts the clock past what a token says of itself.
func TestDerivedTokenTimes(t *testing.T) {
	t.Parallel()
	n := 0
	for _, a := range acceptedVectors(t) {
		f, ok := a.ver.auth.(*jwtAuth)
		if !ok {
			continue
		}
		x := &exchange{req: a.req, url: a.ver.signedURL(a.req), options: a.ver.options}
		tok, _ := f.cut(x)
		claims, _ := f.payload(x, tok)
		var times struct{ Exp, Nbf, Iat int64 }
		if json.Unmarshal(claims, &times) != nil {
			t.Fatalf("%s: claims can't be read", a.name)
		}
		leeway := time.Duration(f.Leeway)
		r := copyRequest(a.req)
		if times.Exp > 0 {
			n++
			r.Now = time.Unix(times.Exp, 1).Add(leeway)
			a.refused(t, a.name+": after exp", r, ReasonTimestampOld, ReasonTimestampFuture)
		}
		if times.Nbf > 0 {
			n++
			r.Now = time.Unix(times.Nbf, -1).Add(-leeway)
			a.refused(t, a.name+": before nbf", r, ReasonTimestampFuture)
		}
		if times.Iat > 0 && f.MaxAge > 0 {
			n++
			r.Now = time.Unix(times.Iat, 1).Add(time.Duration(f.MaxAge))
			a.refused(t, a.name+": older than it may be", r, ReasonTimestampOld)
		}
	}
	if n == 0 {
		t.Error("no token has times")
	}
}

func TestDerivedTimestampHeader(t *testing.T) {
	t.Parallel()
	numbers := map[string][]Reason{
		"": {ReasonTimestampMissing}, "-1": {ReasonTimestampMalformed}, "+1": {ReasonTimestampMalformed},
		" 1": {ReasonTimestampMalformed}, "1.5": {ReasonTimestampMalformed}, "0x10": {ReasonTimestampMalformed},
		"１": {ReasonTimestampMalformed}, "1\x00": {ReasonTimestampMalformed},
		strings.Repeat("9", 400): {ReasonTimestampMalformed}, strings.Repeat("9", 21): {ReasonTimestampMalformed},
		strings.Repeat("9", 20): {ReasonSignatureMismatch, ReasonTimestampFuture}, "0": {ReasonSignatureMismatch, ReasonTimestampOld},
	}
	dates := map[string][]Reason{
		"": {ReasonTimestampMissing}, "1": {ReasonTimestampMalformed}, "2025-13-01T00:00:00Z": {ReasonTimestampMalformed},
		"2025-01-01": {ReasonTimestampMalformed}, "2025-01-01T00:00:00": {ReasonTimestampMalformed}, "yesterday": {ReasonTimestampMalformed},
		"2025-01-01T00:00:00." + strings.Repeat("1", 400) + "Z": {ReasonTimestampMalformed},
		"1999-01-01T00:00:00Z": {ReasonSignatureMismatch, ReasonTimestampOld},
	}
	for _, a := range acceptedVectors(t) {
		s := a.ver.mode.scheme()
		if s == nil || !strings.HasPrefix(s.Timestamp, "header:") || strings.Contains(s.Timestamp, "??") || s.TimeOptional || s.Unit == AnyTime || s.Unit == HTTPDate {
			continue
		}
		bad := numbers
		if s.Unit == RFC3339 {
			bad = dates
		}
		name := http.CanonicalHeaderKey(strings.TrimPrefix(s.Timestamp, "header:"))
		for val, want := range bad {
			r := copyRequest(a.req)
			r.Header[name] = []string{val}
			a.refused(t, a.name+": timestamp "+val, r, want...)
		}
		r := copyRequest(a.req)
		r.Header.Add(name, r.Header.Get(name))
		a.refused(t, a.name+": timestamp twice", r, ReasonTimestampMalformed)
		r = copyRequest(a.req)
		r.Header.Del(name)
		a.refused(t, a.name+": timestamp dropped", r, ReasonTimestampMissing)
	}
}

func TestDerivedSecrets(t *testing.T) {
	t.Parallel()
	for _, a := range acceptedVectors(t) {
		if takes, _ := a.ver.mode.takes(); !takes {
			continue // keys of the other sort: TestPublicKeys
		}
		cfg := Config{Row: a.row, Options: map[string]string{}, Fetcher: vectorFetcher{&a.vec}, Roots: a.vec.roots()}
		if err := a.vec.options(a.row, &cfg); err != nil {
			t.Fatal(err)
		}
		cfg.Auth = a.ver.Mode()
		var right []string
		for _, sec := range a.vec.Secrets {
			right = append(right, sec.Value.Reveal())
		}
		if a.vec.Secret != nil {
			right = []string{*a.vec.Secret}
		}
		if len(right) == 0 {
			continue
		}
		with := func(secrets ...Secret) *Verifier {
			cfg.Secrets = secrets
			v, err := New(cfg)
			if err != nil {
				t.Fatalf("%s: %v", a.name, err)
			}
			return v
		}
		wrong := Secret{ID: "wrong", Value: NewSecretString(wrongSecret(a.ver.mode))}
		good := Secret{ID: "good", Value: NewSecretString(right[len(right)-1]), Caller: "somebody"}
		if with(good).Verify(a.req).Reason != OK {
			continue // only another of the vector's secrets matches
		}
		if res := with(wrong).Verify(a.req); res.Reason != ReasonSignatureMismatch || res.Secret != "" {
			t.Errorf("%s: wrong secret gave %s", a.name, res.Reason)
		}
		if res := with().Verify(a.req); res.Reason != ReasonNoSecret || !with().Offline() {
			t.Errorf("%s: no secret gave %s", a.name, res.Reason)
		}
		for _, order := range [][]Secret{{wrong, good}, {good, wrong}} {
			if res := with(order...).Verify(a.req); res.Reason != OK || res.Secret != "good" || res.Caller != "somebody" {
				t.Errorf("%s: two secrets gave %s under %q by %q", a.name, res.Reason, res.Secret, res.Caller)
			}
		}
		old := good
		old.NotAfter = a.req.Now
		if res := with(old, wrong).Verify(a.req); res.Reason != ReasonSignatureMismatch {
			t.Errorf("%s: a secret that has ended beside a wrong one gave %s", a.name, res.Reason)
		}
		good.NotAfter = a.req.Now
		if res := with(good).Verify(a.req); res.Reason != ReasonNoSecret {
			t.Errorf("%s: a secret that ends now gave %s", a.name, res.Reason)
		}
		good.NotAfter, good.NotBefore = time.Time{}, a.req.Now.Add(1)
		if res := with(good).Verify(a.req); res.Reason != ReasonNoSecret {
			t.Errorf("%s: a secret not yet valid gave %s", a.name, res.Reason)
		}
		good.NotBefore, good.NotAfter = a.req.Now, a.req.Now.Add(1)
		if res := with(good).Verify(a.req); res.Reason != OK {
			t.Errorf("%s: a secret valid just now gave %s", a.name, res.Reason)
		}
		for _, empty := range []string{"", "whsec_"} {
			cfg.Secrets = []Secret{{Value: NewSecretString(empty)}}
			if m := a.ver.mode; empty != "" && (m.HMAC == nil || m.HMAC.Secret != SecretWhsec) {
				continue
			}
			if _, err := New(cfg); err == nil {
				t.Errorf("%s: New took the empty secret %q", a.name, empty)
			}
		}
	}
}

// wrongSecret is of the form the mode takes and matches nothing.
func wrongSecret(m Mode) string {
	if m.Basic != nil {
		return "nobody:at all"
	}
	if m.HMAC != nil && m.HMAC.Secret == SecretHex {
		return strings.Repeat("ab", 32)
	}
	if m.HMAC != nil && m.HMAC.Secret == SecretBase64 {
		return strings.Repeat("QUJD", 8)
	}
	return "whsec_" + strings.Repeat("QUJD", 8)
}

// TestDerivedOtherAlgorithm signs with the right secret and another digest.
func TestDerivedOtherAlgorithm(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	n := 0
	for _, row := range Providers() {
		for _, m := range row.Modes {
			if m.HMAC == nil || m.Custom != "" || !row.CanSign(m.Name) {
				continue
			}
			n++
			cfg := trialConfig(t, row, m, nil)
			right := mustNew(t, cfg)
			for _, d := range []Digest{SHA1, SHA256, SHA384, SHA512} {
				if d == m.HMAC.Digest || d == SHA256 && m.HMAC.Digest == "" {
					continue
				}
				other := row.clone()
				for i := range other.Modes {
					if other.Modes[i].Name == m.Name {
						other.Modes[i].HMAC.Digest = d
						other.Modes[i].HMAC.Prefix = strings.ReplaceAll(m.HMAC.Prefix, "{digest}", string(cmp.Or(m.HMAC.Digest, SHA256)))
					}
				}
				cfg.Row = other
				s, err := mustNew(t, cfg).Sign(SignRequest{Now: now, ID: "e", Type: "t", URL: "https://a.test/in"})
				if err != nil {
					t.Errorf("%s %s: %v", row.Name, m.Name, err)
					continue
				}
				if res := right.Verify(request(s, now)); res.Reason != ReasonSignatureMismatch {
					t.Errorf("%s %s: signed with %s: %s", row.Name, m.Name, d, res.Reason)
				}
			}
		}
	}
	if n == 0 {
		t.Error("no row signs")
	}
}

func TestDerivedSignedID(t *testing.T) {
	t.Parallel()
	n := 0
	for _, a := range acceptedVectors(t) {
		l, ok := firstHeader(a.ver.read.id)
		if !ok || !a.ver.Row().IDSigned || a.req.Header.Get(l.name) == "" {
			continue
		}
		n++
		r := copyRequest(a.req)
		r.Header.Set(l.name, "another")
		a.refused(t, a.name+": other ID", r, ReasonSignatureMismatch)
		r = copyRequest(a.req)
		r.Header.Del(l.name)
		a.refused(t, a.name+": no ID", r, ReasonSignedPartMissing, ReasonSignatureMismatch)
		r = copyRequest(a.req)
		r.Header.Add(l.name, r.Header.Get(l.name))
		a.refused(t, a.name+": ID twice", r, ReasonSignedPartMissing)
	}
	if n == 0 {
		t.Error("no vector has a signed ID header")
	}
}

// TestManySignatures holds the cost of a hostile header down: whatever is in it,
// it is refused after a bounded look. Not parallel: it counts allocations.
func TestManySignatures(t *testing.T) {
	for _, a := range acceptedVectors(t) {
		s := schemeOf(a.ver.auth)
		l, sig, part, ok := a.credential()
		if !ok || s == nil || s.format == FormatPlain || l.kind != kindHeader || s.groups || part == "" {
			continue
		}
		name := l.name
		sep := map[Format]string{FormatKV: s.sep[:1] + s.key + "=", FormatList: " " + s.key + ",", FormatPositional: s.sep[:1], FormatMany: s.sep[:1]}[s.format]
		one := sep + strings.Repeat("0", 64)
		r := copyRequest(a.req)
		r.Header.Set(name, sig+strings.Repeat(one, 10_000))
		a.refused(t, a.name+": 10,000 signatures", r, ReasonSignatureMalformed)
		if n := testing.AllocsPerRun(1, func() { a.ver.Verify(r) }); n > 20 {
			t.Errorf("%s: 10,000 signatures cost %v allocations", a.name, n)
		}
		r.Header.Set(name, sig+strings.Repeat(sep+"00", maxCandidates))
		a.refused(t, a.name+": one signature too many", r, ReasonSignatureMalformed)
		other, ok := map[Format]string{FormatKV: "x=1", FormatList: "v0,AA"}[s.format]
		if !ok {
			continue
		}
		r.Header.Set(name, strings.Repeat(other+sep[:1], maxSignatureLen/len(other))+sig)
		a.refused(t, a.name+": a list without end", r, ReasonSignatureMalformed)
		r = copyRequest(a.req)
		for range maxCandidates {
			r.Header.Add(name, other)
		}
		a.refused(t, a.name+": one header too many", r, ReasonSignatureMalformed)
		r.Header[name] = r.Header[name][:maxCandidates]
		if res := a.ver.Verify(r); res.Reason != OK {
			t.Errorf("%s: a list over %d headers is %s", a.name, maxCandidates, res.Reason)
		}
		r = copyRequest(a.req)
		for range 10_000 {
			r.Header.Add(name, sig)
		}
		a.refused(t, a.name+": 10,000 headers", r, ReasonSignatureMalformed)
	}
}
