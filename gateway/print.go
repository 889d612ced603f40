package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Print writes the effective configuration as TOML: with defaults filled in,
// every secret as [redacted:label], and no more of a target's URL than where it
// is: path and query of one may be a credential.
func (c *Config) Print(w io.Writer) error {
	enc := toml.NewEncoder(w)
	enc.SetIndentTables(false)
	if err := enc.Encode(c.redacted()); err != nil {
		return fmt.Errorf("print config: %w", err)
	}
	return nil
}

// Hash is the SHA-256, in hexadecimal, of what Print writes and of the URLs that
// stand in the file. A rotated secret doesn't change it.
func (c *Config) Hash() string { return c.hash }

func hashOf(c *Config) string { return hashAs(c, c) }

// hashAs is the hash of what is printed of shown, which is c or less, and of c's
// URLs.
func hashAs(c, shown *Config) string {
	var b bytes.Buffer
	if err := shown.Print(&b); err != nil {
		panic("gateway: " + err.Error()) // the types of Config always encode
	}
	for i, t := range c.Targets {
		if u := c.tree.get("target").item(i).get("url"); u == nil || !u.expanded {
			b.WriteString(t.URL)
		}
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:])
}

// site is a URL without more than its first part: scheme, host and port.
func site(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return "[redacted:url]"
	}
	host, more := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		host, more = rest[:i], rest[i:]
	}
	if strings.Trim(more, "/") == "" && !strings.Contains(host, "@") {
		return raw
	}
	host = host[strings.LastIndex(host, "@")+1:]
	return scheme + "://" + host + "/[redacted:path]"
}

// credentialOption matches names of options that hold a credential.
var credentialOption = regexp.MustCompile(`(?i)token|secret|passw|key$|code$|credential`)

// redacted is a copy whose free-form fields hold no credential: secrets
// redact themselves, but a URL or an option may be one too.
func (c *Config) redacted() *Config {
	out := *c
	out.Audit.Witness = shownWitness(c.Audit.Witness)
	if w := c.tree.get("audit", "witness"); w != nil && w.expanded {
		out.Audit.Witness = "[redacted:witness]"
	}
	out.Sources, out.Targets = slices.Clone(c.Sources), slices.Clone(c.Targets)
	out.Admin.Tokens = slices.Clone(c.Admin.Tokens)
	for i := range out.Admin.Tokens {
		out.Admin.Tokens[i].Hash = shortHash(out.Admin.Tokens[i].Hash)
	}
	for i := range out.Sources {
		n := c.tree.get("source").item(i)
		out.Sources[i].Options = maps.Clone(out.Sources[i].Options)
		for name := range out.Sources[i].Options {
			v := n.get("options", name)
			if credentialOption.MatchString(name) || v != nil && v.expanded {
				out.Sources[i].Options[name] = "[redacted:" + name + "]"
			}
		}
	}
	if v := c.tree.get("traces", "endpoint"); v != nil && v.expanded {
		out.Traces.Endpoint = "[redacted:endpoint]"
	}
	for i := range out.Sources {
		if v := c.tree.get("source").item(i).get("roots"); v != nil && v.expanded {
			out.Sources[i].Roots = "[redacted:roots]"
		}
	}
	for i := range out.Targets {
		if u := c.tree.get("target").item(i).get("url"); u != nil && u.expanded {
			out.Targets[i].URL = "[redacted:url]"
		} else {
			out.Targets[i].URL = site(out.Targets[i].URL)
		}
		if p := c.tree.get("target").item(i).get("proxy"); p != nil && (p.expanded || strings.Contains(p.text, "@")) {
			out.Targets[i].Proxy = "[redacted:proxy]"
		}
	}
	return &out
}
