package cli

import (
	"context"
	"errors"
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
missing; each fault names a file, a record or a range of batches.

A ledger in PostgreSQL is read directly where no gateway answers here; gateways
elsewhere may run meanwhile.`

const ledgerMigrateHelp = `
Makes the schema of a ledger in PostgreSQL, or brings it up to date with this
program. --plan prints the version and the SQL of each step that is lacking and
changes nothing; --apply does them, each in a transaction of its own, and says
what was done. Gateways of the version before may run meanwhile unless the
release notes say otherwise. The dsn of the config needs the right to create
tables; gateways themselves, once it is done, do not migrate unless they are told
to by store.migrate or serve --migrate.`

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
	var plan, apply bool
	migrate := leaf("migrate", "Bring the schema of a ledger in PostgreSQL up to date", ledgerMigrateHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return a.ledgerMigrate(ctx, plan, apply) })
	migrate.Flags().BoolVar(&plan, "plan", false, "print what is lacking and change nothing")
	migrate.Flags().BoolVar(&apply, "apply", false, "do it")
	return group("ledger", "Look after the ledger", append([]*cobra.Command{check, migrate, salvage}, a.moveCmds()...)...)
}

func (a *app) ledgerMigrate(ctx context.Context, plan, apply bool) error {
	if plan == apply {
		return usage("ledger migrate: choose one of --plan and --apply")
	}
	cfg, _, err := a.good()
	if err != nil {
		return err
	}
	steps, err := gateway.MigrateLedger(ctx, cfg, plan)
	if errors.Is(err, gateway.ErrNoSchema) {
		return &codedError{exitUsage, err}
	}
	if len(steps) > 0 || err == nil {
		if serr := a.show(steps, func(w io.Writer) error { return writeMigrations(w, cfg.Store.Schema, steps, plan) }); serr != nil {
			err = errors.Join(err, serr)
		}
	}
	return err
}

func writeMigrations(w io.Writer, schema string, steps []gateway.Migration, plan bool) error {
	if len(steps) == 0 {
		_, err := fmt.Fprintf(w, "schema %s is up to date: nothing to do\n", schema)
		return err
	}
	for _, s := range steps {
		line, sql := fmt.Sprintf("schema %s: version %d applied\n", schema, s.Version), ""
		if plan {
			line, sql = fmt.Sprintf("-- schema %s: version %d is lacking\n", schema, s.Version), s.SQL
		}
		if _, err := io.WriteString(w, line+sql); err != nil {
			return err
		}
	}
	return nil
}

// ledgerCheck asks the gateway, or looks by itself where none runs. A gateway
// named by address is somewhere else: there is nothing to look at here.
func (a *app) ledgerCheck(ctx context.Context, _ []string) error {
	var report dedupe.CheckReport
	err := a.call(ctx, func(c *admin.Client) (err error) {
		report, err = c.Check(ctx)
		return err
	})
	if code := codeOf(err); a.flags.addr == "" && (code == exitUnreachable || code == exitNotAllowed && a.sharedLedger()) {
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

// sharedLedger reports whether the ledger of the config can be read beside its
// gateways.
func (a *app) sharedLedger() bool {
	cfg, _, _, err := a.load(false)
	return err == nil && cfg.Shared()
}

func (a *app) inspect(ctx context.Context) (dedupe.CheckReport, error) {
	cfg, _, err := a.good()
	if err != nil {
		return dedupe.CheckReport{}, err
	}
	if cfg.Shared() {
		fmt.Fprintf(a.Stderr, "no gateway answers; reading schema %s of the database\n", cfg.Store.Schema)
	} else {
		fmt.Fprintf(a.Stderr, "no gateway runs; reading %s\n", escape(cfg.StorePath()))
	}
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
