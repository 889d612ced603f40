package verify

import (
	"fmt"

	"github.com/tidwall/gjson"
)

// Path is the place of one value in a JSON text: keys, or positions in a list,
// with dots between, such as data.object.id. The zero Path finds nothing.
type Path struct{ path string }

// ParsePath reads a path of keys of letters, digits, _, -, $, @, :, / and ~.
// Nothing in it is a pattern.
func ParsePath(s string) (Path, error) {
	path, ok := jsonPath(s)
	for i := range len(s) {
		ok = ok && s[i] != '*'
	}
	if !ok {
		return Path{}, fmt.Errorf("path %q: want keys of letters, digits, _, -, $, @, :, / and ~ with dots between", s)
	}
	return Path{path}, nil
}

// Find returns the value at the path in a JSON text as text: a string decoded,
// a number or boolean as it is written. It is false for anything else, for a
// text that is not JSON or nests deeper than MaxDepth, and where nothing is. Of
// a key that is there twice the first counts.
func (p Path) Find(doc []byte) (string, bool) {
	if p.path == "" || checkJSON(doc) != jsonValid {
		return "", false
	}
	s, n := scalar(gjson.GetBytes(doc, p.path))
	return s, n == once
}

// FindEach calls found for every path at which doc, a JSON text, holds
// something but null: with the value as Find gives it, or with "" and false
// when it is an object or a list. It calls nothing for a text that is not JSON
// or nests deeper than MaxDepth. The zero Path finds nothing.
func FindEach(doc []byte, paths []Path, found func(i int, value string, scalar bool)) {
	checked := false
	for i, p := range paths {
		if p.path == "" {
			continue
		}
		if !checked && checkJSON(doc) != jsonValid {
			return
		}
		checked = true
		r := gjson.GetBytes(doc, p.path)
		if s, n := scalar(r); n == once {
			found(i, s, true)
		} else if r.Type == gjson.JSON {
			found(i, "", false)
		}
	}
}
