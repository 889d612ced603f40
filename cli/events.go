package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/dedupe"
)

const idHelp = `
ID is our own ref of the event (26 characters) or the provider's event ID. When
several sources have the provider's ID, --source says which is meant.`

func (a *app) eventsCmd() *cobra.Command {
	return group("events", "List and read what was accepted", a.eventsListCmd(), a.eventsGetCmd(), a.eventsBodyCmd(), a.eventsProveCmd())
}

func (a *app) eventsListCmd() *cobra.Command {
	var f filterFlags
	var p pageFlags
	c := leaf("list", "List events, newest first", "", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return a.eventsList(ctx, f.Filter, p) })
	f.register(c.Flags())
	f.registerStatus(c.Flags())
	p.register(c)
	return c
}

func (a *app) eventsList(ctx context.Context, f admin.Filter, p pageFlags) error {
	if err := p.check(); err != nil {
		return err
	}
	return a.call(ctx, func(c *admin.Client) error {
		l := a.newList("RECEIVED", "REF", "SOURCE", "TYPE", "EVENT ID", "STATUS", "REPEATS")
		more, err := pages(l, p.limit, p.all, func(cursor string, limit int) (dedupe.Page[admin.Event], error) {
			return c.Events(ctx, f, cursor, limit)
		}, func(e admin.Event) []string {
			return []string{stamp(e.ReceivedAt), e.Ref.String(), e.Source, dash(clip(e.Type, 32)), dash(clip(e.ID, 40)), statusWord(e), fmt.Sprint(e.Repeats)}
		})
		a.afterList(l, more, err, "events")
		return err
	})
}

// afterList says on stderr what the list itself does not.
func (a *app) afterList(l *listWriter, more bool, err error, noun string) {
	switch {
	case err != nil:
	case more:
		fmt.Fprintf(a.Stderr, "there are more %s; --limit or --all prints them\n", noun)
	case l.n == 0:
		fmt.Fprintf(a.Stderr, "no %s match\n", noun)
	}
}

// statusWord is an event's status, with what was unusual about it.
func statusWord(e admin.Event) string {
	s := string(e.Status)
	if e.Conflicts > 0 {
		s += fmt.Sprintf(" (%s)", plural(int(e.Conflicts), "conflict"))
	}
	if e.Unrouted != "" {
		s += ": " + string(e.Unrouted)
	}
	flags := slices.DeleteFunc(slices.Clone(e.Flags), func(f string) bool { return e.Unrouted != "" && (f == "no_match" || f == "filter_error") })
	if len(flags) > 0 {
		s += " [" + strings.Join(flags, " ") + "]"
	}
	return s
}

func (a *app) eventsGetCmd() *cobra.Command {
	var source string
	c := leaf("get ID", "Show one event, its deliveries and its attempts", idHelp, cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error {
			return a.call(ctx, func(c *admin.Client) error {
				d, err := c.Event(ctx, args[0], source)
				if err != nil {
					return err
				}
				return a.show(d, func(w io.Writer) error { return writeDetail(w, d) })
			})
		})
	c.Flags().StringVar(&source, "source", "", "source in which to look up a provider's ID")
	return c
}

// writeDetail prints an event as a card: what it is, then what became of it.
func writeDetail(w io.Writer, d admin.Detail) error {
	t := table{}
	t.add("ref", d.Ref.String())
	t.add("source", d.Source+" ("+d.Provider+")")
	t.add("event ID", dash(d.Event.ID))
	t.add("type", dash(d.Type))
	t.add("status", statusWord(d.Event))
	t.add("received", stamp(d.ReceivedAt))
	t.add("request", strings.TrimSpace(d.Method+" "+d.Path+query(d.Query)))
	t.add("answered", fmt.Sprint(d.Answered))
	t.add("verified by secret", dash(d.Secret))
	t.add("body", fmt.Sprintf("%s, sha256 %s", bodySize(d.Event), d.BodySHA256))
	t.add("idempotency key", d.Key)
	for _, name := range slices.Sorted(maps.Keys(d.Index)) {
		t.add("field "+name, d.Index[name])
	}
	t.add("repeats, conflicts", fmt.Sprintf("%d, %d; last %s", d.Repeats, d.Conflicts, stamp(d.RepeatedAt)))
	if !d.Related.IsZero() {
		t.add("related event", d.Related.String())
	}
	for _, h := range d.Header {
		t.add("header", h.Name+": "+h.Value)
	}
	if err := t.write(w); err != nil {
		return err
	}
	if len(d.Deliveries) > 0 {
		fmt.Fprintln(w)
		if err := deliveryTable(d.Deliveries).write(w); err != nil {
			return err
		}
	}
	if len(d.Attempted) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return attemptTable(d.Attempted).write(w)
}

