package verify

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"
)

// stepKind is what a step does with a value.
type stepKind uint8

const (
	stepJSON stepKind = iota
	stepXML
	stepForm
	stepBase64
	stepLower
	stepSHA256
)

// step goes on inside a value that was found.
type step struct {
	kind stepKind
	arg  string
}

// parseSteps parses what follows the first bar of a locator.
func parseSteps(s, whole string) ([]step, error) {
	var out []step
	for _, word := range strings.Split(s, "|") {
		st, ok := parseStep(word)
		if !ok {
			return nil, fmt.Errorf("locator %q: after a bar want json:PATH, xml:PATH, form:FIELD, base64, lower or sha256", whole)
		}
		out = append(out, st)
	}
	return out, nil
}

func parseStep(word string) (step, bool) {
	switch word {
	case "base64":
		return step{kind: stepBase64}, true
	case "lower":
		return step{kind: stepLower}, true
	case "sha256":
		return step{kind: stepSHA256}, true
	}
	name, arg, ok := strings.Cut(word, ":")
	if !ok || arg == "" {
		return step{}, false
	}
	switch name {
	case "json":
		path, ok := jsonPath(arg)
		return step{stepJSON, path}, ok
	case "xml":
		return step{stepXML, arg}, true
	case "form":
		return step{stepForm, arg}, true
	default:
		return step{}, false
	}
}

// apply does the step; what can't be read is not there.
func (st *step) apply(s string) (string, presence) {
	switch st.kind {
	case stepJSON:
		if checkJSON([]byte(s)) != jsonValid {
			return "", absent
		}
		return scalar(gjson.Get(s, st.arg))
	case stepXML:
		return findXML([]byte(s), st.arg)
	case stepForm:
		vals, err := url.ParseQuery(s)
		if err != nil {
			return "", absent
		}
		return single(vals[st.arg])
	case stepLower:
		return strings.ToLower(s), once
	case stepSHA256:
		sum := sha256.Sum256([]byte(s))
		return hex.EncodeToString(sum[:]), once
	default:
		b, ok := decodeBase64(s)
		if !ok {
			return "", absent
		}
		return string(b), once
	}
}

// decodeBase64 reads either alphabet, with padding or without; line breaks don't
// count.
func decodeBase64(s string) ([]byte, bool) {
	s = strings.TrimRight(strings.NewReplacer("\r", "", "\n", "").Replace(s), "=")
	enc := base64.RawStdEncoding
	if strings.ContainsAny(s, "-_") {
		enc = base64.RawURLEncoding
	}
	b, err := enc.DecodeString(s)
	return b, err == nil
}
