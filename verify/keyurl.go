package verify

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
)

// urlRule says which URLs that a request names are believed.
type urlRule struct {
	hosts []string // each label by label; * stands for one label
	path  string   // * stands for anything
}

// check parses a URL that somebody else wrote and returns it in the one spelling
// that is then used; ok is false where it is not https, not on one of the hosts,
// or its path is another.
func (r urlRule) check(raw string) (string, bool) {
	if len(raw) > 2048 || strings.ContainsAny(raw, "\\ \t\r\n") {
		return "", false
	}
	u, err := url.Parse(raw)
	if err != nil || !strings.EqualFold(u.Scheme, "https") || u.User != nil || u.Opaque != "" || u.Fragment != "" {
		return "", false
	}
	if p := u.Port(); p != "" && p != "443" || strings.HasSuffix(u.Host, ":") {
		return "", false
	}
	host := strings.ToLower(u.Hostname())
	found := false
	for _, h := range r.hosts {
		found = found || hostMatches(h, host)
	}
	if !found {
		return "", false
	}
	clean := u.Path
	if clean == "" {
		clean = "/"
	}
	// Dots are resolved before the path is judged, and the judged path is the one
	// that is asked for.
	if clean = path.Clean(clean); !strings.HasPrefix(clean, "/") || r.path != "" && !globMatches(r.path, clean) {
		return "", false
	}
	out := url.URL{Scheme: "https", Host: host, Path: clean, RawQuery: u.RawQuery}
	return out.String(), true
}

// hostMatches compares label by label; a star is one label of letters, digits and
// hyphens.
func hostMatches(pattern, host string) bool {
	p, h := strings.Split(pattern, "."), strings.Split(host, ".")
	if len(p) != len(h) {
		return false
	}
	for i := range p {
		if p[i] == "*" {
			if h[i] == "" || strings.Trim(h[i], "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
				return false
			}
			continue
		}
		if p[i] != h[i] {
			return false
		}
	}
	return true
}

// globMatches matches one star with anything.
func globMatches(pattern, s string) bool {
	head, tail, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == s
	}
	return len(s) >= len(head)+len(tail) && strings.HasPrefix(s, head) && strings.HasSuffix(s, tail)
}

// checkHosts refuses host patterns that would let too much pass.
func checkHosts(hosts []string) error {
	for _, h := range hosts {
		labels := strings.Split(h, ".")
		if n := len(labels); n < 2 || labels[n-1] == "*" || labels[n-2] == "*" || h != strings.ToLower(h) || strings.Contains(h, "/") {
			return fmt.Errorf("host %q: want lower case, and no star in the last two labels", h)
		}
	}
	return nil
}

// compile makes the rule ready and refuses rows that would believe any URL.
func (k *KeySource) compile(opts map[string]string) (*keyLookup, error) {
	out := &keyLookup{src: *k, rule: urlRule{k.Hosts, k.Path}}
	var errs []error
	if (k.URL == "") == (k.In == "") {
		errs = append(errs, errors.New("keys: want either url or in"))
	}
	if k.Kind != "jwks" && k.Kind != "pem" && k.Kind != "x509" {
		errs = append(errs, fmt.Errorf("keys: kind %q: want jwks, pem or x509", k.Kind))
	}
	if k.In != "" {
		var err error
		out.in, err = parseSource(k.In)
		if err == nil && len(k.Hosts) == 0 {
			err = errors.New("a URL that the request names needs hosts")
		}
		errs = append(errs, wrap("keys", err))
	}
	errs = append(errs, wrap("keys", checkHosts(k.Hosts)))
	if k.KeyID != "" {
		var err error
		out.kid, err = parseSource(k.KeyID)
		errs = append(errs, wrap("keys", err))
	}
	if k.URL != "" {
		errs = append(errs, out.fixURL(opts))
	}
	return out, errors.Join(errs...)
}

// fixURL fills the source's settings into a fixed URL. With opts nil they are not
// looked up.
func (k *keyLookup) fixURL(opts map[string]string) error {
	s := k.src.URL
	for _, name := range optionNames(s) {
		val := opts[name]
		if opts == nil {
			val = "x"
		}
		if val == "" {
			return fmt.Errorf("option %s: the address of the keys needs it", name)
		}
		if strings.ContainsAny(val, "/?#@\\: \t\r\n{}%") {
			return fmt.Errorf("option %s: is a host name or an ID and nothing else", name)
		}
		s = strings.ReplaceAll(s, "{option:"+name+"}", val)
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return errors.New("keys: url: want https")
	}
	if len(k.src.Hosts) > 0 {
		if _, ok := (urlRule{hosts: k.src.Hosts}).check(s); !ok {
			return errors.New("keys: url: is not on one of the hosts")
		}
	}
	k.fixed = s
	return nil
}

// optionNames returns the names of the {option:NAME} in a text.
func optionNames(s string) []string {
	var out []string
	for {
		_, rest, ok := strings.Cut(s, "{option:")
		if !ok {
			return out
		}
		name, tail, ok := strings.Cut(rest, "}")
		if !ok {
			return out
		}
		out, s = append(out, name), tail
	}
}
