package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"

	"github.com/onceward/onceward/verify"
)

const showHelp = `
Prints every fact of one provider's row, and what nobody has confirmed of it. With
-o toml it is a [[provider]] table, as a start for a provider of your own: it loads
under the name my_NAME, because built-in names can't be taken.`

// takesTOML marks the commands that print TOML as well.
const takesTOML = "toml"

func (a *app) providersCmd() *cobra.Command {
	show := leaf("show NAME", "Show one provider: how it signs, names events and retries", showHelp, cobra.ExactArgs(1), a.providersShow)
	show.Annotations = map[string]string{takesTOML: "yes"}
	return group("providers", "What is known about each provider",
		leaf("list", "List the built-in providers", "", cobra.NoArgs, a.providersList), show,
		leaf("card NAME", "Say what to do for one provider", cardHelp, cobra.ExactArgs(1), a.providersCard))
}

func (a *app) providersList(context.Context, []string) error {
	return whole(a, a.providerViews(), []string{"NAME", "PROVIDER", "SCHEME", "EVENT ID", "REMEMBERED", "HANDSHAKE", "BATCH", "FACTS"},
		func(p providerView) []string {
			return []string{p.Name, clip(p.Title, 32), clip(strings.Join(p.Scheme, ", "), 32), clip(dash(strings.Join(p.EventID, ", ")), 40), p.Window,
				yesNo(len(p.Handshakes) > 0), yesNo(p.Batch), p.facts()}
		})
}

func (a *app) providersShow(_ context.Context, args []string) error {
	row, ok := a.provider(args[0])
	if !ok {
		return noProvider(args[0])
	}
	if a.flags.output == takesTOML {
		text, err := rowTOML(row)
		if err != nil {
			return err
		}
		return writePlain(a.Stdout, text)
	}
	p := viewProvider(row, a.samples().types(row.Name))
	var err error
	if p.Row, err = rowMap(row); err != nil {
		return err
	}
	return a.show(p, func(w io.Writer) error { return p.write(w, row) })
}

// rowTOML is a row as a provider of one's own. Its name is one that is not taken.
func rowTOML(row verify.Row) (string, error) {
	title := row.Title
	row.Name = "my_" + row.Name
	var b bytes.Buffer
	fmt.Fprintf(&b, "# What is built in for %s, as a start for a provider of your own.\n", title)
	enc := toml.NewEncoder(&b)
	enc.SetIndentTables(false)
	err := enc.Encode(struct {
		Provider []verify.Row `toml:"provider"`
	}{[]verify.Row{row}})
	if err != nil {
		return "", fmt.Errorf("print provider %q: %w", row.Name, err)
	}
	return b.String(), nil
}

