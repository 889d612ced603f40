package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
)

// Jobs are replays that go on in the background; *audit.Jobs is one.
type Jobs interface {
	Start(ctx context.Context, a audit.Args, r audit.Replay, rate audit.JobRate) (audit.Job, error)
	List(ctx context.Context) ([]audit.Job, error)
	Get(ctx context.Context, id string) (audit.Job, error)
	Cancel(ctx context.Context, id string, by dedupe.By) (audit.Job, error)
}

// Job is a replay in the background as the API shows it.
type Job struct {
	audit.Job
	// LeftSeconds is about how long it still takes; absent when nobody knows.
	LeftSeconds *float64 `json:"left_s,omitempty"`
}

func viewJob(j audit.Job) Job {
	v := Job{Job: j}
	if left, ok := j.Left(); ok {
		s := left.Seconds()
		v.LeftSeconds = &s
	}
	return v
}

var errNoJobs = apiError(http.StatusNotFound, CodeNotFound, "this gateway runs no replay jobs")

// startJob begins a job of a replay that was checked.
func (a *Admin) startJob(c echo.Context, req *ReplayRequest, r audit.Replay) error {
	rate, err := audit.ParseRate(req.Rate)
	switch {
	case err != nil:
		return err
	case a.cfg.Jobs == nil:
		return errNoJobs
	case req.ID != "" || req.DryRun || req.Cursor != "":
		return &audit.InvalidError{Problem: "a job takes a filter: leave id, dry_run and cursor out"}
	}
	j, err := a.cfg.Jobs.Start(c.Request().Context(), req.Filter, r, rate)
	if errors.Is(err, audit.ErrJobs) {
		return apiError(http.StatusConflict, CodeBusy, "%v", err)
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusAccepted, viewJob(j))
}

func (a *Admin) listJobs(c echo.Context) error {
	if _, err := only(c.QueryParams()); err != nil {
		return err
	}
	if a.cfg.Jobs == nil {
		return errNoJobs
	}
	jobs, err := a.cfg.Jobs.List(c.Request().Context())
	if err != nil {
		return err
	}
	out := Page[Job]{Items: make([]Job, len(jobs))}
	for i := range jobs {
		out.Items[i] = viewJob(jobs[i])
	}
	return c.JSON(http.StatusOK, out)
}

func (a *Admin) getJob(c echo.Context) error {
	id, err := pathParam(c, "id")
	if err != nil {
		return err
	}
	if a.cfg.Jobs == nil {
		return errNoJobs
	}
	j, err := a.cfg.Jobs.Get(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, viewJob(j))
}

func (a *Admin) cancelJob(c echo.Context) error {
	id, err := pathParam(c, "id")
	if err != nil {
		return err
	}
	_, by, err := cancelOf(c)
	if err != nil {
		return err
	}
	if a.cfg.Jobs == nil {
		return errNoJobs
	}
	j, err := a.cfg.Jobs.Cancel(c.Request().Context(), id, by)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, viewJob(j))
}

// StartReplay begins a replay in the background: r has a filter, and Rate if
// it is to be bounded.
func (c *Client) StartReplay(ctx context.Context, r ReplayRequest) (Job, error) {
	r.Job = true
	return post[Job](ctx, c, "/replays", nil, r)
}

// ReplayJobs lists the replays in the background, newest first; those that
// ended are shown for a while.
func (c *Client) ReplayJobs(ctx context.Context) ([]Job, error) {
	p, err := get[Page[Job]](ctx, c, "/replays", nil)
	return p.Items, err
}

// ReplayJob is one of them.
func (c *Client) ReplayJob(ctx context.Context, id string) (Job, error) {
	return get[Job](ctx, c, "/replays/"+escape(id), nil)
}

// CancelReplay ends one. When it returns, nothing more is opened.
func (c *Client) CancelReplay(ctx context.Context, id string) (Job, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return post[Job](ctx, c, "/replays/"+escape(id)+"/cancel", nil, CancelRequest{})
}
