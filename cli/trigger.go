package cli

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/gateway"
	"github.com/onceward/onceward/verify"
)

const triggerHelp = `
Sends a signed event into a running gateway, as the source's provider would:
the secret comes from the same config. The event's ID begins with "test_" and
the request carries Onceward-Test: true. Prints what was answered. For well-known
providers the body is one as they send it; 'providers card NAME' lists the types.

  onceward trigger stripe invoice.paid
  onceward trigger stripe --count 10 --repeat 2   ten events, each sent three times
  onceward trigger stripe --forge                 with a signature that is wrong
  onceward trigger github push --body push.json`

// testHeader marks what trigger sends.
const testHeader = "Onceward-Test"

// triggerTimeout bounds one request; the gateway gives up sooner by itself.
const triggerTimeout = 30 * time.Second

// maxTrigger bounds one run, so that a slip of the hand is no flood.
const maxTrigger = 100_000

// triggerFlags are the flags of trigger.
type triggerFlags struct {
	count, repeat      int
	forge, yes         bool
	id, body, url, typ string
}

func (a *app) triggerCmd() *cobra.Command {
	var f triggerFlags
	c := leaf("trigger SOURCE [TYPE]", "Send a signed test event into a running gateway", triggerHelp, cobra.RangeArgs(1, 2),
		func(ctx context.Context, args []string) error {
			if len(args) == 2 {
				f.typ = args[1]
			}
			return a.trigger(ctx, args[0], f)
		})
	c.Flags().IntVar(&f.count, "count", 1, "how many events to send")
	c.Flags().IntVar(&f.repeat, "repeat", 0, "how many times to send each again")
	c.Flags().BoolVar(&f.forge, "forge", false, "sign with a wrong secret")
	c.Flags().StringVar(&f.id, "id", "", "event ID (default: a fresh one for each event)")
	c.Flags().StringVar(&f.body, "body", "", "`file` with the body, - for stdin (default: a sample of the type, else the smallest the provider would send)")
	c.Flags().StringVar(&f.url, "url", "", "URL to send to (default: the source's on this machine)")
	c.Flags().BoolVar(&f.yes, "yes", false, "do not ask when events go beyond this machine")
	return c
}

func (f *triggerFlags) check() error {
	switch {
	case f.count < 1:
		return usage("--count %d: want at least 1", f.count)
	case f.repeat < 0:
		return usage("--repeat %d: want at least 0", f.repeat)
	case f.count > maxTrigger/(f.repeat+1):
		return usage("--count %d with --repeat %d: want at most %d requests", f.count, f.repeat, maxTrigger)
	case f.id != "" && f.count > 1:
		return usage("--id with --count %d: one ID is one event; use --repeat to send it again", f.count)
	}
	return nil
}

func (a *app) trigger(ctx context.Context, source string, f triggerFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	cfg, _, err := a.good()
	if err != nil {
		return err
	}
	src, ok := cfg.Source(source)
	if !ok {
		return fail(exitNotFound, "no source %q in %s; it has %s", source, cfg.File(), dash(strings.Join(sourceNames(cfg), ", ")))
	}
	shot := triggerShot{source: source, flags: f, url: f.url}
	if shot.url == "" {
		shot.url = cfg.ReceiverURL(reachable(cfg.Listen)) + src.ListenPath()
		if shot.tls, err = cfg.ClientTLS(); err != nil {
			return fail(exitConfig, "%w", err)
		}
	}
	if shot.signer, err = sourceVerifier(cfg, src, f.forge, a.now()); err != nil {
		return err
	}
	if shot.body, err = a.readBody(f.body); err != nil {
		return err
	}
	if f.body == "" {
		shot.useSample(a.samples(), src.Provider)
	}
	if far := beyondLoopback(cfg, src, shot.url); len(far) > 0 {
		question := fmt.Sprintf("this sends test events beyond this machine, to %s", strings.Join(far, ", "))
		if err := a.confirm(ctx, f.yes, question); err != nil {
			return err
		}
	}
	return a.fire(ctx, shot)
}

func sourceNames(cfg *gateway.Config) []string {
	var names []string
	for _, s := range cfg.Sources {
		names = append(names, s.Name)
	}
	return names
}