// rowMap is a row under the names that TOML has for its fields.
func rowMap(row verify.Row) (map[string]any, error) {
	text, err := toml.Marshal(row)
	out := map[string]any{}
	if err == nil {
		err = toml.Unmarshal(text, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("print provider %q: %w", row.Name, err)
	}
	return out, nil
}

// providerView is a row as the command prints it: the field names are a contract.
type providerView struct {
	Name        string     `json:"name"`
	Title       string     `json:"title"`
	Docs        string     `json:"docs"`
	Auth        []string   `json:"auth"`
	Scheme      []string   `json:"scheme"`
	Methods     []string   `json:"methods"`
	EventID     []string   `json:"event_id"`
	NeverID     []string   `json:"never_id"`
	EventType   []string   `json:"event_type"`
	IDSigned    bool       `json:"id_signed"`
	BodySigned  bool       `json:"body_signed"`
	BodyStable  bool       `json:"body_stable"`
	NoID        string     `json:"no_id"`
	OnConflict  string     `json:"on_conflict"`
	Guard       string     `json:"guard"`
	Retries     string     `json:"retries"`
	Window      string     `json:"window"`
	Patience    string     `json:"patience"`
	BodyLimit   int64      `json:"body_limit_bytes"`
	Batch       bool       `json:"batch"`
	Handshakes  []string   `json:"handshakes"`
	Options     []string   `json:"options"`
	Samples     []string   `json:"samples"`
	Confirmed   bool       `json:"confirmed"`
	Unconfirmed []string   `json:"unconfirmed"`
	Modes       []modeView `json:"modes"`
	// Row is the whole row under its TOML names; a list leaves it out.
	Row map[string]any `json:"row,omitempty"`
}

// modeView is one way of authenticating.
type modeView struct {
	Name     string `json:"name"`
	Family   string `json:"family"`
	Signing  string `json:"signing"`
	Secret   string `json:"secret"`
	Time     string `json:"time"`
	Explicit bool   `json:"explicit"`
	CanSign  bool   `json:"can_sign"`
}

func (a *app) providerViews() []providerView {
	var out []providerView
	for _, row := range verify.Providers() {
		out = append(out, viewProvider(row, a.samples().types(row.Name)))
	}
	return out
}

func viewProvider(r verify.Row, samples []string) providerView {
	v := providerView{
		Name: r.Name, Title: r.Title, Docs: r.Docs, Scheme: families(r),
		Auth: []string{}, Methods: orEmpty(r.Methods), EventID: orEmpty(r.ID), NeverID: orEmpty(r.NeverID), EventType: orEmpty(r.Type),
		IDSigned: r.IDSigned, BodySigned: r.BodySigned, BodyStable: r.BodyStable,
		NoID: orDefault(string(r.NoID), string(verify.NoIDBodyHash)), OnConflict: orDefault(string(r.OnConflict), string(verify.OnConflictDeliver)),
		Guard:   orDefault(string(r.Guard), string(verify.GuardOff)),
		Retries: span(time.Duration(r.Retries)), Window: windowOf(r), Patience: span(time.Duration(r.Patience)),
		BodyLimit: r.BodyLimit, Batch: r.Batch != nil, Samples: orEmpty(samples),
		Handshakes: []string{}, Options: orEmpty(r.Options), Confirmed: len(r.Unconfirmed) == 0, Unconfirmed: orEmpty(r.Unconfirmed),
	}
	if len(v.Methods) == 0 {
		v.Methods = []string{"POST"}
	}
	if v.BodyLimit == 0 {
		v.BodyLimit = verify.DefaultBodyLimit
	}
	for _, m := range r.Modes {
		v.Auth = append(v.Auth, m.Name)
		v.Modes = append(v.Modes, modeView{m.Name, family(m), signing(m), secretWords(m), timing(m), m.Explicit, r.CanSign(m.Name)})
	}
	for _, h := range r.Handshake {
		v.Handshakes = append(v.Handshakes, h.Name)
	}
	return v
}

func (p providerView) facts() string {
	if !p.Confirmed {
		return "unconfirmed"
	}
	return "confirmed"
}

// write prints every fact of the row.
func (p providerView) write(w io.Writer, r verify.Row) error {
	t := table{}
	t.add("provider", p.Title+" ("+p.Name+")")
	t.add("docs", dash(p.Docs))
	for i, m := range p.Modes {
		note := ""
		if i == 0 && !m.Explicit {
			note = " (the default)"
		}
		t.add("auth "+m.Name, m.Signing+note)
		t.add("  secret", m.Secret)
		t.add("  time", m.Time)
		if req := r.Modes[i].Require; len(req) > 0 {
			t.add("  requires", strings.Join(req, ", "))
		}
		if ids := r.Modes[i].ID; len(ids) > 0 {
			t.add("  event ID", strings.Join(ids, ", else "))
		}
		if r.Modes[i].Decrypt != "" {
			t.add("  encrypted", r.Modes[i].Decrypt)
		}
	}
	p.events(&t, r)
	p.answers(&t, r)
	for _, u := range p.Unconfirmed {
		t.add("unconfirmed", u)
	}
	return t.write(w)
}

// events adds how events are named and remembered.
func (p providerView) events(t *table, r verify.Row) {
	t.add("methods", strings.Join(p.Methods, ", "))
	t.add("event ID", dash(strings.Join(p.EventID, ", else ")))
	if len(p.NeverID) > 0 {
		t.add("never the ID", strings.Join(p.NeverID, ", "))
	}
	t.add("event type", dash(strings.Join(p.EventType, ", else ")))
	t.add("signature covers", covers(p.IDSigned, p.BodySigned))
	t.add("a retry has the same bytes", yesNo(p.BodyStable))
	t.add("without an ID", p.NoID)
	t.add("same ID, other body", p.OnConflict)
	t.add("replay guard", p.Guard)
	t.add("provider retries for", p.Retries)
	t.add("IDs remembered for", p.Window)
	t.add("provider waits for", p.Patience)
	t.add("largest body", size(p.BodyLimit))
	t.add("batches", batchWords(r.Batch))
	if r.AnyBody {
		t.add("bodies", "of any kind; what is no JSON has no ID")
	}
	if len(r.Encodings) > 0 {
		t.add("encodings", strings.Join(r.Encodings, ", "))
	}
}

// answers adds what is answered and which headers pass.
func (p providerView) answers(t *table, r verify.Row) {
	if len(r.Handshake) == 0 {
		t.add("handshakes", "-")
	}
	for _, h := range r.Handshake {
		t.add("handshake", handshakeWords(h))
	}
	if !r.Answer.IsZero() {
		t.add("answer", answerWords(r.Answer))
	}
	if r.Refusal != nil {
		t.add("refusal", answerWords(*r.Refusal))
	}
	if r.OverloadStatus != 0 {
		t.add("overload", fmt.Sprint(r.OverloadStatus))
	}
	for _, l := range []struct {
		name string
		list []string
	}{
		{"headers to targets", r.EventHeaders}, {"signature headers", r.SignatureHeaders}, {"credentials in", slices.Concat(r.CredentialHeaders, r.CredentialParams)},
		{"echoed headers", r.EchoHeaders},
	} {
		if len(l.list) > 0 {
			t.add(l.name, strings.Join(l.list, ", "))
		}
	}
	t.add("options", dash(strings.Join(p.Options, ", ")))
	if len(p.Samples) > 0 {
		t.add("samples", strings.Join(p.Samples, ", "))
	}
}

func answerWords(a verify.Answer) string {
	var out []string
	if a.Status != 0 {
		out = append(out, fmt.Sprint(a.Status))
	}
	if a.ContentType != "" {
		out = append(out, a.ContentType)
	}
	if len(a.Body) > 0 {
		out = append(out, fmt.Sprintf("%q", clip(string(a.Body), 60)))
	}
	for name, val := range a.Header {
		out = append(out, name+": "+val)
	}
	slices.Sort(out[min(1, len(out)):])
	return strings.Join(out, ", ")
}

func covers(id, body bool) string {
	switch {
	case id && body:
		return "event ID and body"
	case body:
		return "the body, not the event ID"
	case id:
		return "the event ID, not the body"
	}
	return "neither event ID nor body"
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return slices.Clone(s)
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// span is a duration as a config writes it: in whole days where it is some.
func span(d time.Duration) string {
	switch {
	case d == 0:
		return "unknown"
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}
