package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/gateway"
)

func (a *app) auditCmd() *cobra.Command {
	return group("audit", "Read and verify the account of everything that happened",
		a.auditListCmd(), a.auditVerifyCmd(), a.auditVerifyReceiptCmd(), a.auditExportCmd(), a.auditCheckpointCmd(), a.auditKeyCmd())
}

const auditListHelp = `
Lists what was recorded, newest first: events accepted, repeated, conflicting;
requests refused, as counts per minute; attempts, deliveries, dead letters;
replays, cancellations and whatever else operators did, with their names and
reasons; configurations.`

func (a *app) auditListCmd() *cobra.Command {
	var f admin.ActFilter
	var p pageFlags
	c := leaf("list", "List what was recorded, newest first", auditListHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return a.auditList(ctx, f, p) })
	fs := c.Flags()
	fs.StringVar(&f.Kind, "kind", "", "only `kinds` such as accepted,delivered; operated and configured are operators' acts")
	fs.StringVar(&f.Ref, "ref", "", "only of the event with this `ref`")
	fs.StringVar(&f.Source, "source", "", "only of this `source`")
	fs.StringVar(&f.Target, "target", "", "only of this `target`")
	fs.StringVar(&f.Actor, "actor", "", "only of who has this `name`")
	fs.StringVar(&f.Since, "since", "", "not older than `time`: RFC 3339, or an age as in 24h or 7d")
	fs.StringVar(&f.To, "to", "", "older than `time`")
	p.register(c)
	return c
}

func (a *app) auditList(ctx context.Context, f admin.ActFilter, p pageFlags) error {
	if err := p.check(); err != nil {
		return err
	}
	return a.call(ctx, func(c *admin.Client) error {
		l := a.newList("AT", "KIND", "REF", "SOURCE/TARGET", "WHAT", "BY", "REASON")
		more, err := pages(l, p.limit, p.all, func(cursor string, limit int) (dedupe.Page[admin.Act], error) {
			return c.Acts(ctx, f, cursor, limit)
		}, func(v admin.Act) []string {
			ref := ""
			if !v.Ref.IsZero() {
				ref = v.Ref.String()
			}
			return []string{stamp(v.At), v.Kind, dash(ref), dash(v.Source + v.Target), dash(clip(whatOf(v), 60)), dash(v.Actor), dash(clip(v.Reason, 40))}
		})
		a.afterList(l, more, err, "acts")
		return err
	})
}

// whatOf is an act in a few words.
func whatOf(v admin.Act) string {
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch {
	case v.EventID != "":
		add("%s", v.EventID)
	case v.Count > 0:
		add("%d×", v.Count)
	case v.Number > 0:
		add("attempt %d.%d", v.Generation, v.Number)
	}
	if v.Status > 0 {
		add("%d", v.Status)
	}
	for _, s := range []string{v.Outcome, v.Detail} {
		if s != "" {
			add("%s", s)
		}
	}
	if v.Late {
		add("late")
	}
	return strings.Join(words, " ")
}

const auditVerifyHelp = `
Takes the records and checkpoints of the account and does all the checking
itself: every record is in its place in a Merkle tree, and its roots are signed.
A record that was altered, removed or moved makes it fail with 6 and is named.

Records come from the running gateway, from --file, an export made before, or
from --store, the data directory of a gateway that is stopped. What retention
took is not there to be checked; it says from where it verified.

Whoever holds the gateway's key can sign another history, and the newest records
can be cut off together with their checkpoint. Neither can be seen unless a
witness kept checkpoints elsewhere: --witness is the file it kept.`

// verifyFlags say what is verified, against what.
type verifyFlags struct{ file, store, witness, key string }

func (f *verifyFlags) registerKey(fs *pflag.FlagSet) {
	fs.StringVar(&f.key, "key", "", "`file` with the public key, as 'audit key' prints it; else that of the configured gateway")
}

