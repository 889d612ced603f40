package cli

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/gateway"
)

const demoHelp = `
Runs the whole product in one process, on loopback, in a temporary directory and
with fresh secrets: four senders that sign as Stripe, GitHub, Slack and Standard
Webhooks do, the real gateway, and a service behind it that fails now and then.
A fifth of the requests are repeats, two are forged, and one has a known ID and
another body.

It tells what happens as it happens and ends with a table whose numbers come
from three sides that count for themselves: the senders, the gateway's ledger
and the service. If they disagree, it says so and ends with 1. Then it stays up,
so that you can look around, until Ctrl-C; --once ends at once. Either way it
leaves nothing behind.`

// The demo's pace: slow enough to read, short enough to watch to the end.
const (
	demoPause    = 105 * time.Millisecond
	demoPoll     = 60 * time.Millisecond
	demoPatience = 60 * time.Second // for all to be delivered
	demoSettle   = 5 * time.Second  // for the three counts to agree
)

// demoFlags are the flags of demo.
type demoFlags struct {
	once, fast bool
	events     int
}

func (a *app) demoCmd() *cobra.Command {
	var f demoFlags
	c := leaf("demo", "See all of it work, in ten seconds and without set-up", demoHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return a.demo(ctx, f) })
	c.Flags().BoolVar(&f.once, "once", false, "end after the table")
	c.Flags().BoolVar(&f.fast, "fast", false, "send without pauses")
	c.Flags().IntVar(&f.events, "events", 60, "how many requests to send")
	return c
}

// demo is one run of the demo.
type demo struct {
	flags     demoFlags
	dir       string
	view      *demoView
	now       func() time.Time
	providers []*demoProvider
	target    *demoTarget
	gw        *gateway.Gateway
	client    *admin.Client // set once the gateway is up
	ended     chan error    // the gateway's end
}

func (a *app) demo(ctx context.Context, f demoFlags) (err error) {
	if f.events < minDemoEvents || f.events > 10_000 {
		return usage("--events %d: want %d to 10000", f.events, minDemoEvents)
	}
	// A reader that goes away (`| head`) ends the demo in order, too.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGPIPE)
	defer stop()
	dir, err := os.MkdirTemp("", "onceward-demo-")
	if err != nil {
		return fmt.Errorf("make a directory for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	logFile, err := os.OpenFile(filepath.Join(dir, "gateway.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the demo's log: %w", err)
	}
	defer logFile.Close()

	d := &demo{
		flags: f, dir: dir, now: a.now, ended: make(chan error, 1),
		view: &demoView{now: a.now, out: a.Stdout, p: a.paletteFor(a.Stdout)},
	}
	log, err := newLogger(logFile, "info", "json")
	if err != nil {
		return err
	}
	if err := d.build(gateway.Options{Log: log, Version: buildVersion().Version, Now: a.now, Words: pageWords()}); err != nil {
		return err
	}
	return d.run(ctx)
}

// build makes senders, target and gateway; nothing runs yet.
func (d *demo) build(opts gateway.Options) error {
	var err error
	if d.providers, err = demoProviders(); err != nil {
		return err
	}
	if d.target, err = newDemoTarget(); err != nil {
		return err
	}
	path, err := d.writeConfig("gateway.toml", "127.0.0.1:0", "127.0.0.1:0")
	if err != nil {
		return err
	}
	cfg, faults := gateway.Load(path, gateway.Env{Lookup: noEnv})
	if err := faults.Err(); err != nil {
		return fmt.Errorf("the demo's config: %w", err)
	}
	opts.ConfigPath, opts.Env = path, gateway.Env{Lookup: noEnv}
	if d.gw, err = gateway.New(cfg, opts); err != nil {
		return fmt.Errorf("the demo's gateway: %w", err)
	}
	return nil
}

func noEnv(string) (string, bool) { return "", false }

// run starts target and gateway, plays, and stops them in order: the gateway
// first, so that it can finish what it began.
func (d *demo) run(ctx context.Context) error {
	targetCtx, stopTarget := context.WithCancel(context.WithoutCancel(ctx))
	targetEnded := make(chan error, 1)
	go func() { targetEnded <- d.target.Run(targetCtx) }()
	gatewayCtx, stopGateway := context.WithCancel(ctx)
	go func() { d.ended <- d.gw.Run(gatewayCtx) }()

	err := d.play(gatewayCtx)
	stopGateway()
	if !errors.Is(err, errGatewayEnded) {
		err = errors.Join(err, <-d.ended)
	}
	stopTarget()
	err = errors.Join(err, <-targetEnded)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return fail(exitFailed, "ended before everything was delivered and counted")
	}
	return err
}

