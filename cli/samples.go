package cli

import (
	"encoding/json"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
)

// samplesDir is where [IO.Samples] has the sample bodies: one directory for each
// provider, in it a file TYPE.json or TYPE.form for each type. The first type, in
// the order of their names, is the provider's default.
const samplesDir = "testdata/samples"

// samples are the bodies that trigger and sign have for well-known providers.
type samples struct{ fs fs.FS }

func (a *app) samples() samples { return samples{a.Samples} }

// types are the types of one provider, sorted.
func (s samples) types(provider string) []string {
	if s.fs == nil {
		return nil
	}
	dir := path.Join(samplesDir, provider)
	var out []string
	_ = fs.WalkDir(s.fs, dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			typ := strings.TrimPrefix(name, dir+"/")
			out = append(out, strings.TrimSuffix(typ, path.Ext(typ)))
		}
		return nil // a provider without samples has no directory
	})
	slices.Sort(out)
	return out
}

// sample is a body with {{id}} where the event ID goes. All else in it is fixed, so
// that the same ID is the same body, as from a provider that sends again.
type sample struct {
	typ, text string
	form      bool
}

// find is the sample of a type, or the provider's default for an empty type.
func (s samples) find(provider, typ string) (sample, bool) {
	if s.fs == nil {
		return sample{}, false
	}
	if typ == "" {
		all := s.types(provider)
		if len(all) == 0 {
			return sample{}, false
		}
		typ = all[0]
	}
	for _, ext := range []string{".json", ".form"} {
		name := path.Join(samplesDir, provider, typ+ext)
		if !fs.ValidPath(name) || !strings.HasPrefix(name, path.Join(samplesDir, provider)+"/") {
			continue
		}
		if text, err := fs.ReadFile(s.fs, name); err == nil {
			return sample{typ: typ, text: string(text), form: ext == ".form"}, true
		}
	}
	return sample{}, false
}

// body is the body of the event with that ID.
func (s sample) body(id string) []byte {
	text := strings.TrimSuffix(s.text, "\n") // an editor's, no provider's
	if s.form {
		return []byte(strings.ReplaceAll(text, "{{id}}", url.QueryEscape(id)))
	}
	quoted, _ := json.Marshal(id) // text always encodes
	return []byte(strings.ReplaceAll(text, "{{id}}", string(quoted[1:len(quoted)-1])))
}

// contentType is the body's.
func (s sample) contentType() string {
	if s.form {
		return "application/x-www-form-urlencoded"
	}
	return "application/json"
}
