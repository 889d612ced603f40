package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/verify"
)

const verifyHelp = `
With --vectors, runs a file of test vectors through the verification of the built-in
providers: requests byte for byte, each with the answer it must get. Prints one line
for each vector that is answered otherwise, then how many passed, failed and were
skipped because there is no such provider. Ends with 0 only when none failed.

With --explain, says why one request is refused: what is most likely wrong first, then
what was looked at. FILE holds the request as text of HTTP/1.1, or one vector in JSON.
It never prints a secret or a computed signature. Ends with 0 when the request is
authentic and with 1 when it is not.

  onceward verify --vectors stripe.json
  onceward verify --explain request.txt --source stripe
  onceward verify --explain request.txt --provider github --secret-file secret.txt
  onceward verify --explain --refusal ID      what a running gateway remembers of one`

func (a *app) verifyCmd() *cobra.Command {
	var file string
	var strict bool
	var f explainFlags
	c := leaf("verify [FILE]", "Check requests: test vectors, or why one is refused", verifyHelp, cobra.MaximumNArgs(1),
		func(ctx context.Context, args []string) error {
			switch {
			case f.explain && file != "":
				return usage("--vectors and --explain: choose one")
			case f.explain || f.refusal != "":
				return a.explain(ctx, args, f)
			case len(args) > 0:
				return usage("verify %s: say --explain, or --vectors %s", args[0], args[0])
			}
			return a.verifyVectors(file, strict)
		})
	c.Flags().StringVar(&file, "vectors", "", "`file` of vectors, - for stdin")
	c.Flags().BoolVar(&strict, "strict", false, "count skipped vectors as failed")
	f.register(c)
	return c
}

func (a *app) verifyVectors(file string, strict bool) error {
	if file == "" {
		return usage("verify: say which file with --vectors, or --explain")
	}
	in := a.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("open vectors: %w", err)
		}
		defer f.Close()
		in = f
	}
	report, err := verify.RunVectors(in, verify.VectorOptions{})
	if err != nil {
		return fmt.Errorf("vectors %q: %w", file, err)
	}
	return a.showReport(report, strict)
}

// reportView is a report as it is printed: the field names are a contract.
type reportView struct {
	Passed     int      `json:"passed"`
	Failed     int      `json:"failed"`
	Skipped    int      `json:"skipped"`
	Mismatches []string `json:"mismatches"`
}

func (r reportView) write(w io.Writer) error {
	for _, line := range r.Mismatches {
		fmt.Fprintln(w, escape(line))
	}
	_, err := fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", r.Passed, r.Failed, r.Skipped)
	return err
}

func (a *app) showReport(r verify.Report, strict bool) error {
	v := reportView{r.Passed, r.Failed, r.Skipped, orEmpty(r.Mismatches)}
	if strict {
		v.Failed, v.Skipped = v.Failed+v.Skipped, 0
	}
	if err := a.show(v, v.write); err != nil {
		return err
	}
	switch {
	case v.Failed > 0:
		return quiet(exitFailed)
	case v.Passed == 0:
		return fail(exitNotFound, "no vector was run")
	}
	return nil
}
