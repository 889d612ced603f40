package verify

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"strings"
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

// acceptedVectors loads every vector that wants ok, as fresh requests.
func acceptedVectors(t testing.TB) []accepted {
	t.Helper()
	var out []accepted
	for _, file := range []string{"github", "gitlab", "hubspot", "sendgrid", "shopify", "slack", "standard_webhooks", "stripe", "svix", "twilio"} {
		b, err := os.ReadFile("../testdata/vectors/" + file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var vs []vector
		if err := json.Unmarshal(b, &vs); err != nil {
			t.Fatal(err)
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
			if res := ver.Verify(req); res.Reason != OK {
				t.Fatalf("%s %s: %s", v.Provider, v.Case, res.Reason)
			}
			out = append(out, accepted{v.Provider + "/" + v.Case, row, v, ver, req})
		}
	}
	return out
}

// copyRequest copies so deeply that a test may change anything.
func copyRequest(r *Request) *Request {
	c := *r
	c.Header, c.Body = r.Header.Clone(), bytes.Clone(r.Body)
	return &c
}

// sigHeader returns the header the mode in effect finds its signature in.
func (a *accepted) sigHeader(t *testing.T) string {
	t.Helper()
	switch m := a.ver.mode; {
	case m.scheme() != nil:
		l, err := parseLocator(m.scheme().Sig)
		if err != nil || l.kind != kindHeader {
			t.Fatalf("signature locator of %s: %v", a.name, err)
		}
		return l.name
	case m.Token != nil:
		return strings.TrimPrefix(m.Token.In, "header:")
	default:
		t.Fatalf("%s signs nothing", a.name)
		return ""
	}
}

func (a *accepted) refused(t *testing.T, what string, r *Request, want ...Reason) {
	t.Helper()
	res := a.ver.Verify(r)
	if res.Reason == OK || res.Events != nil || res.Handshake != nil || res.Secret != "" && res.Reason == ReasonSignatureMismatch {
		t.Errorf("%s: got %s with %d events, want a refusal with nothing in it", what, res.Reason, len(res.Events))
		return
	}
	if len(want) == 0 {
		return
	}
	for _, w := range want {
		if res.Reason == w {
			return
		}
	}
	t.Errorf("%s: got %s, want one of %s", what, res.Reason, want)
}

func TestDerivedBodyTampering(t *testing.T) {
	t.Parallel()
	for _, a := range acceptedVectors(t) {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			if !a.ver.Row().BodySigned {
				if a.ver.mode.Token == nil {
					t.Fatal("only tokens leave the body unsigned here")
				}
				return
			}
			for i := range a.req.Body {
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
			name := a.sigHeader(t)
			sig := a.req.Header.Get(name)
			if strings.Count(sig, "v1") <= 1 && !strings.Contains(sig, "v1a") && !strings.Contains(sig, "v2=") {
				for i := range sig {
					b := []byte(sig)
					b[i] ^= 0x01
					r := copyRequest(a.req)
					r.Header.Set(name, string(b))
					a.refused(t, "flipped byte of the signature", r)
				}
			}
			r := copyRequest(a.req)
			r.Header.Del(name)
			a.refused(t, "signature dropped", r, ReasonSignatureMissing)
			r = copyRequest(a.req)
			r.Header.Set(name, "")
			a.refused(t, "signature emptied", r, ReasonSignatureMissing)
			r = copyRequest(a.req)
			r.Header.Set(name, strings.Repeat("x", maxSignatureLen+1))
			a.refused(t, "endless signature", r)
			r = copyRequest(a.req)
			r.Header.Set(name, sig[:len(sig)/2])
			a.refused(t, "half a signature", r)
			if f := a.ver.mode; f.scheme() == nil || f.scheme().Format == "" {
				r = copyRequest(a.req)
				r.Header.Add(name, sig)
				a.refused(t, "signature sent twice", r, ReasonSignatureMalformed)
			}
			if s := a.ver.mode.scheme(); s != nil && s.Format == FormatKV {
				r = copyRequest(a.req)
				r.Header.Add(name, sig)
				a.refused(t, "list with two timestamps", r, ReasonSignatureMalformed)
			}
		})
	}
}

