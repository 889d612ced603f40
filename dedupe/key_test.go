package dedupe_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

type tuple struct {
	kind               dedupe.Kind
	source, caller, id string
}

func (u tuple) key() dedupe.Key { return dedupe.KeyOf(u.kind, u.source, u.caller, u.id) }

func drawTuple(t *rapid.T) tuple {
	// Few letters, with those that a careless frame would be made of.
	text := rapid.StringOfN(rapid.SampledFrom([]rune("ab:~\x00\x01\x04")), 0, 6, -1)
	return tuple{
		dedupe.Kind(rapid.IntRange(1, 4).Draw(t, "kind")),
		text.Draw(t, "source"), text.Draw(t, "caller"), text.Draw(t, "id"),
	}
}

func TestKeyOfKeepsTuplesApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawTuple(t), drawTuple(t)
		if rapid.Bool().Draw(t, "shift") { // the same text, cut in other places
			all := a.source + a.caller + a.id
			i := rapid.IntRange(0, len(all)).Draw(t, "i")
			j := rapid.IntRange(i, len(all)).Draw(t, "j")
			b = tuple{a.kind, all[:i], all[i:j], all[j:]}
		}
		if (a == b) != (a.key() == b.key()) {
			t.Fatalf("%+q and %+q: same tuple %v, same key %v", a, b, a == b, a.key() == b.key())
		}
	})
}

// The keys on disk must stay what they are.
func TestKeyOfIsFixed(t *testing.T) {
	got := event.Hash(dedupe.KeyOf(dedupe.KindID, "stripe", "", "evt_1")).String()
	const want = "c013b97e42d3ed5353c5c02a96c3f69d91c7eb2aad4c50e8434d79e37d0cec99"
	if got != want {
		t.Errorf("KeyOf = %s, want %s", got, want)
	}
}

func TestFrameID(t *testing.T) {
	for _, tt := range []struct {
		name, id string
		hashed   bool
	}{
		{"empty", "", false},
		{"usual", "evt_1", false},
		{"spaces stay", " evt 1 ", false},
		{"UTF-8 stays", "größe-日本", false},
		{"invalid UTF-8 stays", "\xff\xfe", false},
		{"longest", strings.Repeat("x", dedupe.MaxID), false},
		{"too long", strings.Repeat("x", dedupe.MaxID+1), true},
		{"line break", "a\nb", true},
		{"zero byte", "a\x00", true},
		{"delete", "a\x7f", true},
		{"escape", "\x1b[2J", true},
		{"tab", "\t", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.id
			if tt.hashed {
				want = "sha256:" + event.HashOf([]byte(tt.id)).String()
			}
			got, hashed := dedupe.FrameID(tt.id)
			if got != want || hashed != tt.hashed {
				t.Errorf("FrameID(%q) = %q, %v, want %q, %v", tt.id, got, hashed, want, tt.hashed)
			}
			if again, twice := dedupe.FrameID(got); again != got || twice {
				t.Errorf("framed again: %q, %v", again, twice)
			}
		})
	}
}

func keyFacts() dedupe.KeyFacts {
	return dedupe.KeyFacts{Source: "shop", Caller: "team", ID: "evt_1", Ref: newRef, BodyHash: bodyOne}
}

