package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"
)

// IO is what the commands touch of the world besides files and the network.
type IO struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Env looks up an environment variable; nil is an empty environment.
	Env func(string) (string, bool)
	// Config is the shipped config.toml, which `serve` starts from when there is
	// no other.
	Config []byte
	// Samples holds testdata/samples, the bodies that `trigger` and `sign` send for
	// well-known providers; nil has none of them.
	Samples fs.FS
}

// app is one run of one command.
type app struct {
	IO
	flags   globalFlags
	now     func() time.Time
	started bool // the arguments were good and a command began
}

// globalFlags are the flags every command has.
type globalFlags struct {
	config    string
	addr      string
	tokenFile string
	reason    string
	output    string
}

// Main runs the command that args name (without the program's own name) and
// returns its exit code. It takes SIGINT and SIGTERM while it runs: the first
// ends ctx for the command, which then finishes in order; the second returns at
// once with 130 or 143, and the caller is expected to exit.
func Main(ctx context.Context, args []string, std IO) int {
	if std.Env == nil {
		std.Env = func(string) (string, bool) { return "", false }
	}
	ctx, sig := watchSignals(ctx)
	defer sig.stop()
	a := &app{IO: std, now: wallClock}
	done := make(chan int, 1)
	go func() { done <- a.run(ctx, args) }()
	select {
	case code := <-done:
		return code
	case code := <-sig.second:
		return code
	}
}

// run executes args and turns the command's error into words and a code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	code := codeOf(err)
	if !a.started && !hasCode(err) {
		code = exitUsage
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	if said := (*quietError)(nil); !errors.As(err, &said) {
		fmt.Fprintf(a.Stderr, "onceward: %s\n", escapeLines(err.Error()))
	}
	if code == exitUsage {
		fmt.Fprintf(a.Stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return code
}

// command is the body of a command: what cobra calls once the arguments are good.
type command func(ctx context.Context, args []string) error

// runE adapts a command to cobra.
func runE(c command) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error { return c(cmd.Context(), args) }
}
