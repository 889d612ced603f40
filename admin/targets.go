package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Controller changes what is done about targets and deliveries.
type Controller interface {
	// Pause stops attempts at a target, Resume lets them go on, and Drain is
	// Pause that waits for those under way until the context ends. A name that
	// is no target is dedupe.ErrNotFound.
	Pause(ctx context.Context, target string, by dedupe.By) error
	Resume(ctx context.Context, target string, by dedupe.By) error
	Drain(ctx context.Context, target string, by dedupe.By) error
}

// Breaker is the state of a target's circuit breaker.
type Breaker struct {
	State   string          `json:"state"`             // closed, open or half_open
	ProbeAt time.Time       `json:"probe_at,omitzero"` // of the next probe
	Probes  int             `json:"failed_probes"`     // since it opened
	History []BreakerChange `json:"history"`           // oldest first
}

// BreakerChange is one turn of a breaker.
type BreakerChange struct {
	At     time.Time `json:"at"`
	State  string    `json:"state"`
	Reason string    `json:"reason"`
}

// ActRequest says why something is done; the reason may be empty where it is
// not asked for.
type ActRequest struct {
	Reason string `json:"reason,omitempty"`
}

// DrainRequest bounds how long a drain may wait.
type DrainRequest struct {
	Reason string  `json:"reason,omitempty"`
	Wait   float64 `json:"wait_s,omitempty"` // 0 = 60, at most 900
}

// DropRequest asks for dead letters to be dropped: those of one event, by its
// ref or the provider's ID, or all that match Filter.
type DropRequest struct {
	ID     string `json:"id,omitempty"`
	Source string `json:"source,omitempty"` // where to look ID up; "" is every source
	Filter Filter `json:"filter,omitzero"`
	Target string `json:"target,omitempty"` // only this one, of an event by ID
	Reason string `json:"reason"`           // required
	DryRun bool   `json:"dry_run,omitempty"`
	Cursor string `json:"cursor,omitempty"` // Next of the call before
}

// DropResult says what a drop did, or would do. With a Next the selection goes
// on: call again with it.
type DropResult struct {
	audit.DropCount
	DryRun bool `json:"dry_run"`
}

const (
	maxReason    = 500 // characters
	defaultDrain = time.Minute
	maxDrain     = 15 * time.Minute
)

// byOf says who asks, and checks why: reason is that of the request's body, the
// header's comes before it.
func byOf(c echo.Context, reason string) (dedupe.By, error) {
	if r := headerReason(c.Request()); r != "" {
		reason = r
	}
	if n := utf8.RuneCountInString(reason); n > maxReason || !utf8.ValidString(reason) {
		return dedupe.By{}, apiError(http.StatusBadRequest, CodeInvalid, "the reason has %d characters: want at most %d", n, maxReason)
	}
	return dedupe.By{Actor: who(c).Name, Reason: reason}, nil
}

// target is the state of one target.
func (a *Admin) target(ctx context.Context, name string) (Target, error) {
	st, err := a.cfg.Account.Stats(ctx)
	if err != nil {
		return Target{}, err
	}
	for _, t := range a.targets(st) {
		if t.Name == name {
			return t, nil
		}
	}
	return Target{}, fmt.Errorf("target %q: %w", name, dedupe.ErrNotFound)
}

func (a *Admin) getTarget(c echo.Context) error {
	name, err := pathParam(c, "name")
	if err != nil {
		return err
	}
	t, err := a.target(c.Request().Context(), name)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, t)
}

func (a *Admin) pauseTarget(c echo.Context) error {
	return a.control(c, "paused", Controller.Pause)
}

func (a *Admin) resumeTarget(c echo.Context) error {
	return a.control(c, "resumed", Controller.Resume)
}

// control does one act on a target and answers with its state after it.
func (a *Admin) control(c echo.Context, what string, do func(Controller, context.Context, string, dedupe.By) error) error {
	var req ActRequest
	name, err := pathParam(c, "name")
	if err == nil {
		err = decode(c, &req)
	}
	if err != nil {
		return err
	}
	return a.act(c, name, what, req.Reason, func(by dedupe.By) error {
		return do(a.cfg.Control, c.Request().Context(), name, by)
	})
}

func (a *Admin) act(c echo.Context, name, what, reason string, do func(dedupe.By) error) error {
	by, err := byOf(c, reason)
	if err != nil {
		return err
	}
	if a.cfg.Control == nil {
		return apiError(http.StatusNotFound, CodeNotFound, "this gateway has no targets to control")
	}
	if err := do(by); err != nil {
		return err
	}
	a.cfg.Log.Info("target "+what, "target", name, "reason", reason, "remote_ip", peerOf(c.Request()))
	t, err := a.target(c.Request().Context(), name)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, t)
}

// drainTarget answers when nothing is under way any more, or 409 when that
// takes too long: the target stays paused.
func (a *Admin) drainTarget(c echo.Context) error {
	var req DrainRequest
	name, err := pathParam(c, "name")
	if err == nil {
		err = decode(c, &req)
	}
	if err != nil {
		return err
	}
	wait := time.Duration(req.Wait * float64(time.Second))
	if req.Wait == 0 {
		wait = defaultDrain
	}
	if wait <= 0 || wait > maxDrain {
		return apiError(http.StatusBadRequest, CodeInvalid, "wait_s %v: want more than 0 and at most %v", req.Wait, maxDrain.Seconds())
	}
	unhurried(c)
	ctx, cancel := context.WithTimeout(c.Request().Context(), wait)
	defer cancel()
	return a.act(c, name, "drained", req.Reason, func(by dedupe.By) error {
		err := a.cfg.Control.Drain(ctx, name, by)
		if errors.Is(err, context.DeadlineExceeded) {
			return apiError(http.StatusConflict, CodeBusy, "target %q is paused, but attempts are still under way after %v", name, wait)
		}
		return err
	})
}

