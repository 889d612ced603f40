package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
)

const reloadHelp = `
Makes the running gateway read its config again and waits for the result. A
config with faults changes nothing: all of them are printed, and the command
ends with 3. Listen addresses and the ledger's place need a restart.`

func (a *app) reloadCmd() *cobra.Command {
	return leaf("reload", "Read the config again, and wait for the result", reloadHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error {
			return a.call(ctx, func(c *admin.Client) error {
				got, err := c.Reload(ctx)
				var api *admin.APIError
				if errors.As(err, &api) && api.Code == admin.CodeConfig {
					writeFaults(a.Stderr, faultsOf(api.Faults), a.paletteFor(a.Stderr))
					return fail(exitConfig, "the config was not reloaded, the old one stays in force: %s", countFaults(faultsOf(api.Faults)))
				}
				if err != nil {
					return err
				}
				writeFaults(a.Stderr, faultsOf(got.Warnings), a.paletteFor(a.Stderr))
				return a.show(got, func(w io.Writer) error { return writePlain(w, "config reloaded\n") })
			})
		})
}

const ledgerCheckHelp = `
Makes the running gateway read its whole ledger and check every record, body
and claim against its checksum and every batch against the one before. Ends
with 6 when something is damaged or missing.`

func (a *app) ledgerCmd() *cobra.Command {
	check := leaf("check", "Read the whole ledger and report every fault", ledgerCheckHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error {
			return a.call(ctx, func(c *admin.Client) error {
				report, err := c.Check(ctx)
				if err != nil {
					return err
				}
				if err := a.show(report, func(w io.Writer) error { return writeCheck(w, report) }); err != nil {
					return err
				}
				if n := len(report.Faults); n > 0 {
					return fail(exitStore, "the ledger has %s", plural(n, "fault"))
				}
				return nil
			})
		})
	return group("ledger", "Look after the ledger", check)
}

func writeCheck(w io.Writer, r admin.CheckReport) error {
	for _, f := range r.Faults {
		fmt.Fprintf(w, "%s: %s\n", escape(f.Where), escape(f.What))
	}
	_, err := fmt.Fprintf(w, "%d batches, %d events, %d bodies, %d attempts, %d claims, %d acts: %s\n",
		r.Heads, r.Events, r.Bodies, r.Attempts, r.Claims, r.Acts, plural(len(r.Faults), "fault"))
	return err
}
