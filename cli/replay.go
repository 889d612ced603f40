package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/audit"
)

const replayHelp = `
Sends stored events to their targets again: one event by its ID, or all that
match the conditions. Only closed deliveries are opened; open ones are skipped
and counted. The idempotency key stays the same, so that a target which has
done the work recognises it, unless --new-key makes it {key}~r{generation}.

A replay by conditions counts first and asks before it sends. It runs in the
gateway, goes on after a restart where it stood, and is shown here until it
ends; 'replay status' and 'replay cancel' are for those that run. New events go
before replayed ones; --rate spares the target as well. It ends with 5 when a
part could not be replayed.` + "\n" + idHelp

// replayFlags are the flags of replay.
type replayFlags struct {
	filterFlags
	newKey, reroute, dryRun, yes, detach bool
	rate                                 string
}

func (a *app) replayCmd() *cobra.Command {
	c := a.replayStartCmd("replay [ID]")
	start := a.replayStartCmd("start [ID]")
	start.Short = "The same as replay alone"
	c.AddCommand(start, a.replayStatusCmd(), a.replayCancelCmd())
	return c
}

func (a *app) replayStartCmd(use string) *cobra.Command {
	var f replayFlags
	c := leaf(use, "Send stored events again", replayHelp, cobra.MaximumNArgs(1),
		func(ctx context.Context, args []string) error { return a.replay(ctx, args, f) })
	f.register(c.Flags())
	f.registerStatus(c.Flags())
	c.Flags().BoolVar(&f.newKey, "new-key", false, "give the replay an idempotency key of its own: the work is done again")
	c.Flags().BoolVar(&f.reroute, "reroute", false, "send to the targets of today's routes, not to the original ones")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "only count what would be sent")
	c.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	c.Flags().StringVar(&f.rate, "rate", "", "send at most so many deliveries, as in 20/s, 300/m or 1000/h")
	c.Flags().BoolVar(&f.detach, "detach", false, "do not wait for the end")
	return c
}

// request makes the API's request of what was typed.
func (f *replayFlags) request(args []string) (admin.ReplayRequest, error) {
	req := admin.ReplayRequest{Target: f.Target, NewKey: f.newKey, Reroute: f.reroute, DryRun: f.dryRun}
	if _, err := audit.ParseRate(f.rate); err != nil {
		return req, usage("replay: %v", err)
	}
	if len(args) == 0 {
		req.Filter = f.Filter
		if f.reroute {
			req.Filter.Target = "" // with --reroute the target is where to, not where it went
		}
		if req.Filter.IsZero() {
			return req, usage("replay: name an event, or say which with conditions such as --status dead --since 24h")
		}
		return req, nil
	}
	other := f.Filter
	other.Source, other.Target = "", ""
	if !other.IsZero() {
		return req, usage("replay: an ID names one event; leave the other conditions out")
	}
	if f.rate != "" || f.detach {
		return req, usage("replay: --rate and --detach are for a replay by conditions; an ID names one event")
	}
	req.ID, req.Source = args[0], f.Source
	return req, nil
}

func (a *app) replay(ctx context.Context, args []string, f replayFlags) error {
	req, err := f.request(args)
	if err != nil {
		return err
	}
	if !f.yes && !f.dryRun && len(args) == 0 && !isTerminal(a.Stdin) {
		return usage("replay: there is no terminal to ask on; say --yes to go ahead, or --dry-run to count")
	}
	return a.call(ctx, func(c *admin.Client) error {
		if len(args) > 0 || f.dryRun {
			return a.runReplay(ctx, c, req, f.rate)
		}
		n, err := a.askReplay(ctx, c, req, f.yes)
		if err != nil || n == 0 {
			return err
		}
		req.Rate = f.rate
		return a.runJob(ctx, c, req, f.detach)
	})
}

// askReplay counts what a replay by conditions would send and asks.
func (a *app) askReplay(ctx context.Context, c *admin.Client, req admin.ReplayRequest, yes bool) (int, error) {
	if yes {
		return 1, nil
	}
	req.DryRun = true
	would, err := allReplays(ctx, c, req)
	if err != nil {
		return 0, err
	}
	if would.Opened == 0 {
		return 0, replayEnd(would)
	}
	question := fmt.Sprintf("this sends %s of %s again (%s)", deliveries(would.Opened), plural(would.Events, "event"), size(would.Bytes))
	if req.NewKey {
		question += ", under new idempotency keys"
	}
	return would.Opened, a.confirm(ctx, false, question)
}

