package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/gateway"
)

const placesHelp = `A ledger is named as badger:DIRECTORY, postgres:env:NAME (the DSN stands in that
environment variable), postgres:file:PATH (in that file), postgres:DSN, or
config:FILE (the store of that config). A password in an argument is seen by
every user of the machine.`

const ledgerCopyHelp = `
Copies an embedded ledger into a schema of a PostgreSQL database that holds none:
claims with their windows, events, bodies, deliveries with their attempts and
their places, the account, notes, keys of synchronous routes. A repeat of an event
that the old ledger knew is a repeat on the new one. The gateway must be stopped.

At the end everything is read back; the table shows the records of each kind on
both sides and one hash over them. Only when all are equal may gateways open the
schema, and the old directory is marked as moved, so that no gateway goes on with
it; --keep leaves that out. Else the old ledger is not changed. A copy that was cut
goes on with the same command. Damaged records are named and end it; with
--skip-damaged they are left out, and it ends with 5.

There is no copy from a database to a directory.

` + placesHelp

const ledgerDumpHelp = `
Writes a whole ledger as a dump, a file that ledger load makes a ledger of, in
whichever database: of a database as it is at one moment, while gateways run, or of
a directory whose gateway is stopped. FILE appears when it is whole. It holds bodies,
and the audit keys that gateways keep in a database, and is written for its owner
alone.

` + placesHelp

const ledgerLoadHelp = `
Makes a ledger of a dump in a schema that holds none, reads it back and compares.
Gateways go on as new writers. What was accepted after the dump is not in it,
neither events nor claims; deliveries that were open then are held, since most of
them were made after it: look at them, then run ledger resume, or give
--resume-deliveries here. A load that was cut goes on with the same command.

` + placesHelp

const ledgerHoldHelp = `
For a database that pg_restore or a point-in-time recovery brought back: makes it a
ledger of its own. Gateways go on as new writers, leases are given back, and
deliveries that are open are held, since most of them were made after the copy.
ledger resume makes them. Stop all gateways first: one that was alive within the
last minute is an error.

` + placesHelp

const ledgerResumeHelp = `
Makes the deliveries that a restored ledger in a database holds due now. Gateways
may run. They keep their idempotency keys.

` + placesHelp

// moveCmds are the commands that move whole ledgers.
func (a *app) moveCmds() []*cobra.Command {
	var from, to, file, schema string
	var how gateway.Move
	cp := leaf("copy", "Copy an embedded ledger into a database", ledgerCopyHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return a.ledgerCopy(ctx, from, to, schema, how) })
	cp.Flags().StringVar(&from, "from", "", "`ledger` to copy; default: the one of the config")
	cp.Flags().StringVar(&to, "to", "", "`ledger` to make")
	cp.Flags().StringVar(&schema, "schema", "", "`schema` of the database; default onceward")
	cp.Flags().BoolVar(&how.Keep, "keep", false, "don't mark the old ledger as moved")
	cp.Flags().BoolVar(&how.SkipDamaged, "skip-damaged", false, "leave damaged records out, and count them")

	dump := leaf("dump", "Write a whole ledger to a file", ledgerDumpHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return a.ledgerDump(ctx, from, schema, file, how) })
	dump.Flags().StringVar(&from, "from", "", "`ledger` to dump; default: the one of the config")
	dump.Flags().StringVar(&schema, "schema", "", "`schema` of the database; default onceward")
	dump.Flags().StringVar(&file, "file", "", "`file` to write")
	dump.Flags().BoolVar(&how.SkipDamaged, "skip-damaged", false, "leave damaged records out, and count them")
	dump.AddCommand(leaf("verify FILE", "Read a whole dump and check it", "Reads every record and checks the whole.", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return a.dumpVerify(ctx, args[0]) }))

	load := leaf("load", "Make a ledger of a dump", ledgerLoadHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return a.ledgerLoad(ctx, to, schema, file, how) })
	load.Flags().StringVar(&to, "to", "", "`ledger` to make; default: the one of the config")
	load.Flags().StringVar(&schema, "schema", "", "`schema` of the database; default onceward")
	load.Flags().StringVar(&file, "file", "", "`file` that ledger dump wrote")
	load.Flags().BoolVar(&how.Resume, "resume-deliveries", false, "don't hold the deliveries that were open at the dump")

	hold := leaf("hold", "Hold what a restored database has open", ledgerHoldHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error {
			return a.ledgerHold(ctx, to, schema, gateway.HoldLedger, "held; gateways go on as new writers")
		})
	resume := leaf("resume", "Make the deliveries that a restored database holds", ledgerResumeHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error {
			return a.ledgerHold(ctx, to, schema, gateway.ResumeLedger, "due now")
		})
	for _, c := range [...]*cobra.Command{hold, resume} {
		c.Flags().StringVar(&to, "at", "", "`ledger`; default: the one of the config")
		c.Flags().StringVar(&schema, "schema", "", "`schema` of the database; default onceward")
	}
	return []*cobra.Command{cp, dump, load, hold, resume}
}

