package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/receiver/conform"
)

const keysHelp = `
Keys are the Idempotency-Keys of synchronous routes (mode = "sync"). One whose
request went out and whose answer never came is unknown: nobody runs it again
until 'keys settle' says what became of it.

A key is named by the ID its caller sent; --source and --caller tell it from
others of the same ID.`

func (a *app) keysCmd() *cobra.Command {
	c := group("keys", "Look after the keys of synchronous routes", a.keysListCmd(), a.keysGetCmd(), a.keysSettleCmd(), a.keysConformCmd())
	c.Long = strings.TrimSpace(keysHelp)
	return c
}

func (a *app) keysListCmd() *cobra.Command {
	var q admin.KeyQuery
	var p pageFlags
	long := "Lists the keys that have no conclusion: in flight, or of unknown outcome; with\n--concluded also those that were answered, released or settled and have not\nexpired."
	c := leaf("list", "List keys, those in flight or unknown", long, cobra.NoArgs, func(ctx context.Context, _ []string) error {
		if err := p.check(); err != nil {
			return err
		}
		if _, ok := dedupe.ParseKeyState(q.State); q.State != "" && !ok {
			return usage("--state %q: want in_flight, answered, released, unknown or settled", q.State)
		}
		return a.call(ctx, func(c *admin.Client) error {
			l := a.newList("CLAIMED", "SOURCE", "CALLER", "KEY", "TARGET", "STATE", "WHY", "STATUS", "REPLAYS", "EXPIRES")
			more, err := pages(l, p.limit, p.all, func(cursor string, limit int) (dedupe.Page[admin.Key], error) {
				return c.Keys(ctx, q, cursor, limit)
			}, func(k admin.Key) []string {
				return []string{stamp(k.ClaimedAt), k.Source, dash(k.Caller), clip(k.ID, 40), k.Target, k.State.String(), dash(k.Why),
					statusOf(k), fmt.Sprint(k.Replays), stamp(k.Expires)}
			})
			a.afterList(l, more, err, "keys")
			return err
		})
	})
	c.Flags().StringVar(&q.Source, "source", "", "only of this `source`")
	c.Flags().StringVar(&q.Caller, "caller", "", "only of this `caller`")
	c.Flags().StringVar(&q.ID, "key", "", "only with this `key`")
	c.Flags().StringVar(&q.State, "state", "", "only in this `state`: in_flight, answered, released, unknown or settled")
	p.register(c)
	c.Flags().BoolVar(&q.All, "concluded", false, "also those that were answered, released or settled")
	return c
}

func statusOf(k admin.Key) string {
	if k.Status == 0 {
		return "-"
	}
	return fmt.Sprint(k.Status)
}

func (a *app) keysGetCmd() *cobra.Command {
	var source, caller string
	c := leaf("get KEY", "Show one key and its life", strings.TrimSpace(keysHelp), cobra.ExactArgs(1), func(ctx context.Context, args []string) error {
		return a.call(ctx, func(c *admin.Client) error {
			k, err := c.Key(ctx, args[0], source, caller)
			if err != nil {
				return err
			}
			return a.show(k, func(w io.Writer) error { return writeKey(w, k) })
		})
	})
	registerKeyName(c, &source, &caller)
	return c
}

func registerKeyName(c *cobra.Command, source, caller *string) {
	c.Flags().StringVar(source, "source", "", "the key's `source`")
	c.Flags().StringVar(caller, "caller", "", "the key's `caller`")
}

func writeKey(w io.Writer, k admin.Key) error {
	c := table{}
	c.add("key", k.ID)
	c.add("source", k.Source)
	c.add("caller", dash(k.Caller))
	c.add("target", k.Target)
	c.add("idempotency key", k.Downstream)
	state := k.State.String()
	if k.Why != "" {
		state += " (" + k.Why + ")"
	}
	c.add("state", state)
	if k.Status != 0 {
		c.add("answer", fmt.Sprintf("%d, %s, sha256 %s", k.Status, size(k.Bytes), k.Hash))
	}
	c.add("replays", fmt.Sprint(k.Replays))
	c.add("claimed", stamp(k.ClaimedAt))
	c.add("expires", stamp(k.Expires))
	c.add("ref", k.Ref)
	if err := c.write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	life := table{head: []string{"AT", "WHAT", "DETAIL"}}
	for _, m := range k.Life {
		life.add(stamp(m.At), m.What.String(), dash(m.Detail))
	}
	return life.write(w)
}

const settleHelp = `
Says what became of a key whose outcome is unknown. Find out first, at the
target: the gateway can't know.

  --done   it was executed. Repeats get the answer you give: --status and --body
           (a file, - for standard input), by default 200 and nothing.
  --retry  it was not. The key is free, and the next request with it is
           forwarded again.

A key that is settled already, or is answered meanwhile, is left alone.`

