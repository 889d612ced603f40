package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/verify"
)

const cardHelp = `
Prints what to do for one provider: the source to write into the config, what to
enter at the provider, which secret it is, and what to expect of it.`

func (a *app) providersCard(_ context.Context, args []string) error {
	row, ok := a.provider(args[0])
	if !ok {
		return noProvider(args[0])
	}
	c := cardOf(row, a.samples().types(row.Name))
	return a.show(c, c.write)
}

func noProvider(name string) error {
	return fail(exitNotFound, "no provider %q; see 'onceward providers list'", name)
}

// card is what to do for a provider: the field names are a contract.
type card struct {
	Name        string   `json:"name"`
	Title       string   `json:"title"`
	Docs        string   `json:"docs"`
	Paste       string   `json:"paste"`
	Secret      string   `json:"secret"`
	Events      string   `json:"events"`
	Config      string   `json:"config"`
	Signing     []string `json:"signing"`
	EventID     string   `json:"event_id"`
	NeverID     []string `json:"never_id"`
	Expect      []string `json:"expect"`
	Handshakes  []string `json:"handshakes"`
	Samples     []string `json:"samples"`
	Unconfirmed []string `json:"unconfirmed"`
}

// cardOf makes the card of a row; samples are the types that trigger has bodies
// for.
func cardOf(r verify.Row, samples []string) card {
	m := firstMode(r)
	c := card{
		Name: r.Name, Title: r.Title, Docs: r.Docs, Paste: "https://YOUR.HOST/in/" + sourceName(r), Secret: secretOf(r, m),
		Events: eventsWords(r), Config: stanza(r), EventID: idWords(r, m), NeverID: orEmpty(r.NeverID),
		Samples: orEmpty(samples), Unconfirmed: orEmpty(r.Unconfirmed), Handshakes: []string{}, Expect: expectations(r),
	}
	for _, m := range r.Modes {
		c.Signing = append(c.Signing, m.Name+": "+signing(m))
	}
	for _, h := range r.Handshake {
		c.Handshakes = append(c.Handshakes, handshakeWords(h))
	}
	return c
}

// secretOf says which secret the default mode takes, and how it gets here.
func secretOf(r verify.Row, m verify.Mode) string {
	if handsOver(r) {
		return `none at first: the provider hands it over while the source says registration = "pending"; it is kept in captured/` +
			sourceName(r) + `.secret of the store's directory, and the line can go`
	}
	return secretWords(m)
}

// firstMode is the default mode, or the first where the source must choose.
func firstMode(r verify.Row) verify.Mode {
	for _, m := range r.Modes {
		if !m.Explicit {
			return m
		}
	}
	return r.Modes[0]
}

// eventsWords says which events to have sent.
func eventsWords(r verify.Row) string {
	if len(r.Type) == 0 {
		return "those your targets act on; this provider's requests don't say their type, so that routes can't choose by it"
	}
	return "those your targets act on; more can be routed by type, which is " + wheres(r.Type)
}

// idWords says how the event ID is found, and what happens without.
func idWords(r verify.Row, m verify.Mode) string {
	ids := r.ID
	if len(m.ID) > 0 {
		ids = m.ID
	}
	none := map[verify.NoID]string{
		verify.NoIDDeliver: "delivered every time", verify.NoIDRefuse: "refused",
	}[r.NoID]
	if none == "" {
		none = "recognised by the body's digest"
	}
	if len(ids) == 0 {
		return "there is none: an event is " + none
	}
	return wheres(ids) + "; without it an event is " + none
}

// expectations are the provider's habits, one a line.
func expectations(r verify.Row) []string {
	methods := r.Methods
	if len(methods) == 0 {
		methods = []string{"POST"}
	}
	limit := r.BodyLimit
	if limit == 0 {
		limit = verify.DefaultBodyLimit
	}
	out := []string{
		"sends again for " + span(time.Duration(r.Retries)) + "; an ID is remembered for " + windowOf(r),
		"waits " + span(time.Duration(r.Patience)) + " for an answer",
		strings.Join(methods, ", ") + "; bodies of up to " + size(limit) + "; " + batchWords(r.Batch),
		"the signature covers " + covers(r.IDSigned, r.BodySigned),
	}
	if !r.BodyStable {
		out = append(out, "a retry may carry other bytes")
	}
	if r.Guard == verify.GuardFlag || r.Guard == verify.GuardDrop {
		out = append(out, "the same signed bytes under another ID: "+string(r.Guard))
	}
	if names := headersWords(r); names != "" {
		out = append(out, "targets get its headers "+names)
	}
	return out
}

func windowOf(r verify.Row) string {
	w := max(r.Window, r.Retries)
	if w == 0 {
		w = verify.Duration(verify.DefaultWindow)
	}
	return span(time.Duration(w))
}

