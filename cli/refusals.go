package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
)

func (a *app) refusalsCmd() *cobra.Command {
	var f admin.RefusalFilter
	long := "Lists the latest requests that did not verify, newest first. They leave nothing\nin the ledger: a bounded number is remembered in memory, for each source and\nreason, with their credentials taken out."
	c := leaf("list", "List refused requests and why", long, cobra.NoArgs, func(ctx context.Context, _ []string) error {
		return a.call(ctx, func(c *admin.Client) error {
			items, err := c.Refusals(ctx, f)
			if err != nil {
				return err
			}
			return whole(a, items, []string{"AT", "ID", "SOURCE", "REASON", "FROM", "BYTES", "DETAIL"}, func(r admin.Refusal) []string {
				return []string{stamp(r.At), r.ID, r.Source, r.Reason, r.Remote, fmt.Sprint(r.BodyBytes), r.Detail}
			})
		})
	})
	c.Flags().StringVar(&f.Source, "source", "", "only of this `source`")
	c.Flags().StringVar(&f.Reason, "reason", "", "only for this `reason`")
	c.Flags().StringVar(&f.Since, "since", "", "not older than `time`: RFC 3339, or an age as in 24h")
	c.Flags().IntVar(&f.Limit, "limit", 50, "how many to print, at most 500")
	get := leaf("get ID", "Show one refused request", "ID is the refusal's own, as the list shows it.", cobra.ExactArgs(1), func(ctx context.Context, args []string) error {
		return a.call(ctx, func(c *admin.Client) error {
			r, err := c.Refusal(ctx, args[0])
			if err != nil {
				return err
			}
			return a.show(r, func(w io.Writer) error { return writeRefusal(w, r) })
		})
	})
	return group("refusals", "List what did not verify, and why", c, get)
}

func writeRefusal(w io.Writer, r admin.Refusal) error {
	t := table{}
	t.add("id", r.ID)
	t.add("at", stamp(r.At))
	t.add("source", r.Source)
	t.add("reason", r.Reason)
	t.add("detail", dash(r.Detail))
	t.add("from", r.Remote)
	t.add("method", r.Method)
	t.add("body", size(r.BodyBytes)+", sha256 "+dash(r.BodySHA256))
	for _, h := range r.Header {
		t.add("header", h.Name+": "+h.Value)
	}
	if r.Body != "" {
		t.add("begins with", r.Body)
	}
	return t.write(w)
}