func query(raw string) string {
	if raw == "" {
		return ""
	}
	return "?" + raw
}

func bodySize(e admin.Event) string {
	if e.BodyPruned {
		return size(e.BodyBytes) + " (gone by retention)"
	}
	return size(e.BodyBytes)
}

func deliveryTable(ds []admin.Delivery) *table {
	t := &table{head: []string{"TARGET", "GENERATION", "STATE", "ATTEMPTS", "LAST", "DUE"}}
	for _, d := range ds {
		t.add(d.Target, fmt.Sprint(d.Generation), d.State.String(), fmt.Sprint(d.Attempts), lastOf(d), stamp(d.DueAt))
	}
	return t
}

// lastOf is how a delivery's last attempt ended.
func lastOf(d admin.Delivery) string {
	switch {
	case d.LastError != "":
		return d.LastError
	case d.LastStatus != 0:
		return fmt.Sprint(d.LastStatus)
	}
	return "-"
}

func attemptTable(as []admin.Attempt) *table {
	t := &table{head: []string{"STARTED", "TARGET", "ATTEMPT", "STATUS", "OUTCOME", "TOOK", "FIRST BYTE", "THEN"}}
	for _, at := range as {
		status := "-"
		if at.Status != 0 {
			status = fmt.Sprint(at.Status)
		}
		t.add(stamp(at.StartedAt), at.Target, fmt.Sprintf("%d.%d", at.Generation, at.Number), status,
			strings.TrimSpace(string(at.Outcome)+" "+at.Error), millis(at.Duration), firstByte(at), thenWords(at))
	}
	return t
}

// firstByte is how long an answer began to take, if one did.
func firstByte(at admin.Attempt) string {
	if at.Phases.FirstByte == 0 {
		return "-"
	}
	return millis(at.Phases.FirstByte)
}

func (a *app) eventsBodyCmd() *cobra.Command {
	var source string
	long := "Writes the exact bytes that were received to stdout. On a terminal, control\ncharacters are shown and not obeyed.\n" + idHelp
	c := leaf("body ID", "Write an event's exact bytes", long, cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error {
			return a.call(ctx, func(c *admin.Client) error { return a.writeBody(ctx, c, args[0], source) })
		})
	c.Flags().StringVar(&source, "source", "", "source in which to look up a provider's ID")
	return c
}

func (a *app) writeBody(ctx context.Context, c *admin.Client, id, source string) error {
	if !isTerminal(a.Stdout) {
		_, err := c.Body(ctx, id, source, a.Stdout)
		return err
	}
	var all bytes.Buffer
	if _, err := c.Body(ctx, id, source, &all); err != nil {
		return err
	}
	_, err := fmt.Fprintln(a.Stdout, escapeLines(all.String()))
	return err
}

func (a *app) deliveriesCmd() *cobra.Command {
	var f filterFlags
	var p pageFlags
	c := leaf("list", "List deliveries, newest first", "", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return a.deliveriesList(ctx, f.Filter, p) })
	f.register(c.Flags())
	f.registerState(c.Flags())
	p.register(c)
	return group("deliveries", "List what goes to which target", c, a.deliveriesCancelCmd())
}

func (a *app) deliveriesList(ctx context.Context, f admin.Filter, p pageFlags) error {
	if err := p.check(); err != nil {
		return err
	}
	return a.call(ctx, func(c *admin.Client) error {
		l := a.newList("RECEIVED", "REF", "SOURCE", "TYPE", "TARGET", "STATE", "ATTEMPTS", "LAST", "DUE")
		more, err := pages(l, p.limit, p.all, func(cursor string, limit int) (dedupe.Page[admin.Delivery], error) {
			return c.Deliveries(ctx, f, cursor, limit)
		}, func(d admin.Delivery) []string {
			return []string{stamp(d.ReceivedAt), d.Ref.String(), d.Source, dash(clip(d.Type, 32)), d.Target, d.State.String(),
				fmt.Sprint(d.Attempts), lastOf(d), stamp(d.DueAt)}
		})
		a.afterList(l, more, err, "deliveries")
		return err
	})
}