// place reads where a ledger is; without a text it is the config's.
func (a *app) place(flag, text, schema string) (gateway.Place, error) {
	const config = "config:"
	if text == "" || len(text) > len(config) && text[:len(config)] == config {
		if schema != "" {
			return gateway.Place{}, usage("--schema: the config names it")
		}
		if text != "" {
			was := a.flags.config
			a.flags.config = text[len(config):]
			defer func() { a.flags.config = was }()
		}
		cfg, _, err := a.good()
		if err != nil {
			return gateway.Place{}, err
		}
		return gateway.StorePlace(cfg), nil
	}
	p, err := gateway.ParsePlace(text, schema, gateway.Env{Lookup: a.Env})
	if err != nil {
		return p, usage("%s: %w", flag, err)
	}
	return p, nil
}

func (a *app) ledgerCopy(ctx context.Context, from, to, schema string, how gateway.Move) error {
	if to == "" {
		return usage("ledger copy: --to says where the ledger goes")
	}
	src, err := a.place("--from", from, "")
	if err != nil {
		return err
	}
	dst, err := a.place("--to", to, schema)
	if err != nil {
		return err
	}
	bar := a.newMoveBar("copying")
	how.Progress = bar.show
	report, err := gateway.CopyLedger(ctx, src, dst, how)
	bar.end()
	return a.showMove(report, err, func(w io.Writer) {
		fmt.Fprintf(w, "%s is equal to %s", escape(dst.String()), escape(src.String()))
		if !how.Keep {
			fmt.Fprint(w, ", which is marked as moved")
		}
		fmt.Fprintln(w)
		if key := src.AuditKeyFile(); key != "" {
			fmt.Fprintf(w, "its account was signed with the key in that directory: go on with it, [audit] key = \"${file:%s}\"\n", escape(key))
		}
	})
}

// showMove prints what a move came to, also one that failed at the end.
func (a *app) showMove(report dedupe.MoveReport, err error, said func(io.Writer)) error {
	if report.From == nil {
		return err
	}
	serr := a.show(report, func(w io.Writer) error {
		writeFaultLines(w, report.Skipped)
		if werr := writeMove(w, report); werr != nil {
			return werr
		}
		if err == nil {
			said(w)
		}
		return nil
	})
	if err = errors.Join(err, serr); err == nil && len(report.Skipped) > 0 {
		err = fail(exitPartly, "%s left out", plural(len(report.Skipped), "damaged record"))
	}
	return err
}

// writeMove is a row for each kind that there is.
func writeMove(w io.Writer, r dedupe.MoveReport) error {
	t := table{head: []string{"KIND", "SENT", "ARRIVED", "HASH", ""}}
	if r.To == nil {
		t.head = []string{"KIND", "RECORDS", "HASH"}
	}
	for i, c := range r.From {
		row := []string{c.Kind, fmt.Sprint(c.Records)}
		if r.To != nil {
			verdict := "equal"
			if r.To[i] != c {
				verdict = "DIFFERENT"
			}
			row = append(row, fmt.Sprint(r.To[i].Records), c.Hash.String()[:16], verdict)
		} else {
			row = append(row, c.Hash.String()[:16])
		}
		t.add(row...)
	}
	return t.write(w)
}

