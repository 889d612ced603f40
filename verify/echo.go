package verify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Bounds on what a handshake gives back of one value.
const (
	maxEcho       = 4 << 10
	maxSignedEcho = 256 // where an outsider chose it and a secret goes into the answer
)

// echoKind is what a handshake does with a value before it gives it back.
type echoKind uint8

const (
	echoLiteral echoKind = iota
	echoPlain
	echoHMAC
	echoHMACBase64
	echoSHA256
)

var echoNames = [...]string{echoHMAC: "hmac:", echoHMACBase64: "hmac-base64:", echoSHA256: "sha256:"}

// echoPart is one piece of an answer: a literal, or values put together.
type echoPart struct {
	kind echoKind
	lit  string
	srcs []source
}

type namedEcho struct {
	name  string
	parts []echoPart
}

// signs reports whether the part is made from a secret and the request.
func (p *echoPart) signs() bool {
	switch p.kind {
	case echoHMAC, echoHMACBase64:
		return true
	case echoSHA256:
		secret, chosen := false, false
		for _, s := range p.srcs {
			secret = secret || s[0].kind == kindOption
			chosen = chosen || s[0].kind != kindOption && s[0].kind != kindText && s[0].kind != kindURL
		}
		return secret && chosen
	default:
		return false
	}
}

func hasEcho(parts []echoPart) bool {
	for _, p := range parts {
		if p.kind != echoLiteral {
			return true
		}
	}
	return false
}

func parseEchoes(m map[string]string) ([]namedEcho, error) {
	var out []namedEcho
	var errs []error
	for name, tmpl := range m {
		parts, err := parseEcho(tmpl)
		errs = append(errs, err)
		out = append(out, namedEcho{name, parts})
	}
	return out, errors.Join(errs...)
}

// parseEcho parses literals and {locator}, {hmac:locator} and so on.
func parseEcho(s string) ([]echoPart, error) {
	var parts []echoPart
	var lit strings.Builder
	flush := func() {
		if lit.Len() > 0 {
			parts = append(parts, echoPart{lit: lit.String()})
			lit.Reset()
		}
	}
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c != '{' && c != '}':
			lit.WriteByte(c)
			i++
		case i+1 < len(s) && s[i+1] == c:
			lit.WriteByte(c)
			i += 2
		default:
			end := strings.IndexByte(s[i:], '}')
			if c == '}' || end < 0 {
				return nil, fmt.Errorf("answer %q: unbalanced brace", s)
			}
			flush()
			p, err := parseEchoPart(s[i+1 : i+end])
			if err != nil {
				return nil, fmt.Errorf("answer %q: %w", s, err)
			}
			parts = append(parts, p)
			i += end + 1
		}
	}
	flush()
	return parts, nil
}

func parseEchoPart(at string) (echoPart, error) {
	p := echoPart{kind: echoPlain}
	for k, name := range echoNames {
		if tail, ok := strings.CutPrefix(at, name); ok && name != "" {
			p.kind, at = echoKind(k), tail
			break
		}
	}
	for _, one := range splitComposite(at) {
		src, err := parseSource(one)
		if err != nil {
			return p, err
		}
		p.srcs = append(p.srcs, src)
	}
	return p, nil
}

// render writes the parts; ok is false where a value is absent, empty, there
// twice or too long, or a key is needed and there is none. With strict, what goes
// into a MAC is held to what no event consists of.
func render(parts []echoPart, x *exchange, k *key, strict bool) (string, bool) {
	var b strings.Builder
	for i := range parts {
		p := &parts[i]
		if p.kind == echoLiteral {
			b.WriteString(p.lit)
			continue
		}
		val, ok := p.value(x, strict && p.signs())
		if !ok {
			return "", false
		}
		out, ok := p.kind.apply(val, k)
		if !ok {
			return "", false
		}
		b.WriteString(out)
	}
	return b.String(), true
}

func (p *echoPart) value(x *exchange, strict bool) (string, bool) {
	val := ""
	for _, src := range p.srcs {
		s, at, found := src.find(x)
		if found != once || s == "" || len(s) > maxEcho {
			return "", false
		}
		if own := at.kind == kindOption || at.kind == kindURL || at.kind == kindText; strict && !own && !harmless(s) {
			return "", false
		}
		val += s
	}
	return val, true
}

// harmless reports whether s can be signed for anybody: it is nothing that an
// event's signed bytes could be.
func harmless(s string) bool {
	return len(s) <= maxSignedEcho &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=") == ""
}

func (e echoKind) apply(s string, k *key) (string, bool) {
	switch e {
	case echoPlain:
		return s, true
	case echoSHA256:
		sum := sha256.Sum256([]byte(s))
		return hex.EncodeToString(sum[:]), true
	}
	if k == nil {
		return "", false
	}
	mac := hmac.New(sha256.New, []byte(k.Value.Reveal()))
	_, _ = mac.Write([]byte(s))
	if e == echoHMACBase64 {
		return base64.StdEncoding.EncodeToString(mac.Sum(nil)), true
	}
	return hex.EncodeToString(mac.Sum(nil)), true
}
