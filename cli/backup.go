package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/gateway"
)

const backupHelp = `Asks the running gateway for a copy of its ledger: consistent, checksummed, while
events come in. FILE appears when it is whole, and is read back and verified before
that. It holds bodies and is written for its owner alone; admin token, audit key and
secrets that providers handed over are not in it: keep those where the config is.`

const restoreHelp = `Makes a ledger of a backup in a directory that must be empty or not there; the
gateway is then started with store.path set to it.

It is a new epoch of the ledger: what was accepted after the backup is not in it,
neither events nor claims, so an event that a provider sends again, and that only the
lost ledger knew, is taken as new. Deliveries that were open at the backup are held,
since most of them were made after it: look at them, then start the gateway with
"serve --resume-deliveries", or give the flag here. They keep their idempotency keys.`

func (a *app) backupCmd() *cobra.Command {
	var to string
	c := leaf("backup", "Copy the ledger of the running gateway to a file", backupHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return a.backup(ctx, to) })
	c.Flags().StringVar(&to, "to", "", "`file` to write")
	c.AddCommand(leaf("verify FILE", "Read a whole backup and check it", "Reads every record and checks the whole.", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return a.backupVerify(ctx, args[0]) }))
	return c
}

func (a *app) backup(ctx context.Context, to string) error {
	if to == "" {
		return usage("backup: --to says which file to write")
	}
	if a.flags.addr == "" && a.sharedLedger() {
		return fail(exitFailed, "a ledger in PostgreSQL is backed up with its database, by pg_dump, or by onceward ledger dump: docs/scale.md")
	}
	if _, err := os.Stat(to); err == nil {
		return fail(exitFailed, "%s exists; remove it, or choose another name", to)
	}
	part, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".part-*") // mode 0600
	if err != nil {
		return err
	}
	err = a.call(ctx, func(c *admin.Client) error {
		_, err := c.Backup(ctx, &meter{app: a, w: &stepped{f: part}, what: "backed up"})
		return err
	})
	if err == nil {
		err = part.Sync()
	}
	if err = errors.Join(err, part.Close()); err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	report, err := verifyBackup(ctx, part.Name())
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	if err := os.Rename(part.Name(), to); err != nil {
		return err
	}
	return a.show(report, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s: %s, %s, verified\n", to, plural(int(report.Events), "event"), size(report.Bytes))
		return err
	})
}

// stepped writes a big file in steps that are each on the disk before the next:
// what piles up in memory would reach it all at once, and the ledger's own syncs
// wait behind it. The end is the caller's to sync.
type stepped struct {
	f        *os.File
	at, done int64 // written, and of that on the disk
}

const syncStep = 1 << 20

func (s *stepped) Write(p []byte) (int, error) {
	n, err := s.f.Write(p)
	s.at += int64(n)
	if since := s.at - s.done; err == nil && since >= syncStep {
		err = writeOut(s.f, s.done, since)
		s.done = s.at
	}
	return n, err
}

// meter says now and then how much passed.
type meter struct {
	app  *app
	w    io.Writer
	what string
	n    int64
	said time.Time
}

func (m *meter) Write(p []byte) (int, error) {
	n, err := m.w.Write(p)
	m.n += int64(n)
	if now := time.Now(); m.said.IsZero() {
		m.said = now
	} else if now.Sub(m.said) > exportEvery {
		m.said = now
		fmt.Fprintf(m.app.Stderr, "%s %s so far\n", size(m.n), m.what)
	}
	return n, err
}

func verifyBackup(ctx context.Context, path string) (dedupe.BackupReport, error) {
	f, err := os.Open(path)
	if err != nil {
		return dedupe.BackupReport{}, err
	}
	defer f.Close()
	report, err := gateway.VerifyBackup(ctx, f)
	if err != nil {
		err = &codedError{exitStore, fmt.Errorf("%s: %w", path, err)}
	}
	return report, err
}

func (a *app) backupVerify(ctx context.Context, path string) error {
	report, err := verifyBackup(ctx, path)
	if err != nil {
		return err
	}
	return a.show(report, func(w io.Writer) error {
		t := table{}
		t.add("made", stamp(report.At))
		t.add("events", fmt.Sprint(report.Events))
		t.add("records", fmt.Sprint(report.Records))
		t.add("size", size(report.Bytes))
		t.add("ledger", "writer "+report.Writer+", batch "+fmt.Sprint(report.Batch))
		t.add("verified", "every record, and the whole")
		return t.write(w)
	})
}

func (a *app) restoreCmd() *cobra.Command {
	var from, to string
	var resume, dry bool
	c := leaf("restore", "Make a ledger of a backup", restoreHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return a.restore(ctx, from, to, resume, dry) })
	c.Flags().StringVar(&from, "from", "", "`file` that backup wrote")
	c.Flags().StringVar(&to, "to", "", "`directory` for the ledger; must be empty or not there")
	c.Flags().BoolVar(&resume, "resume-deliveries", false, "don't hold the deliveries that were open at the backup")
	c.Flags().BoolVar(&dry, "dry-run", false, "only verify the backup and say what it holds")
	return c
}

func (a *app) restore(ctx context.Context, from, to string, resume, dry bool) error {
	if from == "" || to == "" && !dry {
		return usage("restore: --from names the backup and --to the directory")
	}
	if dry {
		return a.backupVerify(ctx, from)
	}
	if a.sharedLedger() {
		return fail(exitFailed, "the ledger of the config is in PostgreSQL and is restored with its database, by pg_restore, or by onceward ledger load: docs/scale.md; for a ledger in a directory --config names another")
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	report, err := gateway.RestoreLedger(ctx, to, f, resume)
	if err != nil {
		return &codedError{exitStore, err}
	}
	return a.show(report, func(w io.Writer) error {
		fmt.Fprintf(w, "%s: %s as of %s\n", to, plural(int(report.Events), "event"), stamp(report.At))
		if report.Held {
			fmt.Fprintln(w, `deliveries that were open then are held: "serve --resume-deliveries" makes them`)
		}
		return nil
	})
}
