package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/gateway"
)

const ledgerCheckHelp = `
Reads the whole ledger and checks every record, body and claim against its
checksum and every batch against the one before: through the gateway while it
runs, by itself when it is stopped. Ends with 6 when something is damaged or
missing; each fault names a file, a record or a range of batches.`

const ledgerSalvageHelp = `
Writes everything of a damaged ledger that verifies as a new ledger in the
directory --to, and lists what it could not read and what is missing for it. The
gateway must be stopped; the damaged ledger is not changed. Then point store.path
at the new directory.

Events that were lost are named by batch or record, never answered as unknown:
a repeat of one of them is taken for new, since its claim is lost too. Ends with
5 when anything was lost.`

func (a *app) ledgerCmd() *cobra.Command {
	check := leaf("check", "Read the whole ledger and report every fault", ledgerCheckHelp, cobra.NoArgs, a.ledgerCheck)
	to := ""
	salvage := leaf("salvage", "Make a new ledger of what verifies of a damaged one", ledgerSalvageHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return a.ledgerSalvage(ctx, to) })
	salvage.Flags().StringVar(&to, "to", "", "`directory` for the new ledger; must be empty or not there")
	return group("ledger", "Look after the ledger", check, salvage)
}

// ledgerCheck asks the gateway, or looks by itself where none runs. A gateway
// named by address is somewhere else: there is nothing to look at here.
func (a *app) ledgerCheck(ctx context.Context, _ []string) error {
	var report dedupe.CheckReport
	err := a.call(ctx, func(c *admin.Client) (err error) {
		report, err = c.Check(ctx)
		return err
	})
	if codeOf(err) == exitUnreachable && a.flags.addr == "" {
		report, err = a.inspect(ctx)
	}
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
}

func (a *app) inspect(ctx context.Context) (dedupe.CheckReport, error) {
	cfg, _, err := a.good()
	if err != nil {
		return dedupe.CheckReport{}, err
	}
	fmt.Fprintf(a.Stderr, "no gateway runs; reading %s\n", escape(cfg.StorePath()))
	return gateway.InspectLedger(ctx, cfg, slog.New(slog.DiscardHandler))
}

func (a *app) ledgerSalvage(ctx context.Context, to string) error {
	if to == "" {
		return usage("ledger salvage: --to says where the new ledger goes")
	}
	cfg, _, err := a.good()
	if err != nil {
		return err
	}
	report, err := gateway.SalvageLedger(ctx, cfg, to, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if err := a.show(report, func(w io.Writer) error { return writeSalvage(w, report) }); err != nil {
		return err
	}
	if n := len(report.Faults); n > 0 {
		return fail(exitPartly, "not all of the ledger could be saved: %s", plural(n, "fault"))
	}
	return nil
}

func writeFaultLines(w io.Writer, faults []dedupe.Fault) {
	for _, f := range faults {
		fmt.Fprintf(w, "%s: %s\n", escape(f.Where), escape(f.What))
	}
}

func writeCheck(w io.Writer, r dedupe.CheckReport) error {
	writeFaultLines(w, r.Faults)
	_, err := fmt.Fprintf(w, "%d batches, %d events, %d bodies, %d attempts, %d claims, %d acts: %s\n",
		r.Heads, r.Events, r.Bodies, r.Attempts, r.Claims, r.Acts, plural(len(r.Faults), "fault"))
	return err
}

func writeSalvage(w io.Writer, r dedupe.SalvageReport) error {
	writeFaultLines(w, r.Faults)
	_, err := fmt.Fprintf(w, "saved %d records, lost %d that were there: %d events, %d bodies, %d attempts, %d claims in %s; set store.path to it\n",
		r.Records, r.Lost, r.Events, r.Bodies, r.Attempts, r.Claims, escape(r.Dir))
	return err
}