func (a *app) runReplay(ctx context.Context, c *admin.Client, req admin.ReplayRequest, rate string) error {
	got, err := allReplays(ctx, c, req)
	if err != nil && got.Opened == 0 {
		return err
	}
	if showErr := a.show(got, func(w io.Writer) error { return errors.Join(writeReplay(w, got), writeEstimate(w, got, rate)) }); showErr != nil {
		return showErr
	}
	if err != nil {
		return fail(exitPartly, "the replay stopped after %s: %w", deliveries(got.Opened), err)
	}
	return replayEnd(got)
}

// allReplays follows the cursors to the end of the selection. On an error the
// result says what was done before it.
func allReplays(ctx context.Context, c *admin.Client, req admin.ReplayRequest) (admin.ReplayResult, error) {
	sum := admin.ReplayResult{DryRun: req.DryRun}
	for {
		n, err := c.Replay(ctx, req)
		if err != nil {
			return sum, err
		}
		sum.Events += n.Events
		sum.Opened += n.Opened
		sum.Open += n.Open
		sum.Pruned += n.Pruned
		sum.Bytes += n.Bytes
		if n.Next == "" {
			return sum, nil
		}
		req.Cursor = n.Next
	}
}

func writeReplay(w io.Writer, r admin.ReplayResult) error {
	verb := "replayed"
	if r.DryRun {
		verb = "would be replayed"
	}
	_, err := fmt.Fprintf(w, "%s of %s %s; %d still open, %d without a body\n",
		deliveries(r.Opened), plural(r.Events, "event"), verb, r.Open, r.Pruned)
	return err
}

// writeEstimate says of a dry run how much it is and how long it would take.
func writeEstimate(w io.Writer, r admin.ReplayResult, rate string) error {
	if !r.DryRun || r.Opened == 0 {
		return nil
	}
	text := size(r.Bytes) + " of bodies"
	if per, err := audit.ParseRate(rate); err == nil {
		if d, ok := per.Time(r.Opened); ok {
			text += fmt.Sprintf(", about %s at %s", short(d), per)
		}
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

func deliveries(n int) string {
	if n == 1 {
		return "1 delivery"
	}
	return fmt.Sprintf("%d deliveries", n)
}

// replayEnd is how a finished replay ends.
func replayEnd(r admin.ReplayResult) error {
	switch {
	case r.Opened > 0 && r.Pruned > 0:
		return fail(exitPartly, "%s cannot be replayed: retention took the body", plural(r.Pruned, "event"))
	case r.Opened > 0:
		return nil
	case r.Pruned > 0:
		return fail(exitFailed, "nothing to replay: retention took the body of %s", plural(r.Pruned, "event"))
	case r.Open > 0:
		return fail(exitFailed, "nothing to replay: %s still open", deliveries(r.Open))
	}
	return fail(exitNotFound, "nothing to replay")
}

func (a *app) cancelCmd() *cobra.Command {
	var source, target string
	long := "Closes the open deliveries of one event: no further attempt is made. What was\ndelivered stays delivered; 'replay' opens a cancelled delivery again.\n" + idHelp
	c := leaf("cancel ID", "Stop trying to deliver one event", long, cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error {
			return a.call(ctx, func(c *admin.Client) error {
				got, err := c.Cancel(ctx, args[0], source, target)
				if err != nil {
					return err
				}
				if err := a.show(got, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "event %s: %s cancelled\n", got.Ref, deliveries(got.Cancelled))
					return err
				}); err != nil {
					return err
				}
				if got.Cancelled == 0 {
					return fail(exitNotFound, "event %s has no open delivery", got.Ref)
				}
				return nil
			})
		})
	c.Flags().StringVar(&source, "source", "", "source in which to look up a provider's ID")
	c.Flags().StringVar(&target, "target", "", "only the delivery to this target")
	return c
}