func (a *app) auditVerifyCmd() *cobra.Command {
	var f verifyFlags
	c := leaf("verify", "Check that nothing recorded was altered, removed or moved", auditVerifyHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return a.auditVerify(ctx, f) })
	c.Flags().StringVar(&f.file, "file", "", "verify this export, `file` or - for standard input")
	c.Flags().StringVar(&f.store, "store", "", "verify the ledger in this `directory`, which no gateway may have open")
	c.Flags().StringVar(&f.witness, "witness", "", "`file` of checkpoints that a witness kept")
	f.registerKey(c.Flags())
	return c
}

func (a *app) auditVerify(ctx context.Context, f verifyFlags) error {
	if f.file != "" && f.store != "" {
		return usage("audit verify: choose one of --file and --store")
	}
	if f.store != "" {
		if _, err := os.Stat(f.store); err != nil && a.sharedLedger() {
			return fail(exitFailed, "%w (the ledger of the config is in PostgreSQL: without --store its running gateway is asked)", err)
		}
	}
	keys, from, err := a.auditKeys(ctx, f)
	if err != nil {
		return err
	}
	cfg := audit.VerifyConfig{Keys: keys, OpenEnd: f.store != ""}
	if f.witness != "" {
		text, err := os.ReadFile(f.witness)
		if err != nil {
			return usage("read witness: %w", err)
		}
		var rest string
		if cfg.Witnessed, rest = audit.SplitNotes(string(text)); rest != "" {
			fmt.Fprintln(a.Stderr, "the last checkpoint of the witness was not written to its end and is left out")
		}
	}
	report, err := a.verifyFrom(ctx, f, cfg)
	if err != nil {
		return err
	}
	if err := a.show(report, func(w io.Writer) error { return writeVerified(w, report, from, f) }); err != nil {
		return err
	}
	if n := len(report.Faults); n > 0 {
		return fail(exitStore, "the account is not as it was recorded: %s", plural(n, "fault"))
	}
	return nil
}

// verifyFrom verifies what comes from where the flags say.
func (a *app) verifyFrom(ctx context.Context, f verifyFlags, cfg audit.VerifyConfig) (audit.VerifyReport, error) {
	switch {
	case f.file == "-":
		return audit.Verify(a.Stdin, cfg)
	case f.file != "":
		in, err := os.Open(f.file)
		if err != nil {
			return audit.VerifyReport{}, usage("open export: %w", err)
		}
		defer in.Close()
		return audit.Verify(in, cfg)
	case f.store != "":
		account, closing, err := gateway.OpenAccount(f.store, slog.New(slog.DiscardHandler))
		if err != nil {
			return audit.VerifyReport{}, err
		}
		report, err := audit.VerifyPiped(cfg, func(w io.Writer) error { return account.Export(ctx, w) })
		return report, errors.Join(err, closing())
	}
	var report audit.VerifyReport
	err := a.call(ctx, func(c *admin.Client) (err error) {
		report, err = audit.VerifyPiped(cfg, func(w io.Writer) error { return c.ExportAudit(ctx, w) })
		return err
	})
	return report, err
}

// auditKeys are the public keys to trust, and where they came from.
func (a *app) auditKeys(ctx context.Context, f verifyFlags) (audit.Keys, string, error) {
	text, from, err := a.auditKeyText(ctx, f)
	if err != nil {
		return audit.Keys{}, "", err
	}
	keys, err := audit.ParseKeys(text)
	if err != nil {
		return keys, from, usage("public key from %s: %w", from, err)
	}
	return keys, from, nil
}

func (a *app) auditKeyText(ctx context.Context, f verifyFlags) (text, from string, err error) {
	switch {
	case f.key != "":
		b, err := os.ReadFile(f.key)
		if err != nil {
			return "", "", usage("read public key: %w", err)
		}
		return string(b), f.key, nil
	case f.store != "":
		if text, err := gateway.AuditKeyIn(f.store); err == nil {
			return text, "the file beside the ledger", nil
		}
	}
	if cfg, _, _, err := a.load(false); err == nil {
		if text, err := gateway.AuditKey(cfg); err == nil {
			return text, "the configured gateway", nil
		}
	}
	err = a.call(ctx, func(c *admin.Client) error {
		k, err := c.AuditKey(ctx)
		text = strings.Join(append(k.All, ""), "\n")
		if len(k.All) == 0 {
			text = k.Key
		}
		return err
	})
	return text, "the running gateway", err
}

