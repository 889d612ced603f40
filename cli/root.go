package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootHelp = `Onceward stands between the providers that send you webhooks and the services
that act on them. It verifies each request's signature over its exact bytes,
recognises repeats by the event's ID, answers only once the event is on disk,
and forwards it until it has landed, always with the same Idempotency-Key.

  onceward demo     see all of it work, in ten seconds and without set-up
  onceward serve    run the gateway; without a config file it starts with the
                    shipped one and says so`

// root builds the tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:               "onceward",
		Short:             "Webhooks in, verified and once",
		Long:              rootHelp,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              cobra.NoArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.begin(cmd) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(a.Stderr)
			_ = cmd.Help()
			return usage("choose a command")
		},
	}
	root.Version = buildVersion().line()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	a.globals(root.PersistentFlags())
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run:"},
		&cobra.Group{ID: "look", Title: "Look:"},
		&cobra.Group{ID: "act", Title: "Act:"},
		&cobra.Group{ID: "know", Title: "Know:"},
	)
	addGroup(root, "run", a.serveCmd(), a.demoCmd(), a.checkCmd(), a.triggerCmd(), a.reloadCmd())
	addGroup(root, "look", a.statusCmd(), a.healthCmd(), a.tailCmd(), a.listenCmd(), a.eventsCmd(), a.attemptsCmd(), a.deliveriesCmd(),
		a.sourcesCmd(), a.targetsCmd(), a.keysCmd(), a.refusalsCmd(), a.auditCmd())
	addGroup(root, "act", a.replayCmd(), a.cancelCmd(), a.exportCmd(), a.deadletterCmd(), a.ledgerCmd(), a.backupCmd(), a.restoreCmd(), a.adminCmd())
	addGroup(root, "know", a.providersCmd(), a.verifyCmd(), a.signCmd(), a.versionCmd())
	root.SetHelpCommandGroupID("know")
	root.SetCompletionCommandGroupID("know")
	root.SetHelpCommand(helpCmd(root))
	root.AddCommand(exitCodesTopic())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			asGroup(c)
		}
	}
	showEnv(root)
	return root
}

func addGroup(root *cobra.Command, id string, cmds ...*cobra.Command) {
	for _, c := range cmds {
		c.GroupID = id
		root.AddCommand(c)
	}
}

func (a *app) globals(f *pflag.FlagSet) {
	f.StringVar(&a.flags.config, "config", "", "config `file`; else ./config.toml, /etc/onceward/config.toml, the shipped one")
	f.StringVar(&a.flags.addr, "addr", "", "admin `address` of the gateway, in place of the config's")
	f.StringVar(&a.flags.tokenFile, "token-file", "", "`file` with the admin token, in place of the config's")
	f.StringVar(&a.flags.reason, "reason", "", "why, in a few `words`: the account keeps it with what the command changes")
	f.StringVarP(&a.flags.output, "output", "o", "table", "how to print data: `format` table, json (one document) or jsonl (one object a line)")
}

// group is a command that only holds others.
func group(use, short string, cmds ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short}
	c.AddCommand(cmds...)
	asGroup(c)
	return c
}

// asGroup makes a command without one of its own commands wrong usage; cobra
// would print help and call that a success.
func asGroup(c *cobra.Command) {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, args []string) error {
		var names []string
		for _, sub := range cmd.Commands() {
			names = append(names, sub.Name())
		}
		if len(args) > 0 {
			return usage("%s has no command %q; it has %s", cmd.CommandPath(), args[0], strings.Join(names, ", "))
		}
		return usage("%s: choose one of %s", cmd.CommandPath(), strings.Join(names, ", "))
	}
}

// helpCmd is help that knows when it is asked about nothing.
func helpCmd(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command or topic",
		RunE: func(_ *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usage("no help about %q", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

func exitCodesTopic() *cobra.Command {
	return &cobra.Command{Use: "exit-codes", Short: "What each exit code means", Long: exitCodesHelp}
}

// begin runs before every command, once its arguments are known to be good.
func (a *app) begin(cmd *cobra.Command) error {
	if err := a.flagsFromEnv(cmd); err != nil {
		return err
	}
	switch a.flags.output {
	case "table", "json", "jsonl":
	case takesTOML:
		if cmd.Annotations[takesTOML] == "" {
			return usage("--output toml: %s prints table, json or jsonl", cmd.CommandPath())
		}
	case "csv":
		if cmd.Name() != "export" {
			return usage("--output csv: only export writes it")
		}
	default:
		return usage("--output %q: want table, json or jsonl", a.flags.output)
	}
	a.started = true
	return nil
}

// flagsFromEnv gives each flag that is not on the command line the value of its
// variable.
func (a *app) flagsFromEnv(cmd *cobra.Command) error {
	var bad error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := envName(cmd, f)
		if f.Changed || name == "" || bad != nil {
			return
		}
		v, set := a.Env(name)
		if !set || v == "" {
			return
		}
		if err := cmd.Flags().Set(f.Name, v); err != nil {
			bad = usage("environment variable %s: %w", name, err)
		}
	})
	return bad
}

// envName is a flag's variable: ONCEWARD_ADDR for a global flag, with the
// command's name in it for one of its own, as in ONCEWARD_REPLAY_TARGET.
func envName(cmd *cobra.Command, f *pflag.Flag) string {
	if f.Name == "help" || f.Name == "version" {
		return ""
	}
	name := f.Name
	if cmd.Root().PersistentFlags().Lookup(f.Name) == nil {
		path := strings.Fields(cmd.CommandPath())
		name = strings.Join(append(path[1:], f.Name), "_")
	}
	return "ONCEWARD_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// showEnv names each flag's variable in its help.
func showEnv(cmd *cobra.Command) {
	note := func(f *pflag.Flag) {
		if name := envName(cmd, f); name != "" {
			f.Usage += fmt.Sprintf(" (env %s)", name)
		}
	}
	if cmd.HasParent() {
		cmd.LocalNonPersistentFlags().VisitAll(note)
	} else {
		cmd.PersistentFlags().VisitAll(note)
	}
	for _, sub := range cmd.Commands() {
		showEnv(sub)
	}
}

// leaf makes a command that does something.
func leaf(use, short, long string, args cobra.PositionalArgs, run func(context.Context, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Long: strings.TrimSpace(long), Args: args, RunE: runE(run)}
}