func TestDerivedTimeShift(t *testing.T) {
	t.Parallel()
	for _, a := range acceptedVectors(t) {
		s := a.ver.mode.scheme()
		if s == nil || s.Tolerance == 0 {
			continue
		}
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
					t.Errorf("%v after signing: got %s, skew %v, want %s", tt.at, res.Reason, res.Skew, tt.want)
				}
				if tt.want != OK && (res.Events != nil || res.Handshake != nil) {
					t.Errorf("%v after signing: a refusal has events", tt.at)
				}
			}
		})
	}
}

func TestDerivedTimestampHeader(t *testing.T) {
	t.Parallel()
	bad := map[string]Reason{
		"": ReasonTimestampMissing, "-1": ReasonTimestampMalformed, "+1": ReasonTimestampMalformed,
		" 1": ReasonTimestampMalformed, "1.5": ReasonTimestampMalformed, "0x10": ReasonTimestampMalformed,
		"１": ReasonTimestampMalformed, "1\x00": ReasonTimestampMalformed,
		strings.Repeat("9", 400): ReasonTimestampMalformed, strings.Repeat("9", 21): ReasonTimestampMalformed,
		strings.Repeat("9", 20): ReasonSignatureMismatch, "0": ReasonSignatureMismatch,
	}
	for _, a := range acceptedVectors(t) {
		s := a.ver.mode.scheme()
		if s == nil || !strings.HasPrefix(s.Timestamp, "header:") {
			continue
		}
		name := http.CanonicalHeaderKey(strings.TrimPrefix(s.Timestamp, "header:"))
		for val, want := range bad {
			r := copyRequest(a.req)
			r.Header[name] = []string{val}
			a.refused(t, a.name+": timestamp "+val, r, want)
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
		cfg := Config{Row: a.row, Auth: a.ver.Mode()}
		if a.ver.mode.PublicKey != nil {
			continue // other keys: TestPublicKeys
		}
		var right []string
		for _, sec := range a.vec.Secrets {
			right = append(right, sec.Value.Reveal())
		}
		if a.vec.Secret != nil {
			right = []string{*a.vec.Secret}
		}
		with := func(secrets ...Secret) *Verifier {
			cfg.Secrets = secrets
			v, err := New(cfg)
			if err != nil {
				t.Fatalf("%s: %v", a.name, err)
			}
			return v
		}
		wrong := Secret{ID: "wrong", Value: NewSecretString("whsec_" + strings.Repeat("QUJD", 8))}
		good := Secret{ID: "good", Value: NewSecretString(right[len(right)-1]), Caller: "somebody"}
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

func TestDerivedSignedID(t *testing.T) {
	t.Parallel()
	n := 0
	for _, a := range acceptedVectors(t) {
		l, ok := firstHeader(a.ver.read.id)
		if !ok || !a.ver.Row().IDSigned {
			continue
		}
		n++
		r := copyRequest(a.req)
		r.Header.Set(l.name, "another")
		a.refused(t, a.name+": other ID", r, ReasonSignatureMismatch)
		r = copyRequest(a.req)
		r.Header.Del(l.name)
		a.refused(t, a.name+": no ID", r, ReasonSignedPartMissing)
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
		s := a.ver.mode.scheme()
		if s == nil || s.Format == "" {
			continue
		}
		name, sig := a.sigHeader(t), a.req.Header.Get(a.sigHeader(t))
		sep := map[Format]string{FormatKV: ",v1=", FormatList: " v1,"}[s.Format]
		one := sep + strings.Repeat("0", 64)
		r := copyRequest(a.req)
		r.Header.Set(name, sig+strings.Repeat(one, 10_000))
		a.refused(t, a.name+": 10,000 signatures", r, ReasonSignatureMalformed)
		if n := testing.AllocsPerRun(1, func() { a.ver.Verify(r) }); n > 20 {
			t.Errorf("%s: 10,000 signatures cost %v allocations", a.name, n)
		}
		r.Header.Set(name, sig+strings.Repeat(sep+"00", maxCandidates))
		a.refused(t, a.name+": one signature too many", r, ReasonSignatureMalformed)
		other := map[Format]string{FormatKV: "x=1", FormatList: "v0,AA"}[s.Format]
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
