package verify

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// compile makes a scheme ready and reports all of its faults. The IDs are those
// of the mode; the first header among them is {id}.
func (s Scheme) compile(ids []composite) (sigScheme, error) {
	c := sigScheme{format: s.Format, sep: s.Sep, groups: s.Groups, prefix: s.Prefix, bare: s.PrefixOptional, repeat: s.Repeat,
		key: s.Key, enc: s.Encoding, unit: s.Unit, tolerance: time.Duration(s.Tolerance), tsMayLack: s.TimeOptional}
	var errs []error
	for i, p := range append([]Place{{In: s.Sig}}, s.More...) {
		src, err := parseSource(p.In)
		if err != nil {
			errs = append(errs, fmt.Errorf("sig: %w", err))
		}
		c.places = append(c.places, sigPlace{src, p.Secret})
		if i == 0 && len(s.More) > 0 {
			c.places[0].label = s.SigSecret
		}
	}
	errs = append(errs, c.compileFormat(s), c.compileTime(s), c.compileTemplates(s, ids))
	return c, errors.Join(errs...)
}

func (c *sigScheme) compileFormat(s Scheme) error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if c.format == "" {
		c.format = FormatPlain
	}
	if c.sep == "" {
		c.sep = ","
	}
	switch c.format {
	case FormatPlain, FormatPositional, FormatMany:
		if c.key != "" {
			bad("key %q: only kv and list have one", c.key)
		}
	case FormatKV, FormatList:
		if c.key == "" {
			bad("format %s: needs the key of the entries that count", c.format)
		}
		if c.prefix != "" {
			bad("prefix %q: a list of keys has none", c.prefix)
		}
	default:
		bad("format %q: want plain, kv, list, positional or many", c.format)
	}
	if c.enc == "" {
		c.enc = Hex
	}
	if c.enc != Hex && c.enc != Base64 && c.enc != Base64URL {
		bad("encoding %q: want hex, base64 or base64url", c.enc)
	}
	if c.groups && (c.format != FormatKV || len(s.More) > 0 || strings.Contains(c.sep, " ")) {
		bad("groups: want one place, format kv and no blank as separator")
	}
	if c.repeat && c.format != FormatPlain {
		bad("repeat: want format plain")
	}
	if strings.Contains(c.sep, "=") {
		bad("sep %q: holds the equals sign", c.sep)
	}
	return errors.Join(errs...)
}

func (c *sigScheme) compileTime(s Scheme) error {
	if c.unit == "" {
		c.unit = Seconds
	}
	var errs []error
	if !slices.Contains([]Unit{Seconds, Milliseconds, SecondsOrMillis, RFC3339, HTTPDate, AnyTime}, c.unit) {
		errs = append(errs, fmt.Errorf("unit %q: want s, ms, s-or-ms, rfc3339, http-date or any", c.unit))
	}
	if s.Tolerance < 0 {
		errs = append(errs, fmt.Errorf("tolerance %v: is negative", s.Tolerance))
	}
	if s.Tolerance > 0 && (s.Timestamp == "" || c.unit == AnyTime) {
		errs = append(errs, errors.New("tolerance: needs a timestamp that is read"))
	}
	if s.Timestamp == "" {
		if c.format == FormatPositional {
			errs = append(errs, errors.New(`format positional: needs timestamp = "sig:0"`))
		}
		return errors.Join(errs...)
	}
	c.hasTS = true
	key, inSig := strings.CutPrefix(s.Timestamp, "sig:")
	if !inSig {
		var err error
		c.ts, err = parseSource(s.Timestamp)
		c.tsInBody = !slices.ContainsFunc(c.ts, func(l locator) bool { return !l.inBody() })
		return errors.Join(append(errs, wrap("timestamp", err))...)
	}
	c.tsKey = key
	if ok := c.format == FormatPositional && key == "0" || c.format == FormatKV && key != "" && key != c.key; !ok {
		errs = append(errs, fmt.Errorf("timestamp %q: needs format kv and a key of its own, or format positional and sig:0", s.Timestamp))
	}
	return errors.Join(errs...)
}

func (c *sigScheme) compileTemplates(s Scheme, ids []composite) error {
	if s.Signed == "" {
		return errors.New("signed: is empty")
	}
	var errs []error
	for _, text := range append([]string{s.Signed}, s.Or...) {
		t, err := parseTemplate(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("signed: %w", err))
			continue
		}
		if t.has(partTimestamp) && !c.hasTS {
			errs = append(errs, errors.New("signed: {timestamp} needs a timestamp"))
		}
		if c.hasTS && s.Tolerance > 0 && !t.coversTimestamp(c) {
			errs = append(errs, errors.New("signed: does not cover the timestamp, so its age proves nothing"))
		}
		if t.has(partID) && c.id.name == "" {
			var ok bool
			if c.id, ok = firstHeader(ids); !ok {
				errs = append(errs, errors.New("signed: {id} needs an ID in a header"))
			}
		}
		c.tmpls = append(c.tmpls, t)
	}
	return errors.Join(errs...)
}

// coversTimestamp reports whether the time is among the signed bytes.
func (t template) coversTimestamp(c *sigScheme) bool {
	if t.has(partTimestamp) {
		return true
	}
	return c.tsKey == "" && !slices.ContainsFunc(c.ts, func(l locator) bool { return !t.covers(l) })
}

// has reports whether any template holds a part of that kind.
func (c *sigScheme) has(k partKind) bool {
	return slices.ContainsFunc(c.tmpls, func(t template) bool { return t.has(k) })
}

// covers and coversBody hold what every template covers.
func (c *sigScheme) covers(l locator) bool {
	return len(c.tmpls) > 0 && !slices.ContainsFunc(c.tmpls, func(t template) bool {
		return !t.covers(l) && !(t.has(partID) && l.same(c.id)) && !t.coversTime(c, l)
	})
}

// coversTime reports whether l is the timestamp and signed as such.
func (t template) coversTime(c *sigScheme, l locator) bool {
	return t.has(partTimestamp) && slices.ContainsFunc(c.ts, func(s locator) bool { return s.same(l) })
}

func (c *sigScheme) coversBody() bool {
	return len(c.tmpls) > 0 && !slices.ContainsFunc(c.tmpls, func(t template) bool { return !t.coversBody() })
}

// options returns the options that the templates need.
func (c *sigScheme) options() []string {
	var out []string
	for _, t := range c.tmpls {
		for _, p := range t {
			for _, l := range p.src {
				if l.kind == kindOption {
					out = append(out, l.name)
				}
			}
		}
	}
	return out
}

// firstHeader returns the first locator that is a header by itself.
func firstHeader(ids []composite) (locator, bool) {
	for _, c := range ids {
		if len(c) == 1 && c[0].kind == kindHeader && len(c[0].steps) == 0 {
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
