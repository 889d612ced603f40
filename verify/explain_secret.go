package verify

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// otherSource tries the secrets of other sources.
func (l *lab) otherSource() (Cause, bool) {
	for _, o := range l.hints.Others {
		if o.Verifier == nil || o.Verifier == l.v {
			continue
		}
		for i := range o.Verifier.keys {
			k := &o.Verifier.keys[i]
			if !passes(l.with([]Secret{{ID: "other", Value: k.Value}}), l.r) {
				continue
			}
			c := Cause{ID: CauseOtherSource, Sure: true, Text: "the request is signed with the secret " + k.ID + " of the source " + o.Source +
				": it was sent to the wrong source, or the secrets are mixed up"}
			if o.Verifier.row.Name == l.v.row.Name && stageWord(o.Source+" "+k.ID) != "" {
				c.ID = CauseTestLive
				c.Text = "the request is signed with the secret " + k.ID + " of the source " + o.Source + " (" + stageWord(o.Source+" "+k.ID) + "): test and live are mixed up"
			}
			return c, true
		}
		for _, pub := range o.Verifier.publicKeys() {
			if l.publicKeyPasses(pub) {
				return Cause{ID: CauseOtherSource, Sure: true, Text: "the request is signed with the key " + pub.ID + " of the source " + o.Source}, true
			}
		}
	}
	return Cause{}, false
}

func (l *lab) publicKeyPasses(pub Secret) bool {
	v, err := New(Config{Row: l.v.row.clone(), Auth: l.v.mode.Name, Secrets: l.secrets(), PublicKeys: []Secret{pub}, PublicURL: l.v.publicURL, Options: l.v.options})
	return err == nil && passes(v, l.r)
}

// stageWord returns the word in a name that tells stages of an account apart.
func stageWord(s string) string {
	s = strings.ToLower(s)
	for _, word := range []string{"sandbox", "staging", "production", "test", "live", "prod"} {
		if strings.Contains(s, word) {
			return word
		}
	}
	return ""
}

// testLive looks for the mark of a test in a body that nothing else explains.
func (l *lab) testLive() (Cause, bool) {
	body := string(l.r.Body)
	compact := strings.NewReplacer(" ", "", "\n", "", "\t", "", "\r", "").Replace(body)
	for _, mark := range []string{`"livemode":false`, `"live":"false"`, `"live":false`, `"live_mode":false`, `"mode":"test"`, `"test":true`, `"environment":"sandbox"`, `"test_mode":true`, `"isTest":true`} {
		if strings.Contains(compact, mark) {
			return Cause{ID: CauseTestLive, Text: "the event is a test: its secret is that of the test account, and this one may be the live one"}, true
		}
	}
	return Cause{}, false
}

// secretSpace tries the secret without white space, or with the line break it lost.
func (l *lab) secretSpace() (Cause, bool) {
	label, ok := l.variants(func(s string) []string {
		return []string{strings.TrimSpace(s), strings.Join(strings.Fields(s), ""), s + "\n"}
	})
	return Cause{ID: CauseSecretSpace, Sure: true, Text: "the secret " + label + " has white space that does not belong to it"}, ok
}

// secretQuotes tries the secret without quotes.
func (l *lab) secretQuotes() (Cause, bool) {
	label, ok := l.variants(func(s string) []string {
		t := strings.TrimSpace(s)
		return []string{strings.Trim(t, `"`), strings.Trim(t, `'`), strings.Trim(t, "`"), strings.Trim(t, `"'`+"`")}
	})
	return Cause{ID: CauseSecretQuotes, Sure: true, Text: "the secret " + label + " was pasted with its quotes"}, ok
}

// secretPrefix tries the secret with and without the prefixes that consoles show.
func (l *lab) secretPrefix() (Cause, bool) {
	label, ok := l.variants(func(s string) []string {
		bare := strings.TrimPrefix(strings.TrimPrefix(s, "v1,"), "whsec_")
		out := []string{strings.TrimPrefix(s, "v1,"), bare, "whsec_" + bare, "v1,whsec_" + bare}
		for _, p := range []string{"Bearer ", "bearer ", "secret=", "sha256=", "whsec=", "key="} {
			out = append(out, strings.TrimPrefix(s, p))
		}
		if _, val, found := strings.Cut(s, "="); found && val != "" {
			out = append(out, strings.Trim(val, `"' `))
		}
		return out
	})
	return Cause{ID: CauseSecretPrefix, Sure: true, Text: "the secret " + label + " has a prefix too many or too few (such as v1, or whsec_)"}, ok
}

// secretForm tries the secret decoded once more or once less.
func (l *lab) secretForm() (Cause, bool) {
	label, ok := l.variants(func(s string) []string {
		out := []string{hex.EncodeToString([]byte(s)), base64.StdEncoding.EncodeToString([]byte(s))}
		if b, err := hex.DecodeString(s); err == nil {
			out = append(out, string(b), base64.StdEncoding.EncodeToString(b))
		}
		if b, ok := decodeBase64(s); ok {
			out = append(out, string(b), hex.EncodeToString(b))
		}
		return out
	})
	if !ok && l.v.mode.HMAC != nil {
		for _, form := range []SecretForm{SecretRaw, SecretHex, SecretBase64, SecretWhsec} {
			if passes(l.rebuild(nil, func(m *Mode) { m.HMAC.Secret = form }), l.r) {
				label, ok = string(form), true
				break
			}
		}
	}
	return Cause{ID: CauseSecretEncoding, Sure: true, Text: "the secret (" + label + ") was decoded once too often or not at all: give it as the provider shows it"}, ok
}
