package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/verify"
)

// explainFlags are the flags of verify --explain.
type explainFlags struct {
	keyFlags
	explain                            bool
	refusal, source, provider, url, at string
}

func (f *explainFlags) register(c *cobra.Command) {
	c.Flags().BoolVar(&f.explain, "explain", false, "say why a request is refused, or that it is authentic")
	c.Flags().StringVar(&f.refusal, "refusal", "", "explain the refusal with this `ID`, of the running gateway")
	c.Flags().StringVar(&f.source, "source", "", "verify as this `source` of the config, with its secrets")
	c.Flags().StringVar(&f.provider, "provider", "", "verify as this `provider`, with a secret of your own")
	c.Flags().StringVar(&f.keyFile, "public-key-file", "", "`file` that holds the public key")
	c.Flags().StringVar(&f.url, "url", "", "`URL` as it was called (default: https, the Host header and the path)")
	c.Flags().StringVar(&f.at, "at", "", "`time` of arrival, RFC 3339 or Unix seconds (default: now)")
	f.keyFlags.register(c)
}

// explain is verify --explain.
func (a *app) explain(ctx context.Context, args []string, f explainFlags) error {
	switch {
	case f.refusal != "" && len(args) > 0:
		return usage("--refusal and a file: choose one")
	case f.refusal != "":
		return a.explainRefusal(ctx, f.refusal)
	case len(args) == 0:
		return usage("say which request: a file, - for stdin, or --refusal ID")
	case f.source != "" && (f.provider != "" || f.given()):
		return usage("--source has its provider and secrets from the config")
	}
	text, err := a.readBody(args[0])
	if err != nil {
		return err
	}
	got, err := a.capture(text, f)
	if err != nil {
		return fmt.Errorf("request %q: %w", args[0], err)
	}
	v, hints, err := a.explainer(got, f)
	if err != nil {
		return err
	}
	e := v.Explain(&got.req, hints)
	if err := a.showExplanation(e, got); err != nil {
		return err
	}
	if e.Result.Reason == verify.OK {
		return nil
	}
	if late(e.Result.Reason) && !got.dated {
		fmt.Fprintln(a.Stderr, "the signature is right; only the time is judged by now: --at says when the request arrived")
	}
	if e.Result.Reason == verify.ReasonKeyUnavailable {
		fmt.Fprintln(a.Stderr, "the provider's keys are fetched by the gateway only; this command makes no calls")
	}
	return quiet(exitFailed)
}

func late(r verify.Reason) bool {
	return r == verify.ReasonTimestampOld || r == verify.ReasonTimestampFuture
}

// explainer finds the verifier, and those of the other sources as hints.
func (a *app) explainer(c capture, f explainFlags) (*verify.Verifier, verify.Hints, error) {
	if f.source != "" {
		cfg, src, v, err := a.sourceOf(f.source)
		if err != nil {
			return nil, verify.Hints{}, err
		}
		var hints verify.Hints
		for i := range cfg.Sources {
			if s := &cfg.Sources[i]; s.Name != src.Name && s.Verifier() != nil {
				hints.Others = append(hints.Others, verify.Other{Source: s.Name, Verifier: s.Verifier()})
			}
		}
		return v, hints, nil
	}
	provider := orDefault(f.provider, c.provider)
	if provider == "" {
		return nil, verify.Hints{}, usage("say as whom to verify: --source NAME, or --provider NAME with --secret-env or --secret-file")
	}
	row, ok := a.provider(provider)
	if !ok {
		return nil, verify.Hints{}, noProvider(provider)
	}
	if c.vector != nil && !f.given() {
		v, err := verify.VectorVerifier(c.vector, row)
		if err != nil {
			return nil, verify.Hints{}, usage("%w", err)
		}
		return v, verify.Hints{}, nil
	}
	v, err := f.verifier(a, provider)
	return v, verify.Hints{}, err
}

// explainView is an explanation as it is printed: the field names are a contract.
type explainView struct {
	Reason string      `json:"reason"`
	Detail string      `json:"detail"`
	Secret string      `json:"secret"`
	Causes []causeView `json:"causes"`
	Checks []checkView `json:"checks"`
	Tried  []checkView `json:"secrets_tried"`
	Facts  []factView  `json:"facts"`
	Events []eventView `json:"events"`
}

type causeView struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	Sure bool   `json:"sure"`
}

type checkView struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

type factView struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type eventView struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

func viewExplanation(e verify.Explanation, notes []string) explainView {
	v := explainView{
		Reason: string(e.Result.Reason), Detail: e.Result.Detail, Secret: e.Result.Secret,
		Causes: []causeView{}, Checks: []checkView{}, Tried: []checkView{}, Facts: []factView{}, Events: []eventView{},
	}
	for _, c := range e.Causes {
		v.Causes = append(v.Causes, causeView{string(c.ID), c.Text, c.Sure})
	}
	for _, c := range e.Checks {
		v.Checks = append(v.Checks, checkView(c))
	}
	for _, c := range e.Tried {
		v.Tried = append(v.Tried, checkView(c))
	}
	for _, f := range e.Facts {
		v.Facts = append(v.Facts, factView{f[0], f[1]})
	}
	for _, n := range notes {
		v.Facts = append(v.Facts, factView{"note", n})
	}
	for _, ev := range e.Result.Events {
		v.Events = append(v.Events, eventView{ev.ID, ev.Type})
	}
	return v
}

func (a *app) showExplanation(e verify.Explanation, c capture) error {
	return a.show(viewExplanation(e, c.notes), func(w io.Writer) error {
		if _, err := io.WriteString(w, escapeLines(e.String())); err != nil {
			return err
		}
		for _, n := range c.notes {
			fmt.Fprintf(w, "  note: %s\n", escape(n))
		}
		for _, ev := range e.Result.Events {
			fmt.Fprintf(w, "  event %s of type %s\n", escape(dash(ev.ID)), escape(dash(ev.Type)))
		}
		return nil
	})
}

// arrival reads a time as --at takes it.
func arrival(s string) (time.Time, error) {
	if sec, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.Unix(sec, 0), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, usage("--at %q: want RFC 3339, as in 2026-11-30T12:00:00Z, or Unix seconds", s)
	}
	return t, nil
}
