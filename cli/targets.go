package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
)

func (a *app) targetsCmd() *cobra.Command {
	c := group("targets", "List the targets, pause and resume them", a.targetsListCmd(), a.targetsShowCmd(),
		a.targetsActCmd("pause", "Stop attempts at a target", pauseHelp, (*admin.Client).Pause),
		a.targetsActCmd("resume", "Let attempts at a target go on", resumeHelp, (*admin.Client).Resume), a.targetsDrainCmd(), a.targetTestCmd())
	list := a.targetsListCmd()
	c.Args, c.RunE = cobra.NoArgs, list.RunE // without a command of its own it lists
	return c
}

func (a *app) targetsListCmd() *cobra.Command {
	return leaf("list", "List the targets", "", cobra.NoArgs, func(ctx context.Context, _ []string) error {
		return a.call(ctx, func(c *admin.Client) error {
			items, err := c.Targets(ctx)
			if err != nil {
				return err
			}
			t := targetTable(a.now(), items)
			i := -1
			return whole(a, items, append(t.head, "URL"), func(tgt admin.Target) []string {
				i++
				return append(t.rows[i], dash(tgt.URL))
			})
		})
	})
}

func (a *app) targetsShowCmd() *cobra.Command {
	return leaf("show NAME", "Show one target, its breaker and the breaker's history", "", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error {
			return a.call(ctx, func(c *admin.Client) error {
				t, err := c.Target(ctx, args[0])
				if err != nil {
					return err
				}
				return a.show(t, func(w io.Writer) error { return writeTarget(w, t, a.now()) })
			})
		})
}

// writeTarget prints a target as a card: what it is, then what became of it.
func writeTarget(w io.Writer, t admin.Target, now time.Time) error {
	card := table{}
	card.add("target", t.Name)
	card.add("url", dash(t.URL))
	card.add("state", targetState(t))
	card.add("open", fmt.Sprintf("%d pending, %d leased, %d in flight", t.Pending, t.Leased, t.InFlight))
	if t.Behind+t.BlockedKeys > 0 {
		card.add("in order", fmt.Sprintf("%d wait for another; %d values of ordered_by held up by a dead delivery", t.Behind, t.BlockedKeys))
	}
	card.add("dead", fmt.Sprint(t.Dead))
	card.add("last success", ago(now, t.LastSuccess))
	card.add("last failure", ago(now, t.LastFailure))
	card.add("failures in a row", fmt.Sprint(t.Failures))
	card.add("breaker", breakerWords(t.Breaker, now))
	for _, o := range slices.Sorted(maps.Keys(t.Attempts)) {
		card.add("attempts", fmt.Sprintf("%d %s", t.Attempts[o], o))
	}
	if err := card.write(w); err != nil || len(t.Breaker.History) == 0 {
		return err
	}
	fmt.Fprintln(w)
	history := table{head: []string{"BREAKER", "STATE", "REASON"}}
	for i := len(t.Breaker.History) - 1; i >= 0; i-- {
		h := t.Breaker.History[i]
		history.add(stamp(h.At), h.State, h.Reason)
	}
	return history.write(w)
}

// targetState says in words whether a target is attempted.
func targetState(t admin.Target) string {
	switch {
	case t.Missing:
		return "missing from the config"
	case t.Paused:
		s := "paused at " + stamp(t.PausedAt) + " by " + dash(t.PausedBy)
		if t.PauseReason != "" {
			s += ": " + t.PauseReason
		}
		return s
	}
	return "running"
}

func breakerWords(b admin.Breaker, now time.Time) string {
	switch b.State {
	case "open":
		s := "open, " + plural(b.Probes, "failed probe")
		if wait := b.ProbeAt.Sub(now); wait > 0 {
			s += "; the next in " + short(wait)
		}
		return s
	case "half_open":
		return "half open: a probe is under way"
	}
	return b.State
}

const (
	pauseHelp = `
Attempts under way end; no other begins until 'targets resume', also after a
restart. Deliveries stay pending and events are taken as before. For at most 14
days the pause doesn't count towards the time after which a delivery is given
up.`
	resumeHelp = `
Ends a pause, whoever began it. What waited is due as it was.`
	drainHelp = `
Pauses a target and waits until the attempts under way have ended, so that what
stands behind it can be stopped. Ends with 1 when that takes longer than --wait;
the target stays paused then.`
)

func (a *app) targetsActCmd(use, short, long string, do func(*admin.Client, context.Context, string, string) (admin.Target, error)) *cobra.Command {
	var reason string
	c := leaf(use+" NAME", short, long, cobra.ExactArgs(1), func(ctx context.Context, args []string) error {
		return a.call(ctx, func(c *admin.Client) error {
			t, err := do(c, ctx, args[0], reason)
			if err != nil {
				return err
			}
			return a.showState(t)
		})
	})
	c.Flags().StringVar(&reason, "reason", "", "why; it is recorded")
	return c
}

func (a *app) showState(t admin.Target) error {
	return a.show(t, func(w io.Writer) error {
		return writePlain(w, fmt.Sprintf("target %s: %s; %d in flight\n", t.Name, escape(targetState(t)), t.InFlight))
	})
}

func (a *app) targetsDrainCmd() *cobra.Command {
	var reason string
	var wait time.Duration
	c := leaf("drain NAME", "Pause a target and wait for the attempts under way", drainHelp, cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error {
			if wait <= 0 || wait > 15*time.Minute {
				return usage("--wait %v: want more than 0 and at most 15m", wait)
			}
			return a.call(ctx, func(c *admin.Client) error {
				t, err := c.Drain(ctx, args[0], reason, wait)
				if err != nil {
					return err
				}
				return a.showState(t)
			})
		})
	c.Flags().StringVar(&reason, "reason", "", "why; it is recorded")
	c.Flags().DurationVar(&wait, "wait", time.Minute, "how long to wait")
	return c
}