func (a *app) ledgerDump(ctx context.Context, from, schema, file string, how gateway.Move) error {
	if file == "" {
		return usage("ledger dump: --file says which file to write")
	}
	if _, err := os.Stat(file); err == nil {
		return fail(exitFailed, "%s exists; remove it, or choose another name", file)
	}
	src, err := a.place("--from", from, schema)
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".part-*") // mode 0600
	if err != nil {
		return err
	}
	bar := a.newMoveBar("dumping")
	how.Progress = bar.show
	report, err := gateway.DumpLedger(ctx, src, part, how)
	bar.end()
	if err == nil {
		err = part.Sync()
	}
	if err = errors.Join(err, part.Close()); err == nil {
		_, _, err = verifyDump(ctx, part.Name())
	}
	if err == nil {
		err = os.Rename(part.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return a.showMove(report, nil, func(w io.Writer) { fmt.Fprintf(w, "%s: verified\n", file) })
}

func verifyDump(ctx context.Context, path string) (dedupe.DumpHead, dedupe.MoveReport, error) {
	f, err := os.Open(path)
	if err != nil {
		return dedupe.DumpHead{}, dedupe.MoveReport{}, err
	}
	defer f.Close()
	head, report, err := gateway.VerifyDump(ctx, f)
	if err != nil {
		err = &codedError{exitStore, fmt.Errorf("%s: %w", path, err)}
	}
	return head, report, err
}

func (a *app) dumpVerify(ctx context.Context, path string) error {
	head, report, err := verifyDump(ctx, path)
	if err != nil {
		return err
	}
	return a.showMove(report, nil, func(w io.Writer) {
		fmt.Fprintf(w, "made %s of %s; every record is verified, and the whole\n", stamp(head.At), escape(head.Of))
	})
}

func (a *app) ledgerLoad(ctx context.Context, to, schema, file string, how gateway.Move) error {
	if file == "" {
		return usage("ledger load: --file names the dump")
	}
	dst, err := a.place("--to", to, schema)
	if err != nil {
		return err
	}
	if _, _, err := verifyDump(ctx, file); err != nil { // before anything is made of it
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	bar := a.newMoveBar("loading")
	how.Progress = bar.show
	report, err := gateway.LoadLedger(ctx, f, dst, how)
	bar.end()
	return a.showMove(report, err, func(w io.Writer) {
		fmt.Fprintf(w, "%s is equal to the dump\n", escape(dst.String()))
		if !how.Resume {
			fmt.Fprintln(w, `deliveries that were open then are held: "ledger resume" makes them`)
		}
	})
}

func (a *app) ledgerHold(ctx context.Context, at, schema string, do func(context.Context, gateway.Place) (int64, error), what string) error {
	p, err := a.place("--at", at, schema)
	if err != nil {
		return err
	}
	n, err := do(ctx, p)
	if err != nil {
		return err
	}
	held := struct {
		Deliveries int64 `json:"deliveries"`
	}{n}
	return a.show(held, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%d deliveries are %s\n", n, what)
		return err
	})
}

// moveBar shows how far a move is: a bar to a person, a line now and then to a
// log.
type moveBar struct {
	w     io.Writer
	what  string
	shows bool
	bar   *progressbar.ProgressBar
	said  time.Time
}

func (a *app) newMoveBar(what string) *moveBar {
	return &moveBar{w: a.Stderr, what: what, shows: isTerminal(a.Stderr), said: time.Now()}
}

func (b *moveBar) show(done, total uint64) {
	if !b.shows {
		if time.Since(b.said) >= exportEvery {
			b.said = time.Now()
			fmt.Fprintf(b.w, "%s: %s so far\n", b.what, plural(int(done), "event"))
		}
		return
	}
	if b.bar == nil {
		length := int(total)
		if total == 0 {
			length = -1 // a spinner
		}
		b.bar = progressbar.NewOptions(length, progressbar.OptionSetWriter(b.w), progressbar.OptionSetDescription(b.what),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("events"),
			progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())
	}
	if total > 0 {
		done = min(done, total)
	}
	_ = b.bar.Set(int(done))
}

func (b *moveBar) end() {
	if b.bar != nil {
		_ = b.bar.Clear()
	}
}
