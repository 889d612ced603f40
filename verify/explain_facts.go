package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// checks lists the steps up to the one that failed.
func (v *Verifier) checks(res Result) []Check {
	steps := []struct {
		name    string
		reasons []Reason
	}{
		{"a secret or key is there", []Reason{ReasonNoSecret, ReasonKeyUnavailable}},
		{"a signature is there", []Reason{ReasonSignatureMissing}},
		{"the signature can be read", []Reason{ReasonSignatureMalformed}},
		{"the timestamp can be read", []Reason{ReasonTimestampMissing, ReasonTimestampMalformed}},
		{"what is signed is there", []Reason{ReasonSignedPartMissing}},
		{"the signature matches", []Reason{ReasonSignatureMismatch, ReasonClaimMismatch}},
		{"the time is within the tolerance", []Reason{ReasonTimestampOld, ReasonTimestampFuture}},
		{"the body can be read", []Reason{ReasonBodyMalformed, ReasonBatchTooLarge}},
		{"the handshake is right", []Reason{ReasonHandshakeFailed}},
	}
	var out []Check
	for _, s := range steps {
		if slices.Contains(s.reasons, res.Reason) {
			return append(out, Check{Name: s.name, Detail: res.Detail})
		}
		out = append(out, Check{Name: s.name, OK: true})
	}
	return out
}

// tried lists the labels of the secrets and keys.
func (v *Verifier) tried(now time.Time) []Check {
	var out []Check
	seen := map[string]bool{}
	add := func(s *Secret) {
		if s.ID == "" || seen[s.ID] {
			return
		}
		seen[s.ID] = true
		c := Check{Name: s.ID, OK: s.active(now)}
		if !c.OK {
			c.Detail = "not valid at this time"
		}
		out = append(out, c)
	}
	for i := range v.keys {
		add(&v.keys[i].Secret)
	}
	for _, s := range v.publicKeys() {
		add(&s)
	}
	return out
}

// facts are what was read of the request: lengths, digests, times, and the names of
// headers that look like signatures.
func (v *Verifier) facts(r *Request) [][2]string {
	var out [][2]string
	add := func(name, val string) { out = append(out, [2]string{name, val}) }
	add("provider", v.row.Name)
	add("auth", v.mode.Name)
	add("body", describe(r.Body))
	if ce := r.Header.Get("Content-Encoding"); ce != "" {
		add("content encoding", quoteShort(ce))
	}
	if ct := r.Header.Get("Content-Type"); ct != "" {
		add("content type", quoteShort(ct))
	}
	x := &exchange{req: r, url: v.signedURL(r), options: v.options}
	s := schemeOfAuth(v.auth)
	if s == nil {
		return out
	}
	res := s.read(x)
	for i, c := range x.cands.all() {
		add("signature "+strconv.Itoa(i+1), fmt.Sprintf("%d characters, %s", len(c.text), looksLike(c.text)))
	}
	if x.timestamp != "" {
		add("timestamp", quoteShort(x.timestamp))
	}
	if res.HasSkew {
		add("signed", age(res.Skew))
	}
	var signed countingHash
	signed.h = sha256.New()
	if res.Reason == OK && v.auth.writeSigned(x, &signed) {
		add("signed content", fmt.Sprintf("%d bytes, SHA-256 %s", signed.n, hex.EncodeToString(signed.h.Sum(nil))))
	}
	if s.has(partURL) || s.has(partURLDecoded) {
		add("signed URL", quoteShort(x.url))
	}
	if names := signatureLike(r); len(names) > 0 {
		add("headers that look like signatures", strings.Join(names, ", "))
	}
	return out
}

// countingHash is a digest that counts.
type countingHash struct {
	h interface {
		Write([]byte) (int, error)
		Sum([]byte) []byte
	}
	n int
}

// Write implements io.Writer.
func (c *countingHash) Write(b []byte) (int, error) {
	c.n += len(b)
	return c.h.Write(b)
}

func describe(b []byte) string {
	sum := sha256.Sum256(b)
	s := fmt.Sprintf("%d bytes, SHA-256 %s", len(b), hex.EncodeToString(sum[:]))
	switch {
	case len(b) >= 2 && b[0] == 0x1f && b[1] == 0x8b:
		s += ", compressed with gzip"
	case strings.HasPrefix(string(b), bomText):
		s += ", begins with a byte order mark"
	case len(b) > 0 && checkJSON(b) == jsonValid:
		s += ", JSON"
	}
	return s
}

// quoteShort quotes text of the request for a terminal.
func quoteShort(s string) string {
	if len(s) > 200 {
		s = s[:200] + "…"
	}
	return strconv.QuoteToASCII(s)
}

// looksLike says what a signature could be from its length and letters.
func looksLike(s string) string {
	if _, err := hex.DecodeString(s); err == nil {
		switch len(s) {
		case 40:
			return "hex, as long as SHA-1"
		case 64:
			return "hex, as long as SHA-256"
		case 96:
			return "hex, as long as SHA-384"
		case 128:
			return "hex, as long as SHA-512"
		}
		return "hex"
	}
	if _, ok := decodeBase64(s); ok {
		return "base64"
	}
	return "neither hex nor base64"
}

// signatureLike returns the names of headers that seem to hold a signature.
func signatureLike(r *Request) []string {
	var out []string
	for name := range r.Header {
		low := strings.ToLower(name)
		for _, word := range []string{"signature", "hmac", "-sig", "digest", "token", "authorization"} {
			if strings.Contains(low, word) {
				out = append(out, name)
				break
			}
		}
	}
	slices.Sort(out)
	return out
}

// schemeOfAuth returns the signature scheme behind a family, nil for none.
func schemeOfAuth(a authenticator) *sigScheme {
	if s, ok := a.(interface{ scheme() *sigScheme }); ok {
		return s.scheme()
	}
	return nil
}

func (c *sigScheme) scheme() *sigScheme { return c }