func TestKeyTemplate(t *testing.T) {
	ref, hash := newRef.String(), bodyOne.String()
	long := strings.Repeat("x", event.MaxKey-len("shop:"))
	hashed := func(s string) string { return "shop:sha256:" + event.HashOf([]byte(s)).String() }
	for _, tt := range []struct {
		name, template string // "" is the default
		edit           func(*dedupe.KeyFacts)
		want           string
	}{
		{"default", "", nil, "shop:evt_1"},
		{"default with a caller", "", func(f *dedupe.KeyFacts) { f.HasCaller = true }, "shop:team:evt_1"},
		{"default with an empty caller", "", func(f *dedupe.KeyFacts) { f.HasCaller, f.Caller = true, "" }, "shop::evt_1"},
		{"default without an ID", "", func(f *dedupe.KeyFacts) { f.ID = "" }, "shop:h:" + hash},
		{"default, every arrival an event", "", func(f *dedupe.KeyFacts) { f.ID, f.Undeduped = "", true }, "shop:" + ref},
		{"longest", "", func(f *dedupe.KeyFacts) { f.ID = long }, "shop:" + long},
		{"too long", "", func(f *dedupe.KeyFacts) { f.ID = long + "x" }, hashed("shop:" + long + "x")},
		{"a space", "", func(f *dedupe.KeyFacts) { f.ID = "a b" }, hashed("shop:a b")},
		{"a line break", "", func(f *dedupe.KeyFacts) { f.ID = "a\r\nX: y" }, hashed("shop:a\r\nX: y")},
		{"beyond ASCII", "", func(f *dedupe.KeyFacts) { f.ID = "ü" }, hashed("shop:ü")},
		{"all names", "v1/{source}/{caller}/{id}/{hash}/{ref}!", nil, "v1/shop/team/evt_1/" + hash + "/" + ref + "!"},
		{"the ID alone", "{id}", nil, "evt_1"},
		{"the ID of none", "{id}", func(f *dedupe.KeyFacts) { f.ID = "" }, "h:" + hash},
		{"twice", "{id}{id}", nil, "evt_1evt_1"},
		{"names are not read again", "{id}", func(f *dedupe.KeyFacts) { f.ID = "{ref}" }, "{ref}"},
		{"own template, too long", "{id}-{hash}", func(f *dedupe.KeyFacts) { f.ID = long }, hashed(long + "-" + hash)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var tmpl *dedupe.KeyTemplate
			if tt.template != "" {
				var err error
				if tmpl, err = dedupe.ParseKeyTemplate(tt.template); err != nil {
					t.Fatal(err)
				}
			}
			f := keyFacts()
			if tt.edit != nil {
				tt.edit(&f)
			}
			if got := tmpl.Render(f); got != tt.want {
				t.Errorf("Render = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestParseKeyTemplateErrors(t *testing.T) {
	for _, s := range []string{"", "fixed", "{source}", "{source}:{caller}", "{ID}", "{id", "{id}{", "{}", "{id}{nope}", "{id} ", "ü{id}", "{id}\n", "{{id}}"} {
		if _, err := dedupe.ParseKeyTemplate(s); err == nil {
			t.Errorf("ParseKeyTemplate(%q) is no error", s)
		}
	}
}

// keyIsSendable fails unless key may go into a header as it is.
func keyIsSendable(t *testing.T, key string) {
	t.Helper()
	if key == "" || len(key) > event.MaxKey {
		t.Errorf("key of %d bytes", len(key))
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			t.Errorf("key %q holds byte %#x", key, key[i])
		}
	}
}

func FuzzParseKeyTemplate(f *testing.F) {
	for _, s := range []string{"{id}", "{source}:{caller}:{id}", "v1-{hash}", "{ref}{", "}{id}", "{{id}}", "\x00{id}"} {
		f.Add(s, "evt_1", "team")
	}
	f.Fuzz(func(t *testing.T, s, id, caller string) {
		tmpl, err := dedupe.ParseKeyTemplate(s)
		if err != nil {
			return
		}
		facts := keyFacts()
		facts.ID, facts.Caller = id, caller
		key := tmpl.Render(facts)
		keyIsSendable(t, key)
		facts.BodyHash, facts.ID, facts.Ref = bodyTwo, id+"x", oldRef
		if other := tmpl.Render(facts); other == key {
			t.Errorf("template %q gives two events the key %q", s, key)
		}
	})
}

func TestKeysAreSendable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := keyFacts()
		f.ID, f.Caller = rapid.String().Draw(rt, "id"), rapid.String().Draw(rt, "caller")
		f.HasCaller, f.Undeduped = rapid.Bool().Draw(rt, "has caller"), rapid.Bool().Draw(rt, "undeduped")
		keyIsSendable(t, (*dedupe.KeyTemplate)(nil).Render(f))
	})
}