func (a *app) keysSettleCmd() *cobra.Command {
	var source, caller, body string
	var done, retry bool
	var req admin.SettleRequest
	c := leaf("settle KEY", "Say what became of a key of unknown outcome", settleHelp, cobra.ExactArgs(1), func(ctx context.Context, args []string) error {
		switch {
		case done == retry:
			return usage("keys settle: say --done or --retry")
		case req.Reason == "":
			return usage("keys settle: say why with --reason")
		case retry && (req.Status != 0 || body != "" || req.ContentType != ""):
			return usage("keys settle: --status, --body and --content-type belong to --done")
		}
		if req.As = admin.SettleRetry; done {
			req.As = admin.SettleDone
		}
		if body != "" {
			b, err := a.settleBody(body)
			if err != nil {
				return err
			}
			req.Body = string(b)
		}
		return a.call(ctx, func(c *admin.Client) error {
			k, err := c.SettleKey(ctx, args[0], source, caller, req)
			if err != nil {
				return err
			}
			return a.show(k, func(w io.Writer) error { return writeKey(w, k) })
		})
	})
	registerKeyName(c, &source, &caller)
	c.Flags().BoolVar(&done, "done", false, "the operation was executed")
	c.Flags().BoolVar(&retry, "retry", false, "it was not, and may be tried again")
	c.Flags().StringVar(&req.Reason, "reason", "", "how you know; it is recorded (required)")
	c.Flags().IntVar(&req.Status, "status", 0, "`status` of the answer that repeats get; default 200")
	c.Flags().StringVar(&body, "body", "", "`file` with the answer's body, - for standard input")
	c.Flags().StringVar(&req.ContentType, "content-type", "", "content `type` of the body")
	return c
}

// settleBody reads a file, or standard input for -.
func (a *app) settleBody(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(a.Stdin, dedupe.MaxInline+1))
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return b, nil
}

const conformHelp = `
Holds a synchronous route, of this gateway or of anything else, to the contract
of its Idempotency-Key by sending requests to it, and says what it does with
each. Use a route whose target may be called: some scenarios execute.

Scenarios that choose the target's answers are tried with --steered, when the
target is the one that 'keys conform --serve ADDR' runs.

Credentials are named by where they are:
  onceward keys conform --bearer-env TOKEN http://127.0.0.1:8080/in/pay`

func (a *app) keysConformCmd() *cobra.Command {
	var cfg conform.Config
	var bearerEnv, otherEnv, serve string
	c := leaf("conform [URL]", "Hold a synchronous route to the contract of keys", conformHelp, cobra.MaximumNArgs(1), func(ctx context.Context, args []string) error {
		if serve != "" {
			if len(args) > 0 {
				return usage("keys conform: --serve runs a target and tries no URL")
			}
			return a.serveConform(ctx, serve)
		}
		if len(args) == 0 {
			return usage("keys conform: name the URL of a route")
		}
		var err error
		if cfg.Header, err = a.bearerOf("--bearer-env", bearerEnv); err != nil {
			return err
		}
		if cfg.Other, err = a.bearerOf("--other-bearer-env", otherEnv); err != nil {
			return err
		}
		cfg.URL = args[0]
		rep, err := conform.Run(ctx, cfg)
		if err != nil {
			return &codedError{exitUnreachable, err}
		}
		if err := a.showConform(rep); err != nil {
			return err
		}
		if rep.Failed > 0 {
			return fail(exitFailed, "%d of %d scenarios failed", rep.Failed, len(rep.Results))
		}
		return nil
	})
	c.Flags().StringVar(&bearerEnv, "bearer-env", "", "environment `variable` with the caller's token")
	c.Flags().StringVar(&otherEnv, "other-bearer-env", "", "environment `variable` with another caller's token")
	c.Flags().BoolVar(&cfg.RequireKey, "require-key", false, "the route refuses requests without a key")
	c.Flags().BoolVar(&cfg.Wait, "wait", false, "the route lets repeats wait for the first answer")
	c.Flags().BoolVar(&cfg.Steered, "steered", false, "the route's target is the one of --serve")
	c.Flags().StringVar(&serve, "serve", "", "run the target for --steered on this `address`")
	return c
}

func (a *app) bearerOf(flag, name string) (http.Header, error) {
	if name == "" {
		return nil, nil
	}
	token, ok := a.Env(name)
	if !ok || token == "" {
		return nil, usage("%s: %s is not set", flag, name)
	}
	return http.Header{"Authorization": {"Bearer " + token}}, nil
}

func (a *app) showConform(rep conform.Report) error {
	if a.flags.output != "table" {
		return a.show(rep, nil)
	}
	l := a.newList("OUTCOME", "SECTION", "SCENARIO", "DETAIL")
	err := page(l, rep.Results, func(r conform.Result) []string { return []string{r.Outcome, r.Section, r.Name, dash(r.Detail)} })
	if err == nil {
		err = l.end()
	}
	if err == nil {
		_, err = fmt.Fprintf(a.Stdout, "%d passed, %d failed, %d not tried\n", rep.Passed, rep.Failed, rep.Skipped)
	}
	return err
}

// serveConform runs the steered target until it is told to stop.
func (a *app) serveConform(ctx context.Context, addr string) error {
	srv := &http.Server{Addr: addr, Handler: &conform.Target{}, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- srv.ListenAndServe() }()
	select {
	case err := <-done:
		return fmt.Errorf("serve target: %w", err)
	case <-ctx.Done():
	}
	_ = srv.Close() // nothing it does is worth waiting for
	<-done
	return nil
}
