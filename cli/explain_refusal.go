package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

// refusalView is what can be said of a remembered refusal: the field names are a
// contract. The gateway keeps neither signatures nor credentials, so that nothing
// can be verified again; what is left of the request still gives much away.
type refusalView struct {
	ID     string     `json:"id"`
	Source string     `json:"source"`
	Reason string     `json:"reason"`
	Detail string     `json:"detail"`
	Causes []string   `json:"causes"`
	Facts  []factView `json:"facts"`
}

func (a *app) explainRefusal(ctx context.Context, id string) error {
	return a.call(ctx, func(c *admin.Client) error {
		r, err := c.Refusal(ctx, id)
		if err != nil {
			return err
		}
		row, err := a.rowOfSource(ctx, c, r.Source)
		if err != nil {
			return err
		}
		v := viewRefusal(r, row)
		return a.show(v, v.write)
	})
}

// rowOfSource asks the gateway which provider a source has. The zero row stands
// for what isn't known.
func (a *app) rowOfSource(ctx context.Context, c *admin.Client, source string) (verify.Row, error) {
	all, err := c.Sources(ctx)
	if err != nil {
		return verify.Row{}, err
	}
	for _, s := range all {
		if s.Name != source {
			continue
		}
		if row, ok := a.provider(s.Provider); ok {
			if i := slices.IndexFunc(row.Modes, func(m verify.Mode) bool { return m.Name == s.Auth }); i > 0 {
				row.Modes[0] = row.Modes[i]
			}
			return row, nil
		}
	}
	return verify.Row{}, nil
}

func viewRefusal(r admin.Refusal, row verify.Row) refusalView {
	v := refusalView{ID: r.ID, Source: r.Source, Reason: r.Reason, Detail: r.Detail, Causes: refusalCauses(r, row)}
	add := func(name, val string) { v.Facts = append(v.Facts, factView{name, val}) }
	add("at", r.At.UTC().Format(time.RFC3339))
	add("from", dash(r.Remote))
	add("request", r.Method+" "+r.Path)
	if len(row.Modes) > 0 {
		add("provider", row.Title+" ("+row.Name+")")
		add("wants", signing(row.Modes[0]))
	}
	add("body", fmt.Sprintf("%d bytes, SHA-256 %s", r.BodyBytes, dash(r.BodySHA256)))
	if r.Skew != nil {
		add("signed", fmt.Sprintf("%.0f s before it arrived", *r.Skew))
	}
	for _, h := range r.Header {
		add("header", h.Name+": "+h.Value)
	}
	return v
}

func (v refusalView) write(w io.Writer) error {
	fmt.Fprintf(w, "refused: %s: %s\n", escape(v.Reason), escape(v.Detail))
	for i, c := range v.Causes {
		fmt.Fprintf(w, "%d. %s\n", i+1, escape(c))
	}
	for _, f := range v.Facts {
		fmt.Fprintf(w, "  %s: %s\n", f.Name, escape(f.Value))
	}
	return nil
}

// refusalCauses are what the record gives away, the likeliest first.
func refusalCauses(r admin.Refusal, row verify.Row) []string {
	var out []string
	for _, look := range []func(admin.Refusal, verify.Row) string{
		lookTime, lookSender, lookSignature, lookEncoding, lookLength, lookBody,
	} {
		if c := look(r, row); c != "" {
			out = append(out, c)
		}
	}
	if c := refusalAdvice(r.Reason); c != "" {
		out = append(out, c)
	}
	return out
}

