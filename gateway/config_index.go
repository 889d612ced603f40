package gateway

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/receiver"
)

const maxIndexName = 32

// sourceIndex checks the fields by which a source's events are found.
func (c *checker) sourceIndex(s *SourceConfig, n *node) {
	at := n.get("index")
	if at == nil || at.bad {
		return
	}
	if len(s.Index) > receiver.MaxIndexed {
		c.rep.at(at, strconv.Itoa(len(s.Index))+" indexed fields are too many", "want at most "+strconv.Itoa(receiver.MaxIndexed))
	}
	for _, name := range at.keys {
		v := at.get(name)
		if !indexName(name) {
			c.rep.at(keyOf(v), "an indexed field can't be called "+strconv.Quote(name), "want 1 to 32 of a-z, 0-9 and _")
		}
		if _, err := receiver.ParseField(s.Index[name]); err != nil && !v.bad && len(v.unset) == 0 {
			c.rep.at(v, err.Error(), `want source, type, id, caller, header:NAME, query:NAME, or a path in the JSON body such as "data.object.customer"`)
		}
	}
}

// keyOf is where the key of an entry stands.
func keyOf(n *node) *node {
	if n.key != nil {
		return n.key
	}
	return n
}

func indexName(s string) bool {
	return s != "" && len(s) <= maxIndexName && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// index are the indexed fields as the receiver takes them, nil for none.
func (s *SourceConfig) index() (*receiver.Index, error) {
	if len(s.Index) == 0 {
		return nil, nil
	}
	names := slices.Sorted(maps.Keys(s.Index))
	fields := make([]receiver.Field, len(names))
	for i, name := range names {
		f, err := receiver.ParseField(s.Index[name])
		if err != nil {
			return nil, err
		}
		fields[i] = f
	}
	return receiver.NewIndex(names, fields), nil
}
