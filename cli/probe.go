package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
)

const targetTestHelp = `
Sends one request to a target and shows each step of its way: look-up, connect,
TLS, first byte, answer. It is built, signed and guarded like an attempt and
carries an event of type onceward.test under a key of its own, marked with the
header Onceward-Test: a target must do nothing about it but answer. Nothing of it
is stored, retried or counted, and a paused target gets it too.

It asks first when the target is beyond this machine. It ends with 0 when the
target answered 2xx, else with 1.`

func (a *app) targetTestCmd() *cobra.Command {
	var yes bool
	c := leaf("test NAME", "Send one marked request to a target and show its way", targetTestHelp, cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return a.targetTest(ctx, args[0], yes) })
	c.Flags().BoolVar(&yes, "yes", false, "do not ask when the target is beyond this machine")
	return c
}

func (a *app) targetTest(ctx context.Context, name string, yes bool) error {
	return a.call(ctx, func(c *admin.Client) error {
		targets, err := c.Targets(ctx)
		if err != nil {
			return err
		}
		site, names := "", make([]string, 0, len(targets))
		for _, t := range targets {
			names = append(names, t.Name)
			if t.Name == name && !t.Missing {
				site = t.URL
			}
		}
		if site == "" {
			return fail(exitNotFound, "no target %q; there are %s", name, dash(strings.Join(names, ", ")))
		}
		if !onLoopback(site) {
			if err := a.confirm(ctx, yes, fmt.Sprintf("this sends a test request beyond this machine, to target %s (%s)", name, site)); err != nil {
				return err
			}
		}
		t, err := c.TestTarget(ctx, name)
		if err != nil {
			return err
		}
		if err := a.show(t, func(w io.Writer) error { return writeTargetTest(w, a.now(), t) }); err != nil {
			return err
		}
		if t.Status/100 != 2 {
			return fail(exitFailed, "target %s did not answer 2xx", name)
		}
		return nil
	})
}

// writeTargetTest prints the steps in their order.
func writeTargetTest(w io.Writer, now time.Time, t admin.TargetTest) error {
	tab := table{}
	signed := "not signed"
	if t.Signed {
		signed = "signed"
	}
	tab.add("target", t.Target+" ("+t.URL+")")
	if t.Proxy != "" {
		tab.add("proxy", t.Proxy)
	}
	tab.add("request", t.Method+", "+signed+", Onceward-Test, key "+t.Key)
	if t.Host != "" {
		tab.add("look-up", fmt.Sprintf("%s  %s is %s", millis(t.DNS), t.Host, dash(strings.Join(t.Addresses, ", "))))
	}
	if t.Address != "" {
		tab.add("connect", fmt.Sprintf("%s  %s", millis(t.Connect), t.Address))
	}
	if s := t.TLS; s != nil {
		tab.add("TLS", fmt.Sprintf("%s  %s", millis(s.Handshake), strings.Trim(s.Version+", "+s.Protocol, ", ")))
		tab.add("certificate", fmt.Sprintf("%s, by %s, %s", dash(s.Subject), dash(s.Issuer), ending(now, s.NotAfter)))
	}
	if t.FirstByte > 0 {
		tab.add("first byte", millis(t.FirstByte))
	}
	tab.add("total", millis(t.Total))
	if t.Status == 0 {
		tab.add("failed", fmt.Sprintf("%s: %s", t.Outcome, dash(t.Error)))
		return tab.write(w)
	}
	tab.add("answer", fmt.Sprintf("%d, %s", t.Status, t.Proto))
	if err := tab.write(w); err != nil {
		return err
	}
	for line := range strings.Lines(strings.TrimRight(t.Response, "\r\n")) {
		fmt.Fprintf(w, "  %s\n", escape(strings.TrimRight(line, "\r\n")))
	}
	return nil
}

// ending says when a certificate ends, and loudly when that is soon.
func ending(now, at time.Time) string {
	left := at.Sub(now)
	switch {
	case left < 0:
		return "ENDED " + at.Format(time.DateOnly)
	case left < 14*24*time.Hour:
		return "ENDS " + at.Format(time.DateOnly) + ", in " + short(left)
	}
	return "ends " + at.Format(time.DateOnly) + ", in " + short(left)
}

// millis is a length of time in milliseconds, to the tenth.
func millis(seconds float64) string { return fmt.Sprintf("%.1fms", seconds*1000) }
