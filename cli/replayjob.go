package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/audit"
)

const (
	// jobPoll is how often a job that is followed is asked about.
	jobPoll = 250 * time.Millisecond
	// jobLine is how often a line says where it stands, where nobody sees a bar.
	jobLine = 10 * time.Second
	// jobAway is how long a gateway may be away before a job is followed no
	// further: longer than it takes to start on a large ledger.
	jobAway = 2 * time.Minute
)

const replayStatusHelp = `
Shows replays by conditions: all that are kept, or one by its ID. They run in
the gateway, with this command or without, and go on after a restart.`

func (a *app) replayStatusCmd() *cobra.Command {
	return leaf("status [JOB]", "Show replays that run in the background", replayStatusHelp, cobra.MaximumNArgs(1),
		func(ctx context.Context, args []string) error {
			return a.call(ctx, func(c *admin.Client) error {
				if len(args) == 1 {
					j, err := c.ReplayJob(ctx, args[0])
					if err != nil {
						return err
					}
					return a.show(j, func(w io.Writer) error { return writeJob(w, j) })
				}
				jobs, err := c.ReplayJobs(ctx)
				if err != nil {
					return err
				}
				l := a.newList("JOB", "STATE", "OPENED", "OF", "RATE", "LEFT", "BY", "STARTED")
				if err := page(l, jobs, jobRow); err != nil {
					return err
				}
				a.afterList(l, false, nil, "replay jobs")
				return nil
			})
		})
}

func jobRow(j admin.Job) []string {
	total := ""
	if j.Total != nil {
		total = fmt.Sprint(j.Total.Opened)
	}
	return []string{j.ID, string(j.State), fmt.Sprint(j.Opened), dash(total), dash(j.Rate.String()), dash(jobLeft(j)), dash(j.Actor), stamp(j.CreatedAt)}
}

func jobLeft(j admin.Job) string {
	if j.LeftSeconds == nil {
		return ""
	}
	return short(seconds(*j.LeftSeconds))
}

func (a *app) replayCancelCmd() *cobra.Command {
	return leaf("cancel JOB", "End a replay that runs in the background", "Ends a replay by conditions. What it has opened is still delivered; 'cancel' and\n'deadletter drop' are for that.", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error {
			return a.call(ctx, func(c *admin.Client) error {
				j, err := c.CancelReplay(ctx, args[0])
				if err != nil {
					return err
				}
				return a.show(j, func(w io.Writer) error { return writeJob(w, j) })
			})
		})
}

// writeJob says where a job stands.
func writeJob(w io.Writer, j admin.Job) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s: %s of %s opened", j.ID, j.State, deliveries(j.Opened), plural(j.Events, "event"))
	if j.Total != nil {
		fmt.Fprintf(&b, ", of %d of %d (%s)", j.Total.Opened, j.Total.Events, size(j.Total.Bytes))
	}
	if !j.Rate.IsZero() {
		fmt.Fprintf(&b, ", at most %s", j.Rate)
	}
	if left := jobLeft(j); left != "" {
		fmt.Fprintf(&b, ", about %s left", left)
	}
	if j.Error != "" {
		fmt.Fprintf(&b, "; %s", escape(j.Error))
	}
	_, err := fmt.Fprintln(w, b.String())
	return err
}

// runJob starts a replay by conditions and follows it to its end.
func (a *app) runJob(ctx context.Context, c *admin.Client, req admin.ReplayRequest, detach bool) error {
	j, err := c.StartReplay(ctx, req)
	if err != nil {
		return err
	}
	if detach {
		return a.show(j, func(w io.Writer) error { return writeJob(w, j) })
	}
	p := a.newProgress()
	last, err := followJob(ctx, c, j, p.show, jobAway)
	p.end()
	if ctx.Err() != nil {
		fmt.Fprintf(a.Stderr, "replay %s goes on; see 'onceward replay status %s', end it with 'onceward replay cancel %s'\n", j.ID, j.ID, j.ID)
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("the replay %s goes on in the gateway, as soon as it runs, but can't be followed; see 'onceward replay status %s': %w", j.ID, j.ID, err)
	}
	got := admin.ReplayResult{}
	got.Events, got.Opened, got.Open, got.Pruned, got.Bytes = last.Events, last.Opened, last.Open, last.Pruned, last.Bytes
	if err := a.show(last, func(w io.Writer) error { return writeReplay(w, got) }); err != nil {
		return err
	}
	switch last.State {
	case audit.JobCancelled, audit.JobFailed:
		code := exitFailed
		if last.Opened > 0 {
			code = exitPartly
		}
		return fail(code, "replay %s is %s: %s", last.ID, last.State, escape(last.Error))
	}
	return replayEnd(got)
}

// followJob asks about a job until it has ended, or the gateway has been away for
// so long.
func followJob(ctx context.Context, c *admin.Client, j admin.Job, show func(admin.Job), away time.Duration) (admin.Job, error) {
	heard := time.Now()
	tick := time.NewTicker(jobPoll)
	defer tick.Stop()
	for wait := time.After(jobPoll / 10); ; { // most are done at once
		select {
		case <-wait:
		case <-tick.C:
		case <-ctx.Done():
			return j, ctx.Err()
		}
		next, err := c.ReplayJob(ctx, j.ID)
		if errors.Is(err, admin.ErrUnreachable) && ctx.Err() == nil && time.Since(heard) < away {
			continue // it restarts; the job goes on behind it
		}
		if err != nil {
			return j, err
		}
		heard = time.Now()
		if j = next; !j.State.Open() {
			return j, nil
		}
		show(j)
	}
}

// progress shows a job's: a bar to a person, a line now and then to a log.
type progress struct {
	w     io.Writer
	bar   *progressbar.ProgressBar
	shows bool // a bar
	said  time.Time
}

func (a *app) newProgress() *progress {
	_, file := a.Stderr.(*os.File)
	return &progress{w: a.Stderr, shows: file && isTerminal(a.Stderr), said: time.Now()}
}

func (p *progress) show(j admin.Job) {
	if j.Total == nil {
		return
	}
	if !p.shows {
		if time.Since(p.said) >= jobLine {
			p.said = time.Now()
			_ = writeJob(p.w, j)
		}
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions(j.Total.Opened, progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription("replaying"),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("deliveries"),
			progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())
	}
	_ = p.bar.Set(min(j.Opened, j.Total.Opened))
}

func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
