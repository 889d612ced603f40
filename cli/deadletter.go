package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/dedupe"
)

const dropHelp = `
Takes deliveries that are dead off the list: they become cancelled, and what was
attempted stays in the account. 'replay' opens them again. One event by its ID,
or all that match the conditions; those it counts first, and asks.` + "\n" + idHelp

func (a *app) deadletterCmd() *cobra.Command {
	return group("deadletter", "List dead deliveries, and drop them", a.deadletterListCmd(), a.deadletterDropCmd())
}

func (a *app) deadletterListCmd() *cobra.Command {
	var f filterFlags
	var p pageFlags
	c := leaf("list", "List dead deliveries, newest first", "", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		f.State = "dead"
		if err := p.check(); err != nil {
			return err
		}
		return a.call(ctx, func(c *admin.Client) error {
			l := a.newList("RECEIVED", "DELIVERY", "SOURCE", "TYPE", "EVENT ID", "ATTEMPTS", "LAST", "DIED")
			more, err := pages(l, p.limit, p.all, func(cursor string, limit int) (dedupe.Page[admin.Delivery], error) {
				return c.Deliveries(ctx, f.Filter, cursor, limit)
			}, func(d admin.Delivery) []string {
				return []string{stamp(d.ReceivedAt), d.ID, d.Source, dash(clip(d.Type, 32)), dash(clip(d.EventID, 40)),
					fmt.Sprint(d.Attempts), lastOf(d), stamp(d.UpdatedAt)}
			})
			a.afterList(l, more, err, "dead letters")
			return err
		})
	})
	f.register(c.Flags())
	p.register(c)
	return c
}

func (a *app) deadletterDropCmd() *cobra.Command {
	var f filterFlags
	var reason string
	var dryRun, yes bool
	c := leaf("drop [ID]", "Take dead deliveries off the list", dropHelp, cobra.MaximumNArgs(1),
		func(ctx context.Context, args []string) error {
			req, err := dropRequest(args, f.Filter)
			if err != nil {
				return err
			}
			if req.Reason, req.DryRun = reason, dryRun; reason == "" {
				return usage("deadletter drop: say why with --reason")
			}
			if len(args) == 0 && !yes && !dryRun && !isTerminal(a.Stdin) {
				return usage("deadletter drop: there is no terminal to ask on; say --yes to go ahead, or --dry-run to count")
			}
			return a.call(ctx, func(c *admin.Client) error { return a.drop(ctx, c, req, yes || len(args) > 0) })
		})
	f.register(c.Flags())
	c.Flags().StringVar(&reason, "reason", "", "why; it is recorded (required)")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only count what would be dropped")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

func dropRequest(args []string, f admin.Filter) (admin.DropRequest, error) {
	if len(args) == 0 {
		if f.IsZero() {
			return admin.DropRequest{}, usage("deadletter drop: name an event, or say which with conditions such as --target billing --since 24h")
		}
		return admin.DropRequest{Filter: f}, nil
	}
	other := f
	other.Source, other.Target = "", ""
	if !other.IsZero() {
		return admin.DropRequest{}, usage("deadletter drop: an ID names one event; leave the other conditions out")
	}
	return admin.DropRequest{ID: args[0], Source: f.Source, Target: f.Target}, nil
}

// drop counts and asks, unless it is sure, then drops.
func (a *app) drop(ctx context.Context, c *admin.Client, req admin.DropRequest, sure bool) error {
	if !sure && !req.DryRun {
		dry := req
		dry.DryRun = true
		would, err := allDrops(ctx, c, dry)
		if err != nil {
			return err
		}
		if would.Dropped > 0 {
			if err := a.confirm(ctx, false, "this drops "+plural(would.Dropped, "dead letter")); err != nil {
				return err
			}
		}
	}
	got, err := allDrops(ctx, c, req)
	if err != nil && got.Dropped == 0 {
		return err
	}
	verb := "dropped"
	if req.DryRun {
		verb = "would be dropped"
	}
	if showErr := a.show(got, func(w io.Writer) error {
		return writePlain(w, fmt.Sprintf("%s %s\n", plural(got.Dropped, "dead letter"), verb))
	}); showErr != nil {
		return showErr
	}
	switch {
	case err != nil:
		return fail(exitPartly, "it stopped after %s: %w", plural(got.Dropped, "dead letter"), err)
	case got.Dropped == 0:
		return fail(exitNotFound, "no dead letter matches")
	}
	return nil
}

// allDrops follows the cursors to the end of the selection.
func allDrops(ctx context.Context, c *admin.Client, req admin.DropRequest) (admin.DropResult, error) {
	sum := admin.DropResult{DryRun: req.DryRun}
	for {
		n, err := c.Drop(ctx, req)
		if err != nil {
			return sum, err
		}
		sum.Dropped += n.Dropped
		if n.Next == "" {
			return sum, nil
		}
		req.Cursor = n.Next
	}
}

func (a *app) deliveriesCancelCmd() *cobra.Command {
	var reason string
	long := "Closes one open delivery: no further attempt is made. ID is the delivery's own, as\n'deliveries list' prints it: ref, target and generation."
	c := leaf("cancel ID", "Stop trying one delivery", long, cobra.ExactArgs(1), func(ctx context.Context, args []string) error {
		return a.call(ctx, func(c *admin.Client) error {
			got, err := c.CancelDelivery(ctx, args[0], reason)
			if err != nil {
				return err
			}
			if got.Cancelled == 0 {
				return fail(exitNotFound, "delivery %s is closed already", args[0])
			}
			return a.show(got, func(w io.Writer) error { return writePlain(w, "delivery "+escape(args[0])+" cancelled\n") })
		})
	})
	c.Flags().StringVar(&reason, "reason", "", "why; it is recorded")
	return c
}
