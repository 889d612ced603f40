package gateway

import (
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/verify"
)

// sourceRedact checks the paths that are not shown, and that no indexed field
// shows them all the same.
func (c *checker) sourceRedact(s *SourceConfig, n *node) {
	at := n.get("redact")
	if at == nil || at.bad {
		return
	}
	for i, p := range s.Redact {
		if _, err := verify.ParsePath(p); err != nil {
			c.rep.at(at.item(i), err.Error(), `want a path in the JSON body such as "data.object.card"`)
		}
	}
	all := audit.NewRedaction(s.Redact)
	for _, name := range n.get("index").names() {
		if all.Covers(strings.TrimPrefix(s.Index[name], "body:")) {
			c.rep.at(n.get("index").get(name), "the indexed field "+strconv.Quote(name)+" would show what redact hides", "index another field, or take it off redact")
		}
	}
}

// names are the keys of a table, none when it isn't there.
func (n *node) names() []string {
	if n == nil {
		return nil
	}
	return n.keys
}

// redaction is what is not shown of the bodies of a source, also of one that
// went by that name before.
func (g *Gateway) redaction(source string) *audit.Redaction {
	cfg := g.gen.Load().cfg
	for i := range cfg.Sources {
		if s := &cfg.Sources[i]; s.Name == source || slices.Contains(s.Formerly, source) {
			return audit.NewRedaction(s.Redact)
		}
	}
	return nil
}