// cancelDelivery closes one delivery by its own ID.
func (a *Admin) cancelDelivery(c echo.Context) error {
	var req ActRequest
	id, err := pathParam(c, "id")
	if err == nil {
		err = decode(c, &req)
	}
	if err != nil {
		return err
	}
	by, err := byOf(c, req.Reason)
	if err != nil {
		return err
	}
	ref, n, err := a.cfg.Account.CancelDelivery(c.Request().Context(), id, by)
	if err != nil {
		return err
	}
	a.cfg.Log.Info("deliveries cancelled", "delivery", id, "deliveries", n, "reason", req.Reason, "remote_ip", peerOf(c.Request()))
	return c.JSON(http.StatusOK, CancelResult{Ref: ref, Cancelled: n})
}

// dropDead takes dead letters off the list.
func (a *Admin) dropDead(c echo.Context) error {
	var req DropRequest
	if err := decode(c, &req); err != nil {
		return err
	}
	d, err := a.dropOf(c, &req)
	if err != nil {
		return err
	}
	what := req
	what.Reason = "" // stands beside it
	if about(c, what); req.DryRun {
		unrecorded(c)
	}
	unhurried(c)
	n, err := a.cfg.Account.Drop(c.Request().Context(), d)
	if !req.DryRun {
		a.cfg.Log.Info("dead letters dropped", "deliveries", n.Dropped, "reason", req.Reason, "complete", err == nil && n.Next == "",
			"remote_ip", peerOf(c.Request()))
	}
	if err != nil && n.Dropped > 0 && !req.DryRun {
		return fmt.Errorf("%w: %d deliveries were dropped before", err, n.Dropped)
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, DropResult{DropCount: n, DryRun: req.DryRun})
}

// dropOf checks a request to drop dead letters.
func (a *Admin) dropOf(c echo.Context, req *DropRequest) (d audit.Drop, err error) {
	bad := func(problem string) (audit.Drop, error) { return d, &audit.InvalidError{Problem: problem} }
	switch {
	case req.Reason == "":
		return bad("dropping dead letters needs a reason")
	case req.ID == "" && req.Filter.IsZero():
		return bad("dropping dead letters needs an id or a filter with at least one condition")
	case req.ID != "" && !req.Filter.IsZero():
		return bad("dropping dead letters takes an id or a filter, not both")
	case req.ID == "" && (req.Source != "" || req.Target != ""):
		return bad("source and target beside a filter: write them in it")
	case req.Filter.State != "" && req.Filter.State != event.Dead.String():
		return bad("only dead deliveries can be dropped")
	}
	if d.By, err = byOf(c, req.Reason); err != nil {
		return d, err
	}
	d.Target, d.DryRun = req.Target, req.DryRun
	if d.Query, err = req.Filter.Query(audit.KindDeliveries, a.cfg.Now()); err != nil {
		return d, err
	}
	d.Query.Filter.State, d.Query.Cursor = event.Dead.String(), req.Cursor
	if req.ID != "" {
		d.Ref, err = a.resolve(c, req.ID, req.Source)
	}
	return d, err
}

// Target is the state of one target.
func (c *Client) Target(ctx context.Context, name string) (Target, error) {
	return get[Target](ctx, c, "/targets/"+escape(name), nil)
}

// Pause stops attempts at a target and returns its state after it.
func (c *Client) Pause(ctx context.Context, target, reason string) (Target, error) {
	return control(ctx, c, target, "pause", ActRequest{Reason: reason})
}

// Resume ends a pause and returns the target's state after it.
func (c *Client) Resume(ctx context.Context, target, reason string) (Target, error) {
	return control(ctx, c, target, "resume", ActRequest{Reason: reason})
}

func control(ctx context.Context, c *Client, target, verb string, req ActRequest) (Target, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return post[Target](ctx, c, "/targets/"+escape(target)+"/"+verb, nil, req)
}

// Drain pauses a target and waits until no attempt is under way; after wait,
// 0 for a minute, it is an *APIError with CodeBusy and the target is paused.
func (c *Client) Drain(ctx context.Context, target, reason string, wait time.Duration) (Target, error) {
	return post[Target](ctx, c, "/targets/"+escape(target)+"/drain", nil, DrainRequest{Reason: reason, Wait: wait.Seconds()})
}

// CancelDelivery closes one open delivery by its ID.
func (c *Client) CancelDelivery(ctx context.Context, id, reason string) (CancelResult, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return post[CancelResult](ctx, c, "/deliveries/"+escape(id)+"/cancel", nil, ActRequest{Reason: reason})
}

// Drop takes dead letters off the list. While the result has a Next, call
// again with it as the request's Cursor.
func (c *Client) Drop(ctx context.Context, r DropRequest) (DropResult, error) {
	return post[DropResult](ctx, c, "/deadletters/drop", nil, r)
}
