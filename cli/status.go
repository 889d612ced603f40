package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/dedupe"
)

// A status fits one screen of 80 by 24: that many sources and targets are
// shown, those in trouble first.
const (
	statusRows = 7
	nameWidth  = 17
)

func (a *app) statusCmd() *cobra.Command {
	return leaf("status", "Show on one screen how the gateway is", "", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		return a.call(ctx, func(c *admin.Client) error {
			s, err := c.Status(ctx)
			if err != nil {
				return err
			}
			return a.show(s, func(w io.Writer) error { return writeStatus(w, s, a.paletteFor(w)) })
		})
	})
}

func writeStatus(w io.Writer, s admin.Status, p palette) error {
	state := p.green("ready")
	if !s.Ready {
		state = p.red("NOT READY: " + clip(escape(s.Problem), 30))
	}
	fmt.Fprintf(w, "onceward %s, up %s, %s\n", clip(escape(s.Build.Version), 18), short(s.Now.Sub(s.StartedAt)), state)
	fmt.Fprintf(w, "ledger   %s\n", ledgerLine(s.Ledger))
	if len(s.Gateways) > 0 {
		fmt.Fprintf(w, "fleet    %s\n", fleetLine(s.Gateways))
	}
	look := concernLines(s.Ledger.Concerns)
	for i, l := range look {
		head := ""
		if i == 0 {
			head = "look at"
		}
		fmt.Fprintf(w, "%-8s %s\n", head, l)
	}
	rows := statusRows - (len(look)+1)/2
	fmt.Fprintln(w)
	slices.SortStableFunc(s.Sources, func(x, y admin.Source) int { return order(x.Offline != "", y.Offline != "") })
	if err := more(w, sourceTable(s.Now, s.Sources), rows, "sources"); err != nil {
		return err
	}
	fmt.Fprintln(w)
	slices.SortStableFunc(s.Targets, func(x, y admin.Target) int { return order(ailing(x), ailing(y)) })
	return more(w, targetTable(s.Now, s.Targets), rows, "targets")
}

func ledgerLine(l admin.Ledger) string {
	s := fmt.Sprintf("%s events, %s, %s free", amount(int64(l.Events)), size(l.SizeBytes), size(l.FreeBytes))
	switch {
	case l.ReadOnly:
		s += fmt.Sprintf("; INTAKE REFUSED below %s", size(l.Reserve))
	case l.Rebuilding:
		s += "; reading the schedule back"
	case l.ClockHold:
		s += "; expiry on hold: the clock ran ahead"
	}
	if l.UnknownKeys > 0 {
		s += "; " + plural(int(l.UnknownKeys), "key") + " to settle"
	}
	return s
}

// statusWidth is what is left of a line of 80 behind its label.
const statusWidth = 71

// concernLines are what the ledger says that somebody should see to: the first of
// it whole, as far as three lines go.
func concernLines(cs []dedupe.Concern) []string {
	if len(cs) == 0 {
		return nil
	}
	var out []string
	line := ""
	for word := range strings.FieldsSeq(escape(cs[0].Text + " " + cs[0].Do)) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line+" "+word) > statusWidth:
			out, line = append(out, line), word
		default:
			line += " " + word
		}
	}
	out = append(out, line)
	if keep := 4; len(cs) > 1 {
		out = append(out[:min(len(out), keep-1)], fmt.Sprintf("… and %d more: -o json has them, and the page Overview", len(cs)-1))
	} else {
		out = out[:min(len(out), keep)]
	}
	for i := range out {
		out[i] = clip(out[i], statusWidth)
	}
	return out
}

// fleetLine is the gateways on one line: what is wrong with one comes before
// the names.
func fleetLine(gs []admin.Gateway) string {
	var wrong, names []string
	alive := 0
	for _, g := range gs {
		name := clip(escape(g.Name), nameWidth)
		if !g.Dead {
			alive++
		}
		switch {
		case g.Problem != "":
			wrong = append(wrong, name+" "+escape(g.Problem))
		case g.Own:
			names = append(names, name+" (this one)")
		default:
			names = append(names, name)
		}
	}
	return clip(plural(alive, "gateway")+": "+strings.Join(append(wrong, names...), ", "), statusWidth)
}