func writeVerified(w io.Writer, r audit.VerifyReport, from string, f verifyFlags) error {
	for _, x := range r.Faults {
		at := ""
		if x.Line > 0 && f.file != "" {
			at = fmt.Sprintf("line %d: ", x.Line)
		}
		fmt.Fprintf(w, "%s%s: %s\n", at, escape(x.Where), escape(x.What))
	}
	t := &table{head: []string{"LOG", "FROM ACT", "TO ACT", "UNSIGNED", "CHECKPOINTS", "SIGNED"}}
	begin := true
	for _, l := range r.Logs {
		t.add(l.Log, fmt.Sprint(l.From), fmt.Sprint(l.To), fmt.Sprint(l.Unsigned), fmt.Sprint(l.Checkpoints), stamp(l.SignedAt))
		begin = begin && l.From == 0
	}
	if err := t.write(w); err != nil {
		return err
	}
	since := "from the very first"
	if !begin {
		since = "from where retention ended, whose root is signed"
	}
	verdict := fmt.Sprintf("%d acts are as they were recorded, %s; key from %s", r.Acts, since, escape(from))
	if len(r.Faults) > 0 {
		verdict = "NOT as it was recorded: " + plural(len(r.Faults), "fault")
	}
	fmt.Fprintln(w, verdict)
	seen := fmt.Sprintf("%d checkpoints of the witness hold", r.Witnessed)
	if f.witness == "" {
		seen = "without --witness a tail that was cut off, or a history signed anew, is not seen"
	}
	_, err := fmt.Fprintln(w, seen)
	return err
}

const auditExportHelp = `
Writes the whole account as lines of JSON: every record with its place, and the
signed checkpoints, up to one made now. 'audit verify --file' checks it anywhere
with the public key.`

func (a *app) auditExportCmd() *cobra.Command {
	var to string
	c := leaf("export", "Write the whole account to a file, or to standard output", auditExportHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error {
			return a.call(ctx, func(c *admin.Client) error {
				return a.writeTo(to, func(w io.Writer) error { return c.ExportAudit(ctx, w) })
			})
		})
	c.Flags().StringVar(&to, "to", "", "`file` to write; it must not be there yet")
	return c
}

