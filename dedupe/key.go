package dedupe

import (
	"fmt"
	"strings"

	"github.com/onceward/onceward/event"
)

// KeyedProvider is the provider whose events are keyed by caller as well.
const KeyedProvider = "idempotency-key"

// KeyFacts is what an idempotency key may be made of.
type KeyFacts struct {
	Source, Caller string
	ID             string // as received; "" for none
	Ref            event.Ref
	BodyHash       event.Hash
	HasCaller      bool // the default template names the caller
	Undeduped      bool // nothing recognises a repeat: the body is no identity
}

// KeyTemplate renders the idempotency key of an event. The nil template is
// the default one: {source}:{id}, or {source}:h:{hash} without an ID, or
// {source}:{ref} when every arrival is an event, or {source}:{caller}:{id}
// on idempotency-key sources.
type KeyTemplate struct {
	parts []string // literals at even, names at odd places
}

// ParseKeyTemplate reads a template of literals and the names {source},
// {caller}, {id}, {hash} and {ref}. {id} falls back to h:{hash} or the ref as
// in the default. An unknown name, an unclosed brace, a literal outside
// visible ASCII, or a template that names neither {id}, {hash} nor {ref} is
// an error.
func ParseKeyTemplate(s string) (*KeyTemplate, error) {
	t := &KeyTemplate{}
	distinct := false
	rest := s
	for {
		lit, after, open := strings.Cut(rest, "{")
		if !visible(lit) {
			return nil, fmt.Errorf("key template %q: literals must be visible ASCII without spaces", s)
		}
		t.parts = append(t.parts, lit)
		if !open {
			break
		}
		name, tail, closed := strings.Cut(after, "}")
		if !closed {
			return nil, fmt.Errorf("key template %q: a { is never closed", s)
		}
		switch name {
		case "source", "caller":
		case "id", "hash", "ref":
			distinct = true
		default:
			return nil, fmt.Errorf("key template %q: no {%s}; want source, caller, id, hash or ref", s, name)
		}
		t.parts = append(t.parts, name)
		rest = tail
	}
	if !distinct {
		return nil, fmt.Errorf("key template %q: needs {id}, {hash} or {ref}, else all events would share one key", s)
	}
	return t, nil
}

// Render is the key of an event: visible ASCII and at most event.MaxKey bytes, else
// {source}:sha256:{hash of the rendered text}.
func (t *KeyTemplate) Render(f KeyFacts) string {
	var key string
	switch {
	case t != nil:
		var b strings.Builder
		for i, p := range t.parts {
			if i%2 == 1 {
				p = f.part(p)
			}
			b.WriteString(p)
		}
		key = b.String()
	case f.HasCaller:
		key = f.Source + ":" + f.Caller + ":" + f.id()
	default:
		key = f.Source + ":" + f.id()
	}
	if len(key) <= event.MaxKey && visible(key) {
		return key
	}
	return f.Source + ":sha256:" + event.HashOf([]byte(key)).String()
}

func (f KeyFacts) id() string {
	switch {
	case f.ID != "":
		return f.ID
	case f.Undeduped:
		return f.Ref.String()
	}
	return "h:" + f.BodyHash.String()
}

func (f KeyFacts) part(name string) string {
	switch name {
	case "source":
		return f.Source
	case "caller":
		return f.Caller
	case "hash":
		return f.BodyHash.String()
	case "ref":
		return f.Ref.String()
	}
	return f.id()
}

func visible(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}