func (a *app) readBody(file string) ([]byte, error) {
	switch file {
	case "":
		return nil, nil
	case "-":
		return io.ReadAll(a.Stdin)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	if b == nil {
		b = []byte{}
	}
	return b, nil
}

// triggerShot is what trigger sends again and again.
type triggerShot struct {
	source string
	flags  triggerFlags
	url    string
	signer *verify.Verifier
	tls    *tls.Config // of the gateway's own listener; nil is the system's
	body   []byte      // nil takes the sample
	sample *sample     // nil takes the smallest body
}

// useSample takes the body that is on file for the type, or the provider's first
// one and its type where none is named.
func (s *triggerShot) useSample(all samples, provider string) {
	if got, ok := all.find(provider, s.flags.typ); ok {
		s.sample, s.flags.typ = &got, got.typ
	}
}

// request is what is to be signed for one event.
func (s *triggerShot) request(id string, now time.Time) verify.SignRequest {
	r := verify.SignRequest{Now: now, ID: id, Type: s.flags.typ, URL: s.url, Body: s.body, Header: http.Header{testHeader: {"true"}}}
	if s.sample != nil {
		r.Body = s.sample.body(id)
		r.Header.Set("Content-Type", s.sample.contentType())
	}
	return r
}

// triggered is one request as trigger prints it: the field names are a contract.
type triggered struct {
	Source   string `json:"source"`
	EventID  string `json:"event_id"`
	Type     string `json:"type"`
	Try      int    `json:"try"`
	Status   int    `json:"status"`
	Answer   string `json:"answer"`
	Replayed bool   `json:"replayed"`
	Millis   int64  `json:"took_ms"`
	Body     string `json:"body"`
}

// fire sends every event and prints each answer as it comes. An answer other
// than what was meant (2xx, or a refusal with --forge) makes the run fail.
func (a *app) fire(ctx context.Context, s triggerShot) error {
	transport := &http.Transport{TLSClientConfig: s.tls, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: triggerTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	list := a.newList("SOURCE", "EVENT ID", "TYPE", "TRY", "STATUS", "ANSWER", "BODY")
	wrong := 0
	for range s.flags.count {
		id := s.flags.id
		if id == "" {
			id = newTestID()
		}
		for try := 1; try <= s.flags.repeat+1; try++ {
			got, err := a.fireOne(ctx, client, s, id, try)
			if err != nil {
				return err
			}
			if err := page(list, []triggered{got}, triggered.cells); err != nil {
				return err
			}
			if got.asMeant(s.flags.forge) {
				continue
			}
			wrong++
		}
	}
	if err := list.end(); err != nil {
		return err
	}
	total := s.flags.count * (s.flags.repeat + 1)
	switch {
	case wrong == 0:
		return nil
	case wrong < total:
		return fail(exitPartly, "%d of %d requests were not answered as they should", wrong, total)
	}
	return fail(exitFailed, "%s not answered as they should", plural(wrong, "request"))
}

func (a *app) fireOne(ctx context.Context, client *http.Client, s triggerShot, id string, try int) (triggered, error) {
	began := a.now()
	signed, err := s.signer.Sign(s.request(id, began))
	if err != nil {
		return triggered{}, fmt.Errorf("source %s: %w", s.source, err)
	}
	got, err := post(ctx, client, signed)
	if err != nil {
		if ctx.Err() != nil {
			return triggered{}, ctx.Err()
		}
		return triggered{}, &codedError{exitUnreachable, fmt.Errorf("source %s: %w", s.source, err)}
	}
	if got.eventID != "" {
		id = got.eventID // a body of one's own may hold another
	}
	return triggered{
		Source: s.source, EventID: id, Type: s.flags.typ, Try: try, Status: got.status, Answer: string(got.fate()),
		Replayed: got.replayed, Millis: a.now().Sub(began).Milliseconds(), Body: string(got.body),
	}, nil
}

func (t triggered) cells() []string {
	return []string{t.Source, t.EventID, dash(t.Type), fmt.Sprint(t.Try), fmt.Sprint(t.Status), t.Answer, clip(t.Body, 80)}
}

func (t triggered) asMeant(forged bool) bool {
	if forged {
		return t.Status/100 == 4
	}
	return t.Status/100 == 2
}

// newTestID makes an event ID that says what it is.
func newTestID() string {
	b := make([]byte, 10)
	rand.Read(b) // never fails
	return "test_" + hex.EncodeToString(b)
}
