package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/verify"
)

const signHelp = `
Prints the headers that make a body authentic, as the provider would send them. The
secret comes from --secret-env or --secret-file, or from the config: from the source
that --source names, or else from the only source of that provider. The secret itself
is never printed; providers that send it as it is can't be signed for.

  onceward sign stripe --body event.json           headers, one a line
  onceward sign stripe --body event.json --curl    a curl command
  onceward sign github push --request              the whole request, with a sample body
  onceward sign stripe --request | onceward verify --explain - --source stripe`

// signFlags are the flags of sign.
type signFlags struct {
	keyFlags
	source, url, id, body string
	curl, request         bool
}

func (a *app) signCmd() *cobra.Command {
	var f signFlags
	c := leaf("sign PROVIDER [TYPE]", "Print the headers that sign a body", signHelp, cobra.RangeArgs(1, 2),
		func(_ context.Context, args []string) error {
			typ := ""
			if len(args) == 2 {
				typ = args[1]
			}
			return a.sign(args[0], typ, f)
		})
	f.register(c)
	c.Flags().StringVar(&f.source, "source", "", "take the secret of this `source`")
	c.Flags().StringVar(&f.url, "url", "", "`URL` the request is for (default: the source's on this machine)")
	c.Flags().StringVar(&f.id, "id", "", "event ID (default: a fresh one)")
	c.Flags().StringVar(&f.body, "body", "", "`file` with the body, - for stdin (default: a sample)")
	c.Flags().BoolVar(&f.curl, "curl", false, "print a curl command")
	c.Flags().BoolVar(&f.request, "request", false, "print the whole request as HTTP/1.1")
	return c
}

func (a *app) sign(provider, typ string, f signFlags) error {
	if f.curl && f.request {
		return usage("--curl and --request: choose one")
	}
	v, at, err := a.signer(provider, f)
	if err != nil {
		return err
	}
	shot := triggerShot{url: at, signer: v, flags: triggerFlags{typ: typ}}
	if shot.body, err = a.readBody(f.body); err != nil {
		return err
	}
	if f.body == "" {
		shot.useSample(a.samples(), provider)
	}
	id := f.id
	if id == "" {
		id = newTestID()
	}
	req := shot.request(id, a.now())
	req.Header.Del(testHeader)
	out, err := v.Sign(req)
	if errors.Is(err, verify.ErrCannotSign) {
		return fail(exitFailed, "provider %s: %w", provider, err)
	}
	if err != nil {
		return fmt.Errorf("provider %s: %w", provider, err)
	}
	return a.showSigned(signedView{out, f.body}, f)
}

// signer finds what to sign with, and the URL to sign for.
func (a *app) signer(provider string, f signFlags) (*verify.Verifier, string, error) {
	row, ok := a.provider(provider)
	if !ok {
		return nil, "", noProvider(provider)
	}
	at := orDefault(f.url, "http://127.0.0.1:8080/in/"+provider)
	var v *verify.Verifier
	var err error
	if f.given() {
		if f.source != "" {
			return nil, "", usage("--source and a secret of your own: choose one")
		}
		v, err = f.verifier(a, provider)
	} else {
		v, at, err = a.signerOfSource(provider, f)
	}
	if err != nil {
		return nil, "", err
	}
	if sent := sendsSecret(row, v.Mode()); sent != "" {
		return nil, "", fail(exitFailed, "%s sends the secret itself, in %s; put it there yourself", row.Title, sent)
	}
	return v, at, nil
}

// signerOfSource takes the secrets of a source.
func (a *app) signerOfSource(provider string, f signFlags) (*verify.Verifier, string, error) {
	name := f.source
	if name == "" {
		cfg, _, err := a.good()
		if err != nil {
			return nil, "", err
		}
		var of []string
		for _, s := range cfg.Sources {
			if s.Provider == provider {
				of = append(of, s.Name)
			}
		}
		if len(of) != 1 {
			return nil, "", usage("%s has %s of %s: say where the secret is with --secret-env, --secret-file or --source", cfg.File(), plural(len(of), "source"), provider)
		}
		name = of[0]
	}
	cfg, src, v, err := a.sourceOf(name)
	if err != nil {
		return nil, "", err
	}
	if src.Provider != provider {
		return nil, "", usage("source %s is of provider %s, not %s", name, src.Provider, provider)
	}
	return v, orDefault(f.url, cfg.ReceiverURL(reachable(cfg.Listen))+src.ListenPath()), nil
}

// sendsSecret says where a mode sends the secret as it is, "" where it only signs.
func sendsSecret(row verify.Row, mode string) string {
	for _, m := range row.Modes {
		if m.Name != mode {
			continue
		}
		switch {
		case m.Token != nil:
			return where(m.Token.In)
		case m.Basic != nil:
			return "header Authorization"
		}
	}
	return ""
}

// signedView is a signed request as it is printed.
type signedView struct {
	verify.SignedRequest
	file string // of the body, "" for a sample
}

// signedJSON is a signed request in JSON: the field names are a contract.
type signedJSON struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

func (a *app) showSigned(s signedView, f signFlags) error {
	switch {
	case f.request:
		return s.raw(a.Stdout)
	case f.curl:
		return writePlain(a.Stdout, s.curl()+"\n")
	}
	doc := signedJSON{s.Method, s.URL, map[string]string{}, string(s.Body)}
	for _, name := range s.names() {
		doc.Headers[name] = s.Header.Get(name)
	}
	return a.show(doc, func(w io.Writer) error {
		for _, name := range s.names() {
			fmt.Fprintf(w, "%s: %s\n", name, escape(s.Header.Get(name)))
		}
		if f.body == "" {
			fmt.Fprintf(a.Stderr, "over a sample body of %s; --request prints it as well\n", size(int64(len(s.Body))))
		}
		return nil
	})
}

func (s signedView) names() []string {
	var out []string
	for name := range s.Header {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// raw writes the request as it goes over the wire, in a form that verify --explain
// reads.
func (s signedView) raw(w io.Writer) error {
	u, err := url.Parse(s.URL)
	if err != nil {
		return usage("--url: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", s.Method, u.RequestURI(), u.Host)
	for _, name := range s.names() {
		if name != "Host" && name != "Content-Length" {
			fmt.Fprintf(&b, "%s: %s\r\n", name, s.Header.Get(name))
		}
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n", len(s.Body))
	b.Write(s.Body)
	_, err = w.Write(b.Bytes())
	return err
}

// curl is a command line for a POSIX shell.
func (s signedView) curl() string {
	words := []string{"curl", "-i"}
	if s.Method != http.MethodPost || len(s.Body) == 0 {
		words = append(words, "-X", s.Method)
	}
	for _, name := range s.names() {
		words = append(words, "-H", shellQuote(name+": "+s.Header.Get(name)))
	}
	switch {
	case s.file != "" && s.file != "-":
		words = append(words, "--data-binary", shellQuote("@"+s.file))
	case len(s.Body) > 0:
		// --data-raw takes a leading @ as it is; it keeps every byte but NUL.
		words = append(words, "--data-raw", shellQuote(string(s.Body)))
	}
	return strings.Join(append(words, shellQuote(s.URL)), " ")
}

// shellQuote makes one word of a POSIX shell.
func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