// order puts those in trouble first.
func order(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

// ailing reports whether a target needs a look.
func ailing(t admin.Target) bool { return t.Missing || t.Paused || t.Failures > 0 || t.Dead > 0 }

// more prints the first rows of a table and says how many are left.
func more(w io.Writer, t *table, rows int, noun string) error {
	left := len(t.rows) - rows
	if left > 0 {
		t.rows = t.rows[:rows]
	}
	if err := t.write(w); err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintf(w, "… and %d more: onceward %s\n", left, noun)
	}
	return nil
}

func sourceTable(now time.Time, sources []admin.Source) *table {
	t := &table{head: []string{"SOURCE", "PROVIDER", "LAST EVENT", "ACCEPTED", "REPEATS", "REFUSED"}}
	for _, s := range sources {
		last := ago(now, s.LastAccepted)
		if s.Offline != "" {
			last = "OFFLINE"
		}
		t.add(clip(s.Name, nameWidth), clip(s.Provider, nameWidth), last,
			amount(int64(s.Counts["accepted"])), amount(int64(s.Counts["repeat"])), amount(int64(s.Counts["refused"])))
	}
	return t
}

func count(counts map[string]uint64, outcome string) string { return fmt.Sprint(counts[outcome]) }

func targetTable(now time.Time, targets []admin.Target) *table {
	t := &table{head: []string{"TARGET", "OPEN", "OLDEST", "DEAD", "SUCCESS", "FAILURE", "FAILING"}}
	for _, tgt := range targets {
		oldest := "-"
		if tgt.Pending+tgt.Leased > 0 {
			oldest = short(seconds(tgt.OldestAge))
		}
		failing := "-"
		switch {
		case tgt.Missing:
			failing = "MISSING"
		case tgt.Paused:
			failing = "PAUSED"
		case tgt.Breaker.State != "" && tgt.Breaker.State != "closed":
			failing = "BREAKER"
		case tgt.Failures > 0:
			failing = fmt.Sprintf("%d×", tgt.Failures)
		}
		t.add(clip(tgt.Name, nameWidth), amount(tgt.Pending+tgt.Leased), oldest, amount(tgt.Dead),
			ago(now, tgt.LastSuccess), ago(now, tgt.LastFailure), failing)
	}
	return t
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

const healthHelp = `
Asks the gateway whether it takes and forwards events. Ends with 0 when it
does, 1 when it does not and 8 when it cannot be reached: fit for a container's
health check.`

func (a *app) healthCmd() *cobra.Command {
	return leaf("health", "Probe the gateway", healthHelp, cobra.NoArgs, func(ctx context.Context, _ []string) error {
		return a.call(ctx, func(c *admin.Client) error {
			h, err := c.Health(ctx)
			if err != nil {
				return err
			}
			if err := a.show(h, func(w io.Writer) error { return writeHealth(w, h) }); err != nil {
				return err
			}
			if !h.OK {
				return fail(exitFailed, "the gateway is not well")
			}
			return nil
		})
	})
}

func writeHealth(w io.Writer, h admin.Health) error {
	t := table{}
	for _, p := range h.Probes {
		state := "ok"
		if !p.OK {
			state = "FAILED"
		}
		row := []string{p.Name, state, p.Detail}
		if p.Detail == "" {
			row = row[:2]
		}
		t.add(row...)
	}
	return t.write(w)
}

func (a *app) sourcesCmd() *cobra.Command {
	return leaf("sources", "List the sources", "", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		return a.call(ctx, func(c *admin.Client) error {
			items, err := c.Sources(ctx)
			if err != nil {
				return err
			}
			now := a.now()
			return whole(a, items, []string{"SOURCE", "PROVIDER", "PATH", "LAST EVENT", "ACCEPTED", "REPEATS", "CONFLICTS", "REFUSED", "STATE"},
				func(s admin.Source) []string {
					state := "online"
					if s.Offline != "" {
						state = "offline: " + s.Offline
					}
					return []string{s.Name, s.Provider, s.Path, ago(now, s.LastAccepted), count(s.Counts, "accepted"), count(s.Counts, "repeat"),
						count(s.Counts, "conflict"), count(s.Counts, "refused"), state}
				})
		})
	})
}
