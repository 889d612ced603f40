package verify

import (
	"errors"
	"fmt"
	"strings"
)

// composite is one alternative of an ID or type: the parts all have to be there.
type composite []locator

// parseAlternatives parses a list of locators, each perhaps a composite, and
// reports every fault.
func parseAlternatives(list []string) ([]composite, error) {
	var out []composite
	var errs []error
	for _, s := range list {
		var c composite
		for _, part := range splitComposite(s) {
			l, err := parseLocator(part)
			errs = append(errs, err)
			c = append(c, l)
		}
		out = append(out, c)
	}
	return out, errors.Join(errs...)
}

// splitComposite cuts s at every plus sign that a kind of locator follows, so
// that a plus sign inside a name stays part of it.
func splitComposite(s string) []string {
	var parts []string
	start := 0
	for i := 1; i < len(s); i++ {
		if s[i-1] != '+' {
			continue
		}
		for _, prefix := range kindNames {
			if strings.HasPrefix(s[i:], prefix) {
				parts = append(parts, s[start:i-1])
				start = i
				break
			}
		}
	}
	return append(parts, s[start:])
}

// find returns the joined parts, or "" where one is absent, empty or there twice.
func (c composite) find(x *exchange, doc []byte, join func([]string) string) string {
	if len(c) == 1 {
		s, _ := c[0].find(x, doc)
		return s
	}
	parts := make([]string, len(c))
	for i := range c {
		s, p := c[i].find(x, doc)
		if p != once || s == "" {
			return ""
		}
		parts[i] = s
	}
	return join(parts)
}

// joinID and joinType put the parts of an ID and of a type together.
func joinID(parts []string) string   { return JoinID(parts...) }
func joinType(parts []string) string { return strings.Join(parts, ".") }

// first returns the first alternative that finds something.
func first(alts []composite, x *exchange, doc []byte, join func([]string) string) string {
	for _, c := range alts {
		if s := c.find(x, doc, join); s != "" {
			return s
		}
	}
	return ""
}

// idEscaper keeps the separator of JoinID out of the parts.
var idEscaper = strings.NewReplacer("%", "%25", ":", "%3A")

// JoinID joins the parts of a composite ID with colons. Parts are escaped first,
// so that different parts never give the same ID. One part is itself, unescaped.
func JoinID(parts ...string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteByte(':')
		}
		_, _ = idEscaper.WriteString(&b, p)
	}
	return b.String()
}

// needsJSON reports whether the alternatives can only be found in a JSON body.
func needsJSON(alts []composite) bool {
	if len(alts) == 0 {
		return false
	}
	for _, c := range alts {
		n := 0
		for _, l := range c {
			if l.needsJSON() {
				n++
			}
		}
		if n == 0 {
			return false
		}
	}
	return true
}

// usesJSON reports whether any alternative looks into a JSON body.
func usesJSON(alts []composite) bool {
	for _, c := range alts {
		for _, l := range c {
			if l.needsJSON() {
				return true
			}
		}
	}
	return false
}

// unquoteKey takes the quotes from an Idempotency-Key written as a structured
// field string (RFC 9651 §3.3.3) and leaves every other value alone.
func unquoteKey(s string) (string, error) {
	if len(s) == 0 || s[0] != '"' {
		return s, nil
	}
	if len(s) < 2 || s[len(s)-1] != '"' {
		return "", errUnquote
	}
	var b strings.Builder
	inner := s[1 : len(s)-1]
	for i := 0; i < len(inner); i++ {
		c := inner[i]
		if c == '\\' {
			i++
			if i == len(inner) || inner[i] != '"' && inner[i] != '\\' {
				return "", errUnquote
			}
			c = inner[i]
		} else if c == '"' || c < 0x20 || c > 0x7e {
			return "", errUnquote
		}
		b.WriteByte(c)
	}
	return b.String(), nil
}

var errUnquote = fmt.Errorf("quoted key is not a structured-field string")