// errGatewayEnded says that the gateway stopped by itself.
var errGatewayEnded = errors.New("the gateway ended by itself")

// play is the demo's story, from start to table.
func (d *demo) play(ctx context.Context) error {
	select {
	case <-d.gw.Ready():
	case err := <-d.ended:
		return fmt.Errorf("%w: %w", errGatewayEnded, err)
	}
	path, err := d.connect()
	if err != nil {
		return err
	}
	defer d.client.Close()
	d.intro()
	told, err := d.sendAll(ctx)
	if err != nil {
		return err
	}
	if err := d.close(ctx, told); err != nil {
		return err
	}
	if d.flags.once {
		return nil
	}
	d.outro(path)
	select {
	case <-ctx.Done():
		return nil
	case err := <-d.ended:
		return fmt.Errorf("%w: %w", errGatewayEnded, err)
	}
}

// connect reaches the gateway as an operator would, and writes a second config,
// with the addresses that came out, for commands in another terminal.
func (d *demo) connect() (path string, err error) {
	ingest, adminAddr := d.gw.Addr()
	if path, err = d.writeConfig("config.toml", ingest, adminAddr); err != nil {
		return "", err
	}
	token, err := admin.ReadToken(filepath.Join(d.dir, "data", gateway.TokenFileName))
	if err != nil {
		return "", err
	}
	d.client, err = admin.NewClient(admin.ClientConfig{Addr: adminAddr, Token: token})
	return path, err
}

func (d *demo) intro() {
	d.view.say("%s  four providers → gateway → a target that fails now and then\n", d.view.p.bold("onceward demo"))
}

// sendAll sends the planned requests, while a watcher tells what becomes of
// the accepted ones, and returns once everything has been delivered.
func (d *demo) sendAll(ctx context.Context) (senderCount, error) {
	var told senderCount
	seed := uint64(d.now().UnixNano())
	shots, err := planShots(d.providers, d.flags.events, mathrand.New(mathrand.NewPCG(seed, seed)))
	if err != nil {
		return told, err
	}
	watch := newDemoWatch(d.client, d.view, d.now)
	watchCtx, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan error, 1)
	go func() { watched <- watch.Run(watchCtx) }()

	ingest, _ := d.gw.Addr()
	sender := demoSender{base: "http://" + ingest, client: &http.Client{Timeout: 20 * time.Second}, now: d.now}
	defer sender.client.CloseIdleConnections()
	pause := time.NewTicker(d.pause())
	defer pause.Stop()
	for _, sh := range shots {
		select {
		case <-ctx.Done():
			stop()
			return told, errors.Join(ctx.Err(), <-watched)
		case <-pause.C:
		}
		got := sender.send(ctx, sh)
		told.add(got)
		if got.got == fateAccepted {
			watch.accepted(got)
		}
		d.view.answered(got)
	}
	watch.last()
	return told, <-watched
}

func (d *demo) pause() time.Duration {
	if d.flags.fast {
		return time.Millisecond
	}
	return demoPause
}

// outro says how to look around.
func (d *demo) outro(path string) {
	ingest, adminAddr := d.gw.Addr()
	v := d.view
	v.say("\nThe gateway stays up until Ctrl-C.")
	v.say("  admin   http://%s/", adminAddr)
	v.say("  token   %s", filepath.Join(d.dir, "data", gateway.TokenFileName))
	v.say("  ingest  http://%s/in/{stripe,github,slack,standard}", ingest)
	v.say("Try, in another terminal:")
	v.say("  export ONCEWARD_CONFIG=%s", path)
	for _, cmd := range []string{"status", "events list --limit 5", "deliveries list -o jsonl", "trigger stripe invoice.paid --repeat 1", "refusals list"} {
		v.say("  onceward %s", cmd)
	}
}

// pauseFor waits for d, or for the end of ctx.
func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