// refusalAdvice is what a reason means by itself.
func refusalAdvice(reason string) string {
	switch verify.Reason(reason) {
	case verify.ReasonSignatureMissing:
		return "no signature came along: the provider has no secret set, a proxy dropped the header, or the sender is another"
	case verify.ReasonSignatureMalformed:
		return "what stands in the place of the signature is none of this provider's: check the provider and the mode of the source"
	case verify.ReasonSignatureMismatch:
		return "no secret matched: the secret is another one (another endpoint's, test in place of live, pasted with a blank), or something on the way changes bodies; " +
			"with the request in a file, verify --explain tries them all"
	case verify.ReasonSignedPartMissing:
		return "a header that is part of what is signed did not arrive, or arrived twice: look at the proxy"
	case verify.ReasonTimestampMissing, verify.ReasonTimestampMalformed:
		return "the signed time did not arrive as the provider writes it: look at the proxy, and at the provider of the source"
	case verify.ReasonTimestampOld, verify.ReasonTimestampFuture:
		return "the signature is right and the time is not: a clock is off, or the request was kept on the way or sent again by somebody"
	case verify.ReasonBodyMalformed:
		return "the request is authentic or nearly so, and its body can't be read: see what the provider sends as body"
	case verify.ReasonBatchTooLarge:
		return "the batch has more elements than max_elements of the source"
	case verify.ReasonHandshakeFailed:
		return "the handshake's own proof is wrong: check the options of the source that it compares"
	case verify.ReasonClaimMismatch:
		return "the token is genuine and made out for something else: check audience and the other options of the source"
	case verify.ReasonKeyUnavailable:
		return "the provider's keys could not be fetched; it is asked to send again"
	case verify.ReasonNoSecret:
		return "no secret of the source is set and valid now"
	}
	return map[string]string{
		"unknown_source":  "no source listens at this path: compare it with 'sources list'",
		"body_too_large":  "the body is larger than body_limit of the source",
		"no_id":           "the event has no ID, and the source refuses those (no_id)",
		"method":          "the provider's requests have another method",
		"bad_encoding":    "the body is compressed or encoded in a way this provider does not use",
		"body_timeout":    "the sender was too slow",
		"body_incomplete": "the sender broke off",
	}[reason]
}

func lookTime(r admin.Refusal, _ verify.Row) string {
	if r.Skew == nil {
		return ""
	}
	const milli = 1e6 // seconds; a time in milliseconds read as seconds is far beyond
	switch s := *r.Skew; {
	case s < -milli:
		return "the time is far in the future, as milliseconds are where seconds are meant"
	case s > 300:
		return fmt.Sprintf("it was signed %s before it arrived: a request that was kept, or a clock that is off", short(time.Duration(s)*time.Second))
	case s < -300:
		return fmt.Sprintf("it was signed %s in the future: a clock is off", short(time.Duration(-s)*time.Second))
	}
	return ""
}

// lookSender looks for the signature headers of another provider.
func lookSender(r admin.Refusal, row verify.Row) string {
	if row.Name == "" || hasHeader(r.Header, signatureHeader(row)) || oldHeader(r, row) != "" {
		return ""
	}
	var names []string
	for _, other := range verify.Providers() {
		h := signatureHeader(other)
		if other.Name != row.Name && distinctive(h) && hasHeader(r.Header, h) {
			names = append(names, other.Title)
		}
	}
	switch {
	case len(names) == 0:
		return ""
	case len(names) > 3:
		names = append(names[:3], "others")
	}
	return "it has the signature header of " + strings.Join(names, ", ") + ": the source's provider is another"
}

// signatureHeader is the header of a row's default signature, "" where it is
// elsewhere.
func signatureHeader(r verify.Row) string {
	if len(r.Modes) == 0 {
		return ""
	}
	src := ""
	switch m := r.Modes[0]; {
	case m.Token != nil:
		src = m.Token.In
	case m.JWT != nil:
		src = m.JWT.In
	case m.Basic != nil:
		src = "header:Authorization"
	case schemeOf(m) != nil:
		src = schemeOf(m).Sig
	}
	first, _, _ := strings.Cut(src, "??")
	first, _, _ = strings.Cut(strings.TrimSpace(first), "|")
	name, ok := strings.CutPrefix(first, "header:")
	if !ok {
		return ""
	}
	return http.CanonicalHeaderKey(name)
}