// writeTo lets write fill a new file, whole or not at all, or stdout with "".
func (a *app) writeTo(path string, write func(io.Writer) error) error {
	if path == "" {
		return write(a.Stdout)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return usage("make file: %w", err)
	}
	err = write(f)
	if cerr := errors.Join(f.Sync(), f.Close()); err == nil {
		err = cerr
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func (a *app) auditCheckpointCmd() *cobra.Command {
	long := "Makes the gateway sign what is recorded up to now, and prints the signed\ncheckpoint of each log."
	return leaf("checkpoint", "Sign what is recorded up to now", long, cobra.NoArgs, func(ctx context.Context, _ []string) error {
		return a.call(ctx, func(c *admin.Client) error {
			cs, err := c.SignAudit(ctx)
			if err != nil {
				return err
			}
			if a.flags.output != "table" {
				return whole(a, cs, nil, nil)
			}
			for i, s := range cs {
				if i > 0 {
					fmt.Fprintln(a.Stdout)
				}
				if err := writePlain(a.Stdout, escapeLines(s.Note)); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

const auditKeyHelp = `
Prints the public key with which the gateway's checkpoints are verified, and
where several share a ledger the keys of all of them, one a line. Keep a copy
where who administers the gateway can't change it.`

func (a *app) auditKeyCmd() *cobra.Command {
	return leaf("key", "Print the public key", auditKeyHelp, cobra.NoArgs, func(ctx context.Context, _ []string) error {
		text, _, err := a.auditKeyText(ctx, verifyFlags{})
		if err != nil {
			return err
		}
		all := strings.Fields(text)
		if len(all) == 0 {
			return fail(exitNotFound, "the gateway has no audit key")
		}
		k := admin.AuditKey{Key: all[0]}
		if len(all) > 1 {
			k.All = all
		}
		return a.show(k, func(w io.Writer) error { return writePlain(w, escapeLines(strings.Join(all, "\n"))+"\n") })
	})
}

const verifyReceiptHelp = `
Checks a receipt made by 'events prove' with nothing but the public key: that
its records are in a log whose root the gateway signed, and that all it says
follows from them. It needs no gateway, and holds also when retention has taken
the records from it. A receipt proves what it shows; that no attempt is missing
from it shows 'audit verify'. FILE - is standard input.`

func (a *app) auditVerifyReceiptCmd() *cobra.Command {
	var f verifyFlags
	c := leaf("verify-receipt FILE", "Check a receipt of one event", verifyReceiptHelp, cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return a.verifyReceipt(ctx, args[0], f) })
	f.registerKey(c.Flags())
	return c
}

func (a *app) verifyReceipt(ctx context.Context, path string, f verifyFlags) error {
	keys, from, err := a.auditKeys(ctx, f)
	if err != nil {
		return err
	}
	in := a.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return usage("open receipt: %w", err)
		}
		defer file.Close()
		in = file
	}
	r, err := audit.VerifyReceipt(in, keys)
	if err != nil {
		return fail(exitFailed, "the receipt does not hold: %w", err)
	}
	return a.show(r.Event, func(w io.Writer) error { return writeReceipt(w, r, from) })
}

func writeReceipt(w io.Writer, r audit.Receipt, from string) error {
	e := r.Event
	t := &table{}
	t.add("event", e.Ref.String())
	t.add("provider's ID", dash(e.EventID))
	t.add("source", e.Source+" ("+e.Provider+")")
	t.add("received", stamp(e.ReceivedAt))
	t.add("body", fmt.Sprintf("%d bytes, SHA-256 %s", e.BodyBytes, e.BodySHA256))
	check := e.Verification
	if e.Secret != "" {
		check += ", secret " + e.Secret
	}
	t.add("verification", check)
	for _, p := range r.Records[1:] {
		v := p.Act
		status := "no answer"
		if v.Status > 0 {
			status = fmt.Sprint(v.Status)
		}
		if v.Response != (event.Hash{}) {
			status += ", answer SHA-256 " + v.Response.String()
		}
		t.add(fmt.Sprintf("attempt %d.%d", v.Generation, v.Number), fmt.Sprintf("%s  %s  %s  %s", stamp(v.Started), v.Target, v.Kind, status))
	}
	if err := t.write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "the receipt holds: signed %s, key from %s\n", stamp(e.ProvenAt), escape(from))
	return err
}

const proveHelp = `
Writes a receipt of one event as JSON: the provider's ID, the SHA-256 of the
exact body, when it was received, how it was verified, and every attempt, each
with its path to a checkpoint signed now. 'audit verify-receipt' checks it
anywhere, with the public key alone.` + "\n" + idHelp

func (a *app) eventsProveCmd() *cobra.Command {
	var source, to string
	c := leaf("prove ID", "Write a receipt that proves what became of an event", proveHelp, cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error {
			return a.call(ctx, func(c *admin.Client) error {
				r, err := c.Proof(ctx, args[0], source)
				if err != nil {
					return err
				}
				out, err := encode(r, "", "  ")
				if err != nil {
					return err
				}
				return a.writeTo(to, func(w io.Writer) error { return writePlain(w, string(out)+"\n") })
			})
		})
	c.Flags().StringVar(&source, "source", "", "source in which to look up a provider's ID")
	c.Flags().StringVar(&to, "to", "", "`file` to write; it must not be there yet")
	return c
}
