package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/verify"
)

// family is a mode in a word or two.
func family(m verify.Mode) string {
	switch {
	case m.HMAC != nil && m.HMAC.Plain:
		return string(digestOf(m.HMAC)) + " digest"
	case m.HMAC != nil:
		return "hmac-" + string(digestOf(m.HMAC))
	case m.Token != nil:
		return "token"
	case m.Basic != nil:
		return "basic"
	case m.PublicKey != nil:
		return string(m.PublicKey.Algorithm)
	case m.JWT != nil:
		return "jwt"
	case m.None:
		return "unsigned"
	}
	return "own scheme"
}

func digestOf(h *verify.HMAC) verify.Digest {
	if h.Digest == "" {
		return verify.SHA256
	}
	return h.Digest
}

// families are the distinct families of a row, in the order of its modes.
func families(r verify.Row) []string {
	var out []string
	for _, m := range r.Modes {
		if f := family(m); !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

// schemeOf is what a mode's signatures have in common, nil where there is none.
func schemeOf(m verify.Mode) *verify.Scheme {
	switch {
	case m.HMAC != nil:
		return &m.HMAC.Scheme
	case m.PublicKey != nil:
		return &m.PublicKey.Scheme
	}
	return nil
}

// signing says in one sentence how a mode authenticates.
func signing(m verify.Mode) string {
	switch {
	case m.Token != nil && m.Token.Each != "":
		return "a shared token in " + place1(m.Token.In) + " of every element of " + m.Token.Each
	case m.Token != nil:
		return "a shared token in " + where(m.Token.In) + after(m.Token.Prefix)
	case m.Basic != nil:
		return "user and password (HTTP Basic)"
	case m.JWT != nil:
		return "a token (JWT, " + strings.Join(m.JWT.Algorithms, " or ") + ") in " + where(m.JWT.In) + after(m.JWT.Prefix) + vouches(m.JWT)
	case m.None:
		return "nothing: every request is taken"
	}
	s := schemeOf(m)
	if s == nil {
		return "a scheme of its own (" + m.Custom + ")"
	}
	parts := []string{family(m)}
	if s.Signed != "" {
		parts = append(parts, "of "+strings.Join(append([]string{s.Signed}, s.Or...), " or "))
	}
	if s.Sig != "" {
		parts = append(parts, "in "+where(s.Sig)+written(s))
	}
	return strings.Join(parts, " ")
}

// written says how a signature is spelled where it stands.
func written(s *verify.Scheme) string {
	enc := orDefault(string(s.Encoding), string(verify.Hex))
	switch s.Format {
	case verify.FormatKV:
		return fmt.Sprintf(" as %s=%s in a list", s.Key, enc)
	case verify.FormatList:
		return fmt.Sprintf(" as %s,%s in a list", s.Key, enc)
	case verify.FormatPositional, verify.FormatMany:
		return " in a list, " + enc
	}
	return after(s.Prefix) + ", " + enc
}

func after(prefix string) string {
	if prefix == "" {
		return ""
	}
	return fmt.Sprintf(" after %q", prefix)
}

// vouches says what a token says of the request.
func vouches(j *verify.JWT) string {
	switch {
	case j.In == "body:":
		return ", whose claims are the event"
	case j.Detached:
		return ", whose payload is the body"
	case j.BodyHash != "":
		return ", which vouches for the body's digest in its claim " + j.BodyHash
	}
	return ", which does not vouch for the body"
}

// timing says what a mode's signatures say of time.
func timing(m verify.Mode) string {
	if m.JWT != nil {
		if m.JWT.MaxAge > 0 {
			return "by the token; at most " + span(time.Duration(m.JWT.MaxAge)) + " old"
		}
		return "by the token's own claims"
	}
	s := schemeOf(m)
	switch {
	case s == nil || s.Timestamp == "":
		return "none is signed"
	case s.Tolerance == 0:
		return where(s.Timestamp) + "; its age is not checked"
	}
	return where(s.Timestamp) + "; at most " + short(time.Duration(s.Tolerance)) + " off"
}

// secretWords says which secret a mode takes, in which spelling.
func secretWords(m verify.Mode) string {
	switch {
	case m.None:
		return "none"
	case m.Basic != nil:
		return "user:password, with the colon between"
	case m.Token != nil:
		return "the token, as it is sent"
	case m.PublicKey != nil && m.PublicKey.Keys != nil, m.JWT != nil && m.JWT.Keys != nil:
		return "none: the provider publishes its public keys, and they are fetched"
	case m.PublicKey != nil:
		return "the provider's public key (" + string(m.PublicKey.Algorithm) + "), in public_keys"
	case m.JWT != nil && !symmetric(m.JWT):
		return "the provider's public key or key set, in public_keys"
	case m.HMAC != nil:
		return secretForm(m.HMAC.Secret)
	}
	return "the secret as the provider shows it"
}

func symmetric(j *verify.JWT) bool {
	return slices.ContainsFunc(j.Algorithms, func(a string) bool { return strings.HasPrefix(a, "HS") })
}

func secretForm(f verify.SecretForm) string {
	switch f {
	case verify.SecretHex:
		return "the secret in hexadecimal, as the provider shows it; it is decoded here"
	case verify.SecretBase64:
		return "the secret in base64, as the provider shows it; it is decoded here"
	case verify.SecretWhsec:
		return "the secret as the provider shows it, with or without whsec_; it is decoded here"
	case verify.SecretSHA1, verify.SecretSHA256:
		return "the secret as the provider shows it; its digest is made here"
	}
	return "the secret as the provider shows it, to the letter and with any prefix"
}

// where says a source of the row language in words: places with ?? between are
// alternatives.
func where(src string) string {
	var out []string
	for alt := range strings.SplitSeq(src, "??") {
		var parts []string
		for _, p := range splitPlus(strings.TrimSpace(alt)) {
			parts = append(parts, place1(p))
		}
		out = append(out, strings.Join(parts, " and "))
	}
	return strings.Join(out, ", else ")
}

// wheres says a list of alternatives in words.
func wheres(list []string) string {
	var out []string
	for _, s := range list {
		out = append(out, where(s))
	}
	return strings.Join(out, ", else ")
}

var kindAhead = regexp.MustCompile(`\+(header|query|form|json|body|parent|xml|key|claim|sig|text|path|option):`)

// splitPlus cuts a composite at the + between its parts.
func splitPlus(s string) []string {
	var out []string
	for at := kindAhead.FindStringIndex(s); at != nil; at = kindAhead.FindStringIndex(s) {
		out = append(out, s[:at[0]])
		s = s[at[0]+1:]
	}
	return append(out, s)
}

// place1 says one locator in words.
func place1(loc string) string {
	head, steps, packed := strings.Cut(loc, "|")
	kind, name, ok := strings.Cut(head, ":")
	words := map[string]string{
		"header": "header ", "query": "query parameter ", "form": "form field ", "json": "JSON ", "body": "JSON of the whole body ",
		"parent": "JSON around the element ", "xml": "XML ", "claim": "claim ", "sig": "the signature's own ", "key": "the name of the first key among ",
	}[kind]
	switch {
	case kind == "text":
		words, name = fmt.Sprintf("the word %q", name), ""
	case kind == "path":
		words, name = "the URL's path", ""
	case kind == "body" && name == "":
		words = "the whole body"
	case !ok || words == "":
		return loc
	}
	if packed {
		return words + name + " (|" + steps + ")"
	}
	return words + name
}

// batchWords says how events come together.
func batchWords(b *verify.Batch) string {
	if b == nil {
		return "one event a request"
	}
	at := "the body is an array of events"
	if b.Path != "" {
		at = "events are in " + strings.Join(append([]string{b.Path}, b.Also...), " and ")
	}
	if b.Lines {
		at = "one event a line"
	}
	if b.Whole {
		return at + ", kept together as one"
	}
	if b.Optional || len(b.When) > 0 {
		at += ", or it is a single event"
	}
	return at
}

// handshakeWords says how one rule is recognised and what protects it.
func handshakeWords(h verify.Handshake) string {
	var out []string
	switch {
	case h.Confirm != "":
		out = append(out, "the URL it names is called, on "+strings.Join(h.ConfirmHosts, " or ")+" only")
	case h.Capture != "":
		out = append(out, "the secret it hands over is kept")
	default:
		out = append(out, "is answered by itself")
	}
	switch {
	case h.Verify:
		out = append(out, "after its signature is verified")
	case len(h.Compare) > 0:
		out = append(out, "if "+strings.Join(h.Compare, " and ")+" (set it)")
	}
	switch {
	case h.Capture != "":
		out = append(out, `only while the source says registration = "pending"`)
	case h.Pending != "":
		out = append(out, "only while "+h.Pending+" is true")
	}
	return h.Name + " (" + orDefault(h.Method, "any method") + "): " + strings.Join(out, ", ")
}

// headersWords names the headers that targets get.
func headersWords(r verify.Row) string {
	all := slices.Concat(r.EventHeaders, r.SignatureHeaders)
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}