// distinctive reports whether a header is one provider's own.
func distinctive(name string) bool {
	return name != "" && name != "Authorization" && name != "X-Signature" && name != "Signature" && name != "X-Webhook-Signature"
}

func hasHeader(fields []event.Field, name string) bool {
	return slices.ContainsFunc(fields, func(f event.Field) bool { return name != "" && strings.EqualFold(f.Name, name) })
}

func headerValue(fields []event.Field, name string) string {
	for _, f := range fields {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// lookSignature holds the length of the signature against the provider's.
func lookSignature(r admin.Refusal, row verify.Row) string {
	name := signatureHeader(row)
	if name == "" {
		return ""
	}
	if !hasHeader(r.Header, name) {
		if sha1 := oldHeader(r, row); sha1 != "" {
			return "there is " + sha1 + " and no " + name + ": the sender signs the old way only"
		}
		return "there is no header " + name
	}
	s := schemeOf(row.Modes[0])
	if s == nil || row.Modes[0].HMAC == nil || s.Format != "" && s.Format != verify.FormatPlain || strings.Contains(s.Prefix, "{") {
		return ""
	}
	got, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(headerValue(r.Header, name), "["), " bytes]"))
	if want := len(s.Prefix) + signatureLength(digestOf(row.Modes[0].HMAC), s.Encoding); err == nil && got != want && !s.PrefixOptional {
		return fmt.Sprintf("%s has %d characters, and %s's have %d: another digest, encoding or prefix", name, got, row.Title, want)
	}
	return ""
}

// oldHeader is the header of a signature with SHA-1 where it came alone.
func oldHeader(r admin.Refusal, row verify.Row) string {
	name := signatureHeader(row)
	sha1 := strings.TrimSuffix(name, "-256")
	if sha1 == name || hasHeader(r.Header, name) || !hasHeader(r.Header, sha1) {
		return ""
	}
	return sha1
}

// signatureLength is how long a digest is as text.
func signatureLength(d verify.Digest, e verify.Encoding) int {
	n := map[verify.Digest]int{verify.SHA1: 20, verify.SHA256: 32, verify.SHA384: 48, verify.SHA512: 64}[d]
	switch e {
	case verify.Base64:
		return (n + 2) / 3 * 4
	case verify.Base64URL:
		return (n*8 + 5) / 6
	}
	return 2 * n
}

func lookEncoding(r admin.Refusal, _ verify.Row) string {
	if ce := headerValue(r.Header, "Content-Encoding"); ce != "" && ce != "identity" {
		return "the body came with Content-Encoding " + ce + ": providers sign what they send, see that no proxy compresses or unpacks it"
	}
	return ""
}

func lookLength(r admin.Refusal, _ verify.Row) string {
	n, err := strconv.ParseInt(headerValue(r.Header, "Content-Length"), 10, 64)
	if err == nil && n != r.BodyBytes && r.BodySHA256 != "" {
		return fmt.Sprintf("Content-Length is %d and the body has %d bytes", n, r.BodyBytes)
	}
	return ""
}

// lookBody looks at the beginning of the body for what a proxy or a tool did.
func lookBody(r admin.Refusal, _ verify.Row) string {
	switch {
	case r.BodyBytes == 0 && r.Method == http.MethodPost:
		return "the body is empty"
	case strings.HasPrefix(r.Body, "\ufeff"):
		return "the body begins with a byte order mark, which a tool added"
	case strings.HasPrefix(r.Body, "\x1f\x8b"):
		return "the body is compressed"
	case int64(len(r.Body)) == r.BodyBytes && strings.HasSuffix(r.Body, "\n") && r.Reason == string(verify.ReasonSignatureMismatch):
		return "the body ends in a line end, which tools add and most providers don't send"
	}
	return ""
}
