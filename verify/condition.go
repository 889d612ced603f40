package verify

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
)

// condition holds where the locator finds something, nothing, exactly the value or
// something that begins with it.
type condition struct {
	src    source
	value  string
	exact  bool
	prefix bool
	not    bool
	skip   bool // its option is unset and may be
}

// parseCondition parses one condition. With opts nil, options are not looked up.
func parseCondition(s string, opts map[string]string) (condition, error) {
	var c condition
	at := s
	if rest, ok := strings.CutPrefix(s, "!"); ok {
		c.not, at = true, rest
	} else if i := strings.IndexByte(s, '='); i > 0 {
		at, c.value, c.exact = s[:i], s[i+1:], true
		if at[i-1] == '^' {
			at, c.exact, c.prefix = at[:i-1], false, true
		}
	}
	var err error
	if c.src, err = parseSource(at); err != nil {
		return c, err
	}
	name, ok := strings.CutPrefix(c.value, "$")
	if !ok || opts == nil {
		return c, nil
	}
	name, optional := strings.CutSuffix(name, "?")
	if c.value = opts[name]; c.value == "" {
		if !optional {
			return c, fmt.Errorf("option %s: is needed", name)
		}
		c.skip = true
	}
	return c, nil
}

// optionOf returns the option a condition names, "" where it names none.
func optionOf(s string) string {
	_, val, _ := strings.Cut(s, "=")
	name, ok := strings.CutPrefix(val, "$")
	if !ok {
		return ""
	}
	return strings.TrimSuffix(name, "?")
}

// holds reports whether the condition is met. A content type is compared without
// its parameters.
func (c *condition) holds(x *exchange) bool {
	if c.skip {
		return true
	}
	s, at, p := c.src.find(x)
	if c.not {
		return p == absent
	}
	if p != once {
		return false
	}
	if at.kind == kindHeader && at.name == "Content-Type" {
		s = mediaType(s)
	}
	switch {
	case c.exact:
		a, b := sha256.Sum256([]byte(s)), sha256.Sum256([]byte(c.value))
		return subtle.ConstantTimeCompare(a[:], b[:]) == 1
	case c.prefix:
		return strings.HasPrefix(s, c.value)
	default:
		return true
	}
}

// conditions must all hold.
type conditions []condition

func parseConditions(what string, list []string, opts map[string]string) (conditions, error) {
	var out conditions
	for _, s := range list {
		c, err := parseCondition(s, opts)
		if err != nil {
			return nil, wrap(what, err)
		}
		out = append(out, c)
	}
	return out, nil
}

func (cs conditions) hold(x *exchange) bool {
	for i := range cs {
		if !cs[i].holds(x) {
			return false
		}
	}
	return true
}
