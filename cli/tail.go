package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/onceward/onceward/admin"
)

// follower reads what a running gateway accepts, as it accepts it, and goes on
// where it was when the gateway comes back.
type follower struct {
	app    *app
	client *admin.Client
	query  admin.TailQuery
	gone   bool // the gateway, said once
}

const (
	// followWait is how long one request waits for something to come.
	followWait = 20 * time.Second
	// followRetry is how long after the gateway went away it is tried again.
	followRetry = 500 * time.Millisecond
)

type followFlags struct {
	source, typ, from string
	set               bool // from was given
}

func (f *followFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.source, "source", "", "only of this `source`")
	fs.StringVar(&f.typ, "type", "", "only of this event `type`; * stands for any text")
	fs.StringVar(&f.from, "from", "end", "begin at `place`: end, start, or after the event with this ref")
}

// cursor is where to begin.
func (f *followFlags) cursor() string {
	switch f.from {
	case "end":
		return admin.TailEnd
	case "start":
		return ""
	}
	return f.from
}

// next waits for the events that follow, over outages of the gateway. It ends
// with an error of the context, or one that trying again won't mend.
func (f *follower) next(ctx context.Context) ([]admin.Live, error) {
	for {
		page, err := f.client.Tail(ctx, f.query)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil:
			if f.gone {
				f.gone = false
				fmt.Fprintln(f.app.Stderr, "the gateway is back")
			}
			f.query.Cursor = page.Next
			if len(page.Items) > 0 {
				return page.Items, nil
			}
		case !errors.Is(err, admin.ErrUnreachable) && !unavailable(err):
			return nil, apiErr(err)
		default:
			if !f.gone {
				f.gone = true
				fmt.Fprintf(f.app.Stderr, "the gateway does not answer, waiting for it (%v)\n", err)
			}
			if err := rest(ctx, followRetry); err != nil {
				return nil, err
			}
		}
	}
}

// unavailable reports whether the gateway answered that it can't, now.
func unavailable(err error) bool {
	var api *admin.APIError
	return errors.As(err, &api) && api.Status >= 500
}

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (a *app) tailCmd() *cobra.Command {
	var f followFlags
	var n int
	long := `Prints events as the gateway accepts them, until Ctrl-C, and goes on where it was
when the gateway was away meanwhile. Reading never delays a delivery.`
	c := leaf("tail", "Follow events as they are accepted", long, cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return a.tail(ctx, f, n) })
	f.register(c.Flags())
	c.Flags().IntVar(&n, "count", 0, "end after this many `events`")
	return c
}

func (a *app) tail(ctx context.Context, f followFlags, n int) error {
	return a.call(ctx, func(c *admin.Client) error {
		fo := &follower{app: a, client: c, query: admin.TailQuery{Cursor: f.cursor(), Source: f.source, Type: f.typ, Wait: followWait}}
		for seen := 0; ; {
			events, err := fo.next(ctx)
			if errors.Is(err, context.Canceled) {
				return nil
			}
			if err != nil {
				return err
			}
			for i := range events {
				if err := a.tailLine(&events[i]); err != nil {
					return err
				}
				if seen++; seen == n {
					return nil
				}
			}
		}
	})
}

// tailLine prints one event: a line for people, else an object.
func (a *app) tailLine(e *admin.Live) error {
	if a.flags.output != "table" {
		out, err := encode(e, "", "")
		if err == nil {
			_, err = fmt.Fprintf(a.Stdout, "%s\n", out)
		}
		return err
	}
	_, err := fmt.Fprintf(a.Stdout, "%s  %s  %-14s  %-28s  %s  %s\n", stamp(e.ReceivedAt), e.Ref, clip(e.Source, 14),
		escape(clip(dash(e.Type), 28)), escape(clip(dash(e.ID), 40)), statusWord(e.Event))
	return err
}