// stanza is the source to write into the config. It loads once what it names is
// set.
func stanza(r verify.Row) string {
	m := firstMode(r)
	lines := [][2]string{{"name", strconv.Quote(sourceName(r))}, {"provider", strconv.Quote(r.Name)}}
	add := func(key, val string) { lines = append(lines, [2]string{key, val}) }
	if m.Explicit {
		add("auth", strconv.Quote(m.Name))
	}
	env := strings.ToUpper(strings.ReplaceAll(r.Name, "-", "_"))
	switch kind := keyKindOf(r, m); {
	case kind == keySecret && handsOver(r):
		add("registration", `"pending"`)
	case kind == keySecret:
		add("secrets", `["${env:`+env+`_WEBHOOK_SECRET}"]`)
	case kind == keyPublic:
		add("public_keys", `["${env:`+env+`_PUBLIC_KEY}"]`)
	}
	if signsURL(m) {
		add("public_url", `"https://YOUR.HOST/in/`+sourceName(r)+`"`)
	}
	if opts := usefulOptions(r, m); len(opts) > 0 {
		var set []string
		for _, name := range slices.Sorted(maps.Keys(opts)) {
			set = append(set, name+" = "+strconv.Quote(opts[name]))
		}
		add("options", "{ "+strings.Join(set, ", ")+" }")
	}
	if len(r.Unconfirmed) > 0 {
		add("accept_unconfirmed", "true")
	}
	add("targets", "[]")
	return "[[source]]\n" + aligned(lines)
}

// aligned writes lines of TOML with their equals signs in one column.
func aligned(lines [][2]string) string {
	width := 0
	for _, l := range lines {
		width = max(width, len(l[0]))
	}
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%-*s = %s\n", width, l[0], l[1])
	}
	return b.String()
}

// sourceName is what the card calls the source: a source can't be called none.
func sourceName(r verify.Row) string {
	if r.Name == "none" {
		return "unsigned"
	}
	return r.Name
}

// What a mode is configured with.
const (
	keyNone   = "none"
	keySecret = "secret"
	keyPublic = "public"
)

// keyKindOf finds out what a mode takes by asking the verifier.
func keyKindOf(r verify.Row, m verify.Mode) string {
	opts := neededOptions(r, m)
	v, err := verify.New(verify.Config{Row: r, Auth: m.Name, Options: opts})
	switch {
	case err != nil:
		return keySecret
	case !v.Offline():
		return keyNone
	case m.PublicKey != nil, m.JWT != nil && !symmetric(m.JWT):
		return keyPublic
	}
	return keySecret
}

// signsURL reports whether the public URL is part of what is signed.
func signsURL(m verify.Mode) bool {
	if m.JWT != nil {
		return m.JWT.URLHash != "" || m.JWT.QueryHash != "" || slices.Contains(slices.Collect(maps.Values(m.JWT.Claims)), "@url")
	}
	s := schemeOf(m)
	return s != nil && slices.ContainsFunc(append([]string{s.Signed}, s.Or...), func(t string) bool { return strings.Contains(t, "{url") })
}

var optionNeeded = regexp.MustCompile(`option ([a-z0-9_-]+):`)

// neededOptions are the settings without which a mode can't be used, each with
// what to write in its place.
func neededOptions(r verify.Row, m verify.Mode) map[string]string {
	opts := map[string]string{}
	for range len(r.Options) + 1 {
		_, err := verify.New(verify.Config{Row: r, Auth: m.Name, Options: opts})
		if err == nil {
			return opts
		}
		for _, match := range optionNeeded.FindAllStringSubmatch(err.Error(), -1) {
			opts[match[1]] = optionPlaceholder(match[1])
		}
	}
	return opts
}

// usefulOptions are the needed ones and those that handshakes compare with.
func usefulOptions(r verify.Row, m verify.Mode) map[string]string {
	opts := neededOptions(r, m)
	for _, h := range r.Handshake {
		for _, c := range h.Compare {
			if _, name, _ := strings.Cut(c, "="); name != "secret" && h.Pending == "" {
				opts[name] = optionPlaceholder(name)
			}
		}
	}
	return opts
}

// handsOver reports whether the provider hands its secret over in a handshake.
func handsOver(r verify.Row) bool {
	return slices.ContainsFunc(r.Handshake, func(h verify.Handshake) bool { return h.Capture != "" })
}

// optionPlaceholder stands for a setting that only the operator knows.
func optionPlaceholder(name string) string {
	if name == "encoding_aes_key" {
		return strings.Repeat("A", 43)
	}
	return "your-" + strings.ReplaceAll(name, "_", "-")
}

// write prints the card.
func (c card) write(w io.Writer) error {
	t := table{}
	t.add("provider", c.Title+" ("+c.Name+")")
	t.add("docs", dash(c.Docs))
	t.add("paste there", c.Paste)
	t.add("secret", c.Secret)
	t.add("events", c.Events)
	t.add("event ID", c.EventID)
	for _, s := range c.NeverID {
		t.add("never the ID", s)
	}
	for _, s := range c.Signing {
		t.add("signed by", s)
	}
	for _, s := range c.Handshakes {
		t.add("handshake", s)
	}
	for _, s := range c.Expect {
		t.add("expect", s)
	}
	if len(c.Samples) > 0 {
		t.add("try", "onceward trigger "+c.Name+" TYPE: "+strings.Join(c.Samples, ", "))
	}
	for _, s := range c.Unconfirmed {
		t.add("unconfirmed", s)
	}
	if err := t.write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s", c.Config)
	return err
}
