package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/gateway"
	"github.com/onceward/onceward/verify"
)

const serveHelp = `
Runs the gateway in the foreground until SIGINT or SIGTERM, which let requests
and attempts in flight finish; a second one ends it at once. SIGHUP reads the
config again: a faulty one changes nothing and is reported.

Without --config it looks for ./config.toml, then /etc/onceward/config.toml,
and else starts with the shipped config and says so.`

func (a *app) serveCmd() *cobra.Command {
	var resume, migrate bool
	c := leaf("serve", "Run the gateway", serveHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return a.serve(ctx, resume, migrate) })
	c.Flags().BoolVar(&resume, "resume-deliveries", false, "make the deliveries that a restored ledger holds")
	c.Flags().BoolVar(&migrate, "migrate", false, "bring the schema of a ledger in PostgreSQL up to date first")
	return c
}

func (a *app) serve(ctx context.Context, resume, migrate bool) error {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP) // before anything opens: a reload must never kill the process
	defer signal.Stop(hup)

	cfg, path, err := a.good()
	if err != nil {
		return err
	}
	if path == "" {
		fmt.Fprintf(a.Stderr, "no config file found (looked for %s): starting with the shipped one\n", strings.Join(configPlaces, ", "))
	}
	log, err := newLogger(a.Stderr, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return fail(exitConfig, "log: %w", err)
	}
	build := buildVersion()
	gw, err := gateway.New(cfg, gateway.Options{
		Log: log, Version: build.Version, Revision: build.Revision, Env: gateway.Env{Lookup: a.Env},
		ConfigPath: path, ConfigData: a.Config, Now: a.now, Words: pageWords(), ResumeDeliveries: resume, Migrate: migrate,
		ShowToken: a.showToken,
	})
	if err != nil {
		return startError(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- gw.Run(ctx) }()
	select {
	case err := <-ended:
		return startError(err)
	case <-gw.Ready():
	}
	a.banner(cfg, gw)
	for {
		select {
		case err := <-ended:
			return startError(err)
		case <-hup:
			a.reloadNow(ctx, gw, log)
		}
	}
}

// pageWords are the words of the commands for the operator's pages.
func pageWords() gateway.Words {
	return gateway.Words{Signed: signing, Refusal: func(r admin.Refusal, row verify.Row) admin.Explanation {
		return admin.Explanation{Causes: refusalCauses(r, row)}
	}}
}

// reloadNow reads the config again; the gateway keeps the old one on any fault.
func (a *app) reloadNow(ctx context.Context, gw *gateway.Gateway, log *slog.Logger) {
	faults, err := gw.Reload(ctx)
	for _, f := range faults {
		level := slog.LevelError
		if f.Warning {
			level = slog.LevelWarn
		}
		log.Log(ctx, level, "config fault", "fault", f.String())
	}
	if err != nil && len(faults) == 0 {
		log.Error("config not reloaded", "error", err)
	}
}

// startError gives the end of the gateway its exit code.
func startError(err error) error {
	var faults gateway.Faults
	if errors.As(err, &faults) {
		return &codedError{exitConfig, err}
	}
	return err
}

// banner says what is served where. It names where the token is, never the token.
func (a *app) banner(cfg *gateway.Config, gw *gateway.Gateway) {
	p := a.paletteFor(a.Stderr)
	ingest, admin := gw.Addr()
	w := a.Stderr
	fmt.Fprintf(w, "%s\n", p.bold(buildVersion().line()))
	for _, src := range cfg.Sources {
		note := ""
		if why := src.Offline(); why != "" {
			note = p.yellow("  offline: " + escape(why))
		}
		fmt.Fprintf(w, "  source  %-16s %s%s\n", src.Name, p.cyan(cfg.ReceiverURL(reachable(ingest))+src.ListenPath()), note)
	}
	for _, t := range cfg.Targets {
		fmt.Fprintf(w, "  target  %-16s %s\n", t.Name, escape(hostOnly(t.URL)))
	}
	fmt.Fprintf(w, "  admin   %-16s %s\n", "", p.cyan("http://"+reachable(admin)+"/"))
	token := cfg.TokenFile()
	if token == "" {
		token = "that of the shared ledger, or of the config"
	}
	fmt.Fprintf(w, "  token   %-16s %s\n", "", escape(token))
}

// showToken says the admin token of a shared ledger, which its first gateway
// makes and nothing keeps.
func (a *app) showToken(token string) {
	fmt.Fprintf(a.Stderr, "admin token of all gateways on this ledger, shown this once: %s\n", token)
}

// reachable turns a listen address into one that can be called from here.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// newLogger logs as text for a person at a terminal and as JSON otherwise.
func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var min slog.Level
	if err := min.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("level %q: %w", level, err)
	}
	opts := &slog.HandlerOptions{Level: min}
	if format == "text" || format == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, opts)), nil
	}
	return slog.New(slog.NewJSONHandler(w, opts)), nil
}
