package cli

import (
	"context"
	"errors"
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
