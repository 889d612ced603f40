package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
)

const attemptsHelp = `
Every request that was made for one event: when, where the time went, what was
answered and what it meant. Of an answer the head is kept, and the beginning of
its body; credentials in it are masked.` + "\n" + idHelp

func (a *app) attemptsCmd() *cobra.Command {
	var source, target string
	c := leaf("attempts ID", "Show every attempt at one event, with its phases and answer", attemptsHelp, cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error {
			return a.call(ctx, func(c *admin.Client) error {
				all, err := c.Attempts(ctx, args[0], source)
				if err != nil {
					return err
				}
				as := []admin.Attempt{}
				for _, at := range all {
					if target == "" || at.Target == target {
						as = append(as, at)
					}
				}
				if err := a.showAttempts(as); err != nil {
					return err
				}
				if len(as) == 0 {
					return fail(exitNotFound, "nothing was attempted")
				}
				return nil
			})
		})
	c.Flags().StringVar(&source, "source", "", "source in which to look up a provider's ID")
	c.Flags().StringVar(&target, "target", "", "only attempts at this `target`")
	return c
}

func (a *app) showAttempts(as []admin.Attempt) error {
	if a.flags.output != "table" {
		return whole(a, as, nil, nil)
	}
	for i, at := range as {
		if i > 0 {
			fmt.Fprintln(a.Stdout)
		}
		if err := writeAttempt(a.Stdout, at); err != nil {
			return err
		}
	}
	return nil
}

// writeAttempt prints an attempt as a card, and its answer below.
func writeAttempt(w io.Writer, at admin.Attempt) error {
	t := table{}
	t.add("attempt", fmt.Sprintf("%d.%d at %s", at.Generation, at.Number, at.Target))
	t.add("started", at.StartedAt.Local().Format("2006-01-02 15:04:05.000"))
	t.add("took", millis(at.Duration)+phaseWords(at.Phases))
	outcome := strings.TrimSpace(string(at.Outcome) + " " + at.Error)
	if at.Status != 0 {
		outcome = fmt.Sprintf("%d (%s)", at.Status, outcome)
	}
	t.add("outcome", outcome)
	t.add("then", thenWords(at))
	if err := t.write(w); err != nil || at.Response == "" {
		return err
	}
	for line := range strings.Lines(strings.TrimRight(at.Response, "\r\n")) {
		fmt.Fprintf(w, "  %s\n", escape(strings.TrimRight(line, "\r\n")))
	}
	return nil
}

// phaseWords says where an attempt's time went, as far as it is known.
func phaseWords(p admin.Phases) string {
	var out []string
	for _, part := range []struct {
		name string
		s    float64
	}{{"look-up", p.DNS}, {"connect", p.Connect}, {"TLS", p.TLS}, {"first byte", p.FirstByte}} {
		if part.s > 0 {
			out = append(out, part.name+" "+millis(part.s))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return ": " + strings.Join(out, ", ")
}

// thenWords says what an attempt meant for its delivery.
func thenWords(at admin.Attempt) string {
	then := at.State.String()
	if at.RetryIn > 0 {
		then = "retry in " + short(seconds(at.RetryIn))
	}
	if at.Late {
		then += " (late)"
	}
	return then
}
