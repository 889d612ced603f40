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
	doc, form := map[string]any{}, url.Values{}
	alts, _ := parseAlternatives(r.ID)
	putSample(alts, id, doc, form)
	types, _ := parseAlternatives(r.Type)
	putSample(types, typ, doc, form)
	if len(form) > 0 && len(doc) == 0 {
		return []byte(form.Encode()), "application/x-www-form-urlencoded"
	}
	var whole any = doc
	if r.Batch != nil {
		whole = []any{doc}
		if r.Batch.Path != "" {
			outer := map[string]any{}
			setPath(outer, r.Batch.Path, whole)
			whole = outer
		}
	}
	body, _ = json.Marshal(whole) // maps of strings always encode
	return body, "application/json"
}

// putSample puts val where the first alternative inside a body looks. A composite
// gets its parts from val split at colons, or all of it in the first part.
func putSample(alts []composite, val string, doc map[string]any, form url.Values) {
	if val == "" {
		return
	}
	for _, c := range alts {
		if c[0].kind != kindJSON && c[0].kind != kindForm {
			continue
		}
		parts := strings.SplitN(val, ":", len(c))
		for i, l := range c {
			part := "0"
			if i < len(parts) {
				part = parts[i]
			}
			if l.kind == kindForm {
				form.Set(l.name, part)
			} else if l.kind == kindJSON {
				setPath(doc, l.path, part)
			}
		}
		return
	}
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
