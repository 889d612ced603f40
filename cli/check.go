package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/gateway"
)

const checkHelp = `
Reads the config as 'serve' would and reports everything that is wrong with it
at once: file, line, column, what is wrong and what to do. Serves nothing and
opens no ledger. Ends with 3 when the config would be refused; with --strict
also when there are warnings.`

func (a *app) checkCmd() *cobra.Command {
	var strict, print bool
	c := leaf("check", "Report everything that is wrong with the config", checkHelp, cobra.NoArgs,
		func(context.Context, []string) error { return a.check(strict, print) })
	c.Aliases = []string{"validate"}
	c.Flags().BoolVar(&strict, "strict", false, "treat warnings as errors, such as a secret that is not set")
	c.Flags().BoolVar(&print, "print", false, "print the config in effect, with secrets redacted")
	return c
}

func (a *app) check(strict, print bool) error {
	cfg, faults, path, err := a.load(strict)
	if err != nil {
		return err
	}
	name := path
	if name == "" {
		name = shipped
	}
	refused := faults.Failed() || strict && len(faults) > 0
	if print {
		writeFaults(a.Stderr, faults, a.paletteFor(a.Stderr))
		if !refused {
			return cfg.Print(a.Stdout)
		}
	} else if err := a.showFaults(faults); err != nil {
		return err
	}
	if refused {
		return fail(exitConfig, "%s: %s", name, countFaults(faults))
	}
	fmt.Fprintf(a.Stderr, "%s: good, %s; %s, %s\n", name, plural(len(faults), "warning"),
		plural(len(cfg.Sources), "source"), plural(len(cfg.Targets), "target"))
	return nil
}

// showFaults prints the faults as the command's data.
func (a *app) showFaults(faults gateway.Faults) error {
	if a.flags.output == "table" {
		writeFaults(a.Stdout, faults, a.paletteFor(a.Stdout))
		return nil
	}
	return whole(a, faults, nil, nil)
}

// writePlain writes text as it is.
func writePlain(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}
