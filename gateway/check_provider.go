package gateway

import (
	"strconv"
	"strings"

	"github.com/onceward/onceward/verify"
)

// providers checks the providers of the file as the built-in ones are checked.
func (c *checker) providers() {
	seen := map[string]*node{}
	c.faulty = map[string]bool{}
	for i, row := range c.cfg.Providers {
		n := c.cfg.tree.get("provider").item(i)
		at, before := n.or("name"), len(c.rep.faults)
		switch _, taken := verify.Lookup(row.Name); {
		case row.Name == "":
			c.rep.at(at, "this provider has no name", `write name = "…"`)
			continue
		case taken:
			c.rep.at(at, "there is a built-in provider "+strconv.Quote(row.Name), "choose another name")
			continue // the built-in one would shadow none of its faults
		case seen[row.Name] != nil:
			c.rep.at(at, "there is another provider "+strconv.Quote(row.Name)+" in line "+strconv.Itoa(seen[row.Name].line), "choose another name")
			continue
		}
		seen[row.Name] = at
		c.literal(n)
		if err := row.Validate(); err != nil {
			for _, e := range each(err) {
				text := strings.TrimPrefix(e.Error(), "provider "+strconv.Quote(row.Name)+": ")
				c.rep.at(rowPlace(n, text), text, `"onceward providers show NAME" prints built-in ones in the same terms`)
			}
		}
		c.faulty[row.Name] = len(c.rep.faults) > before || n.broken()
	}
}

// broken reports whether something below the node has a fault already.
func (n *node) broken() bool {
	if n.bad {
		return true
	}
	for _, k := range n.keys {
		if n.table[k].broken() {
			return true
		}
	}
	for _, el := range n.list {
		if el.broken() {
			return true
		}
	}
	return false
}

// literal refuses references in what describes a provider: it is shown and
// printed, and what differs from place to place is a source's option.
func (c *checker) literal(n *node) {
	if n.expanded {
		c.rep.at(n, "a provider holds no references", "use an option, which a source sets")
		n.bad = true
	}
	for _, k := range n.keys {
		c.literal(n.table[k])
	}
	for _, el := range n.list {
		c.literal(el)
	}
}

// rowPlace finds what a fault of a row is about: its words name the way to it,
// with colons between.
func rowPlace(n *node, text string) *node {
	at := n
	for part := range strings.SplitSeq(text, ": ") {
		word, quoted, _ := strings.Cut(part, " ")
		prefix, err := strconv.QuotedPrefix(quoted)
		name, _ := strconv.Unquote(prefix)
		if list := at.get(map[string]string{"mode": "modes", "handshake": "handshake"}[word]); list != nil && err == nil {
			for _, el := range list.list {
				if v := el.get("name"); v != nil && v.text == name {
					at = el
				}
			}
			continue
		}
		if next := at.named(strings.ReplaceAll(part, " ", "_"), word); next != nil {
			at = next
		} else if next = at.holding(name); err == nil && next != nil {
			at = next
		}
	}
	if at.kind == kindTable && at.key == nil {
		return at.or("name")
	}
	return at
}

// holding finds a list in the table with that text in it.
func (n *node) holding(text string) *node {
	for _, k := range n.keys {
		for _, el := range n.table[k].list {
			if el.kind == kindString && el.text == text {
				return n.table[k]
			}
		}
	}
	return nil
}

// named finds an entry whose name begins one of the words or is nearly one, in
// the table or one below.
func (n *node) named(words ...string) *node {
	for _, w := range words {
		for _, k := range []string{w, w + "s"} {
			if v := n.get(k); v != nil {
				return v
			}
		}
	}
	for _, k := range n.keys {
		if v := n.table[k]; v.kind == kindTable {
			if found := v.named(words...); found != nil {
				return found
			}
		}
	}
	return nil
}
