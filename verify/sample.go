package verify

import (
	"encoding/json"
	"net/url"
	"strings"
)

// SampleBody returns the smallest body that holds id and typ where the row looks
// for them, and its content type: JSON, or a form where the row looks into forms
// only. What the row takes from headers is left to [Verifier.Sign].
func (r Row) SampleBody(id, typ string) (body []byte, contentType string) {
	s := sample{map[string]any{}, map[string]any{}, url.Values{}}
	types, _ := parseAlternatives(r.Type)
	s.put(types, typ, "\x00")
	alts, _ := parseAlternatives(r.ID)
	s.put(alts, id, ":")
	doc, form := s.doc, s.form
	path := ""
	if r.Batch != nil {
		path = r.Batch.Path
	}
	if field, ok := strings.CutPrefix(path, "form:"); ok {
		b, _ := json.Marshal([]any{doc}) // maps of strings always encode
		form.Set(field, string(b))
		clear(doc)
	}
	if len(form) > 0 && len(doc) == 0 {
		return []byte(form.Encode()), "application/x-www-form-urlencoded"
	}
	var whole any = doc
	if r.Batch != nil && len(r.Batch.When) == 0 && !strings.Contains(path, ":") {
		whole = wrapSample(path, doc, s.outer)
	}
	body, _ = json.Marshal(whole) // maps of strings always encode
	return body, "application/json"
}

// wrapSample puts an element into the arrays of a batch's path. What the row looks
// for around the elements goes into whatever encloses them.
func wrapSample(path string, doc, outer map[string]any) any {
	segs := strings.Split(path, "[]")
	var whole any = doc
	for i := len(segs) - 1; i >= 0; i-- {
		whole = []any{whole}
		seg := strings.TrimPrefix(segs[i], ".")
		if seg == "" {
			continue
		}
		around := map[string]any{}
		if i == len(segs)-1 || i == 0 {
			for k, v := range outer {
				around[k] = v
			}
		}
		setPath(around, seg, whole)
		whole = around
	}
	return whole
}

// sample is a body in the making: an element, what encloses it, a form.
type sample struct {
	doc, outer map[string]any
	form       url.Values
}

// put puts val where the first alternative inside a body looks. A composite
// gets its parts from val split at sep, or all of it in the first part.
func (s sample) put(alts []composite, val, sep string) {
	if val == "" {
		return
	}
	for _, c := range alts {
		if !sampled(c) {
			continue
		}
		parts := strings.SplitN(val, sep, len(c))
		for i, l := range c {
			part := "0"
			if i < len(parts) {
				part = parts[i]
			}
			name := strings.NewReplacer(`\`, "", "*", "x").Replace(l.path)
			switch l.kind {
			case kindForm:
				if !s.form.Has(l.name) {
					s.form.Set(l.name, part)
				}
			case kindJSON:
				setPath(s.doc, name, part)
			case kindParent, kindBody:
				setPath(s.outer, name, part)
			}
		}
		return
	}
}

// sampled reports whether all parts of an alternative are in a body of JSON or a
// form, at a place of their own.
func sampled(c composite) bool {
	for _, l := range c {
		ok := l.kind == kindJSON || l.kind == kindForm || l.kind == kindParent || l.kind == kindBody && l.path != ""
		if !ok || len(l.steps) > 0 {
			return false
		}
	}
	return true
}

// setPath sets a value in nested objects. A key that already holds a value is
// kept: the first writer wins, as it does when reading.
func setPath(doc map[string]any, path string, val any) {
	key, rest, nested := strings.Cut(path, ".")
	if !nested {
		if _, taken := doc[key]; !taken {
			doc[key] = val
		}
		return
	}
	inner, ok := doc[key].(map[string]any)
	if !ok {
		inner = map[string]any{}
		doc[key] = inner
	}
	setPath(inner, rest, val)
}
