package audit

import (
	"bytes"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/onceward/onceward/event"
)

// Masked stands where a credential stood.
const Masked = "[masked]"

// credentialParts are what names of credentials contain, once lower-cased
// and stripped of separators.
var credentialParts = []string{
	"token", "secret", "signature", "password", "passwd", "passphrase", "apikey", "accesskey", "privatekey",
	"authorization", "credential", "cookie", "hmac", "bearer", "jwt", "sessionid", "connectionstring",
}

// credentialNames are whole names too short to look for inside others.
var credentialNames = map[string]bool{
	"sig": true, "auth": true, "pwd": true, "pass": true, "otp": true, "pin": true, "mac": true, "xauth": true, "sid": true,
}

// Credential reports whether a header, parameter or field of this name looks
// like it holds a credential.
func Credential(name string) bool {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		}
		return -1
	}, name)
	if credentialNames[plain] {
		return true
	}
	for _, part := range credentialParts {
		if strings.Contains(plain, part) {
			return true
		}
	}
	return false
}

// MaskHeader returns the fields with the values of credentials replaced. The
// argument is not changed.
func MaskHeader(in []event.Field) []event.Field {
	out := make([]event.Field, len(in))
	for i, f := range in {
		if Credential(f.Name) && !lengthOnly(f.Value) {
			f.Value = Masked
		}
		out[i] = f
	}
	return out
}

// lengthOnly reports whether a value was already replaced by its length, as
// in refusals.
func lengthOnly(v string) bool {
	digits, ok := strings.CutSuffix(strings.TrimPrefix(v, "["), " bytes]")
	return ok && len(digits) < len(v)-len(" bytes]") && strings.Trim(digits, "0123456789") == ""
}

// MaskQuery returns a raw query or form body with the values of credentials
// replaced and all else as it stood. A parameter named key counts as one
// here, and JSON inside a parameter is masked as JSON.
func MaskQuery(raw string) string { return maskForm(raw, maxNested) }

func maskForm(raw string, depth int) string {
	if raw == "" {
		return ""
	}
	parts := strings.Split(raw, "&")
	for i, p := range parts {
		name, value, ok := strings.Cut(p, "=")
		if !ok {
			continue
		}
		plain, err := url.QueryUnescape(name)
		if err != nil {
			plain = name
		}
		if Credential(plain) || strings.EqualFold(plain, "key") {
			parts[i] = name + "=" + Masked
			continue
		}
		if v, err := url.QueryUnescape(value); err == nil && depth > 0 && looksJSON(v) {
			if m := maskJSON(v, depth-1); m != v {
				parts[i] = name + "=" + url.QueryEscape(m)
			}
		}
	}
	return strings.Join(parts, "&")
}

// MaskBody is the text of a body, or of its beginning, with the values of
// credentials in JSON and forms replaced. It need not be complete or valid.
// Bytes that are no UTF-8 come out as U+FFFD.
func MaskBody(b []byte) string {
	s := strings.ToValidUTF8(string(b), string(utf8.RuneError))
	if looksForm(s) {
		return maskForm(s, maxNested)
	}
	return maskJSON(s, maxNested)
}

// MaskResponse is the text of an answer's head: header lines and, after an
// empty line, the beginning of its body.
func MaskResponse(b []byte) string {
	head, body, found := bytes.Cut(b, []byte("\r\n\r\n"))
	sep := "\r\n\r\n"
	if !found {
		head, body, found = bytes.Cut(b, []byte("\n\n"))
		sep = "\n\n"
	}
	if !bytes.HasPrefix(b, []byte("HTTP/")) {
		if !found || !headerLines(head) {
			return MaskBody(b)
		}
	}
	lines := strings.Split(strings.ToValidUTF8(string(head), string(utf8.RuneError)), "\n")
	for i, l := range lines {
		name, rest, ok := strings.Cut(l, ":")
		if ok && Credential(name) {
			lines[i] = name + ": " + Masked
			if strings.HasSuffix(rest, "\r") {
				lines[i] += "\r"
			}
		}
	}
	out := strings.Join(lines, "\n")
	if found {
		out += sep + MaskBody(body)
	}
	return out
}

// headerLines reports whether every line has the form of a header.
func headerLines(head []byte) bool {
	for l := range bytes.Lines(head) {
		name, _, ok := bytes.Cut(l, []byte(":"))
		if !ok || len(name) == 0 || bytes.ContainsAny(name, " \t\"{[<") {
			return false
		}
	}
	return len(head) > 0
}

// looksForm reports whether s has the form of an encoded form: no raw space,
// quote or brace, and an equals sign in its first pair.
func looksForm(s string) bool {
	if strings.ContainsAny(s, " \t\r\n\"{}<>") {
		return false
	}
	first, _, _ := strings.Cut(s, "&")
	return strings.Contains(first, "=")
}

func looksJSON(s string) bool {
	s = strings.TrimLeft(s, " \t\r\n")
	return strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[")
}
