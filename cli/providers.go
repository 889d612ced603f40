package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/verify"
)

func (a *app) providersCmd() *cobra.Command {
	return group("providers", "What is known about each provider",
		leaf("list", "List the built-in providers", "", cobra.NoArgs, a.providersList),
		leaf("show NAME", "Show one provider: how it signs, names events and retries", "", cobra.ExactArgs(1), a.providersShow))
}

func (a *app) providersList(context.Context, []string) error {
	return whole(a, providerViews(), []string{"NAME", "PROVIDER", "AUTH", "EVENT ID", "REMEMBERED", "FACTS"},
		func(p providerView) []string {
			return []string{p.Name, p.Title, strings.Join(p.Auth, ", "), clip(dash(strings.Join(p.EventID, ", ")), 40), p.Window, p.facts()}
		})
}

func (a *app) providersShow(_ context.Context, args []string) error {
	row, ok := verify.Lookup(args[0])
	if !ok {
		return fail(exitNotFound, "no provider %q; see 'onceward providers list'", args[0])
	}
	p := viewProvider(row)
	return a.show(p, p.write)
}

// providerView is a row as the command prints it: the field names are a contract.
type providerView struct {
	Name        string   `json:"name"`
	Title       string   `json:"title"`
	Docs        string   `json:"docs"`
	Auth        []string `json:"auth"`
	Methods     []string `json:"methods"`
	EventID     []string `json:"event_id"`
	EventType   []string `json:"event_type"`
	IDSigned    bool     `json:"id_signed"`
	BodySigned  bool     `json:"body_signed"`
	BodyStable  bool     `json:"body_stable"`
	NoID        string   `json:"no_id"`
	OnConflict  string   `json:"on_conflict"`
	Guard       string   `json:"guard"`
	Retries     string   `json:"retries"`
	Window      string   `json:"window"`
	Patience    string   `json:"patience"`
	BodyLimit   int64    `json:"body_limit_bytes"`
	Batch       bool     `json:"batch"`
	Handshakes  []string `json:"handshakes"`
	Options     []string `json:"options"`
	Unconfirmed []string `json:"unconfirmed"`
}

func providerViews() []providerView {
	var out []providerView
	for _, row := range verify.Providers() {
		out = append(out, viewProvider(row))
	}
	return out
}

func viewProvider(r verify.Row) providerView {
	v := providerView{
		Name: r.Name, Title: r.Title, Docs: r.Docs,
		Auth: []string{}, Methods: orEmpty(r.Methods), EventID: orEmpty(r.ID), EventType: orEmpty(r.Type),
		IDSigned: r.IDSigned, BodySigned: r.BodySigned, BodyStable: r.BodyStable,
		NoID: orDefault(string(r.NoID), string(verify.NoIDBodyHash)), OnConflict: orDefault(string(r.OnConflict), string(verify.OnConflictDeliver)),
		Guard:   orDefault(string(r.Guard), string(verify.GuardOff)),
		Retries: span(time.Duration(r.Retries)), Window: span(time.Duration(max(r.Window, r.Retries))), Patience: span(time.Duration(r.Patience)),
		BodyLimit: r.BodyLimit, Batch: r.Batch != nil,
		Handshakes: []string{}, Options: orEmpty(r.Options), Unconfirmed: orEmpty(r.Unconfirmed),
	}
	if len(v.Methods) == 0 {
		v.Methods = []string{"POST"}
	}
	if r.Window == 0 && r.Retries == 0 {
		v.Window = span(verify.DefaultWindow)
	}
	if v.BodyLimit == 0 {
		v.BodyLimit = verify.DefaultBodyLimit
	}
	for _, m := range r.Modes {
		v.Auth = append(v.Auth, m.Name)
	}
	for _, h := range r.Handshake {
		v.Handshakes = append(v.Handshakes, h.Name)
	}
	return v
}

func (p providerView) facts() string {
	if len(p.Unconfirmed) > 0 {
		return "unconfirmed"
	}
	return "confirmed"
}

// write prints the view as a card.
func (p providerView) write(w io.Writer) error {
	t := table{}
	t.add("provider", p.Title+" ("+p.Name+")")
	t.add("docs", dash(p.Docs))
	t.add("auth", strings.Join(p.Auth, ", ")+"; the first is the default")
	t.add("methods", strings.Join(p.Methods, ", "))
	t.add("event ID", dash(strings.Join(p.EventID, ", else ")))
	t.add("event type", dash(strings.Join(p.EventType, ", else ")))
	t.add("signature covers", covers(p.IDSigned, p.BodySigned))
	t.add("without an ID", p.NoID)
	t.add("same ID, other body", p.OnConflict)
	t.add("replay guard", p.Guard)
	t.add("provider retries for", p.Retries)
	t.add("IDs remembered for", p.Window)
	t.add("provider waits for", p.Patience)
	t.add("largest body", size(p.BodyLimit))
	t.add("batches", yesNo(p.Batch))
	t.add("handshakes", dash(strings.Join(p.Handshakes, ", ")))
	t.add("options", dash(strings.Join(p.Options, ", ")))
	for _, u := range p.Unconfirmed {
		t.add("unconfirmed", u)
	}
	return t.write(w)
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
	}
	return d.String()
}
