package cli

import (
	"context"
	"crypto/rand"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
)

const exportHelp = `Writes events with their deliveries, newest first, one JSON object or CSV row
each. Credentials are masked as everywhere; bodies are not part of it ("events body"
gives them out).

With --file the export is resumable: while it runs, FILE.part holds what is written
and FILE.at where it is; the same command goes on there, and FILE appears when it is
whole. In CSV, cells that a spreadsheet would take for a formula begin with an
apostrophe.`

func (a *app) exportCmd() *cobra.Command {
	var f filterFlags
	var to string
	c := leaf("export", "Write events to a file, as JSON lines or CSV", exportHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return a.export(ctx, f.Filter, to) })
	f.register(c.Flags())
	f.registerStatus(c.Flags())
	c.Flags().StringVar(&to, "file", "", "write to `file`; without it to stdout")
	return c
}

func (a *app) export(ctx context.Context, f admin.Filter, to string) error {
	switch a.flags.output {
	case "csv", "jsonl":
	case "table":
		a.flags.output = "jsonl"
	default:
		return usage("-o %s: an export is jsonl or csv", a.flags.output)
	}
	return a.call(ctx, func(c *admin.Client) error {
		e := &export{app: a, client: c.Exporting(rand.Text()), filter: f, csv: a.flags.output == "csv", w: a.Stdout}
		if to == "" {
			return e.run(ctx)
		}
		if _, err := os.Stat(to); err == nil {
			return fail(exitFailed, "%s exists; remove it, or choose another name", to)
		}
		return e.toFile(ctx, to)
	})
}

// export copies a listing, page by page.
type export struct {
	app    *app
	client *admin.Client
	filter admin.Filter
	csv    bool
	w      io.Writer

	cursor string
	n      int64
	// kept is called after each page, when what was written is to be kept.
	kept func() error
}

// exportPage is how many events are asked for at once.
const exportPage = 500

func (e *export) run(ctx context.Context) error {
	if e.csv && e.n == 0 {
		if err := e.row(exportHead); err != nil {
			return err
		}
	}
	said := time.Now()
	for {
		began := time.Now()
		page, err := e.client.Events(ctx, e.filter, e.cursor, exportPage)
		if err != nil {
			return err
		}
		for i := range page.Items {
			if err := e.event(&page.Items[i]); err != nil {
				return err
			}
			e.n++
		}
		e.cursor = page.Next
		if e.kept != nil {
			if err := e.kept(); err != nil {
				return err
			}
		}
		if e.cursor == "" {
			fmt.Fprintf(e.app.Stderr, "%s exported\n", plural(int(e.n), "event"))
			return nil
		}
		if time.Since(said) > exportEvery {
			said = time.Now()
			fmt.Fprintf(e.app.Stderr, "%s exported so far\n", plural(int(e.n), "event"))
		}
		// An export has time, and the gateway has senders who wait.
		rest := time.NewTimer(min(exportRest*time.Since(began), time.Second))
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return ctx.Err()
		}
	}
}

const (
	// exportEvery is how often a long export says how far it is.
	exportEvery = 10 * time.Second
	// exportRest is how many times as long as a page took an export rests.
	exportRest = 3
)

func (e *export) event(ev *admin.Event) error {
	if e.csv {
		return e.row(exportRow(ev))
	}
	out, err := encode(ev, "", "")
	if err == nil {
		_, err = fmt.Fprintf(e.w, "%s\n", out)
	}
	return err
}

var exportHead = []string{"ref", "received_at", "source", "event_id", "type", "status", "idempotency_key", "body_sha256", "body_bytes",
	"repeats", "conflicts", "deliveries", "flags"}

// exportRow is an event as cells; its deliveries are target=state pairs.
func exportRow(ev *admin.Event) []string {
	var ds []string
	for _, d := range ev.Deliveries {
		ds = append(ds, d.Target+"="+d.State.String())
	}
	row := []string{ev.Ref.String(), ev.ReceivedAt.UTC().Format(time.RFC3339Nano), ev.Source, ev.ID, ev.Type, string(ev.Status), ev.Key,
		ev.BodySHA256.String(), strconv.FormatInt(ev.BodyBytes, 10), strconv.FormatUint(ev.Repeats, 10), strconv.FormatUint(ev.Conflicts, 10),
		strings.Join(ds, " "), strings.Join(ev.Flags, " ")}
	for i := range row {
		row[i] = plainCell(row[i])
	}
	return row
}

// plainCell keeps a spreadsheet from taking a sender's text for a formula:
// text that begins like one gets an apostrophe before it.
func plainCell(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r\n|", rune(s[0])) {
		return "'" + s
	}
	return s
}

func (e *export) row(cells []string) error {
	w := csv.NewWriter(e.w)
	_ = w.Write(cells) // Error says it
	w.Flush()
	return w.Error()
}

// toFile exports to a file that appears when it is whole. A run that is cut
// leaves what the next one goes on from: the cursor, and how long the file was.
func (e *export) toFile(ctx context.Context, to string) error {
	part, at := to+".part", to+".at"
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := e.resume(at, f)
	if err != nil {
		return err
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	if _, err := f.Seek(size, io.SeekStart); err != nil {
		return err
	}
	e.w = f
	e.kept = func() error {
		end, err := f.Seek(0, io.SeekCurrent)
		if err == nil {
			err = f.Sync()
		}
		if err == nil && e.cursor != "" {
			err = writeWhole(at, fmt.Sprintf("%s\n%d\n%d\n%s\n", e.request(), e.n, end, e.cursor))
		}
		return err
	}
	if err := e.run(ctx); err != nil {
		fmt.Fprintln(e.app.Stderr, "the same command goes on from here")
		return err
	}
	if err := os.Rename(part, to); err != nil {
		return err
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// request names what is exported, so that another export does not go on with
// this one's files.
func (e *export) request() string {
	format := "jsonl"
	if e.csv {
		format = "csv"
	}
	return format + "?" + e.filter.Values().Encode()
}

// resume reads where a run before was cut, and returns the size of the file
// then; 0 when there was none.
func (e *export) resume(at string, f *os.File) (int64, error) {
	b, err := os.ReadFile(at)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	lines := strings.Split(string(b), "\n")
	other := fail(exitFailed, "%s belongs to another export; remove it, or choose another name", at)
	if len(lines) != 5 || lines[0] != e.request() {
		return 0, other
	}
	n, err1 := strconv.ParseInt(lines[1], 10, 64)
	size, err2 := strconv.ParseInt(lines[2], 10, 64)
	st, err3 := f.Stat()
	if errors.Join(err1, err2, err3) != nil || st.Size() < size {
		return 0, other
	}
	e.n, e.cursor = n, lines[3]
	fmt.Fprintf(e.app.Stderr, "going on after %s\n", plural(int(n), "event"))
	return size, nil
}

// writeWhole replaces a file at once.
func writeWhole(path, text string) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
