package verify_test

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/verify"
)

func TestPath(t *testing.T) {
	t.Parallel()
	const doc = `{"id":"evt_1","data":{"object":{"id":"ch_1","n":12345678901234567890,"ok":true,"none":null,"list":[{"id":"a"}]}},"a.b":"dotted","id":"second","@x":"at"}`
	for path, want := range map[string]string{
		"id": "evt_1", "data.object.id": "ch_1", "data.object.n": "12345678901234567890", "data.object.ok": "true",
		"data.object.none": "", "data.object": "", "data.object.list": "", "data.object.list.0.id": "a", "nothing": "", "data.id": "", "@x": "at",
	} {
		p, err := verify.ParsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := p.Find([]byte(doc)); got != want || ok != (want != "") {
			t.Errorf("%s finds %q, %v; want %q", path, got, ok, want)
		}
		for _, bad := range []string{"", "{", doc + "x", "\xef\xbb\xbf" + doc, strings.Repeat("[", 10_000)} {
			if got, ok := p.Find([]byte(bad)); ok {
				t.Errorf("%s finds %q in what is no JSON", path, got)
			}
		}
	}
	if got, ok := (verify.Path{}).Find([]byte(doc)); ok {
		t.Errorf("the zero path finds %q", got)
	}
	for _, bad := range []string{"", ".", "a.", ".a", "a..b", "a*", "*", "a|b", "a#", "#", "a?b", `a\b`, "a b\n", "{a}", "@this|x", "a[0]"} {
		if _, err := verify.ParsePath(bad); err == nil {
			t.Errorf("%q is taken for a path", bad)
		}
	}
}
