package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
)

// decode reads a JSON request. An empty body leaves v as it is; unknown
// fields and anything after the document are refused.
func decode(c echo.Context, v any) error {
	dec := json.NewDecoder(c.Request().Body)
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		if _, err = dec.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		err = errors.New("more than one document")
	}
	var big *http.MaxBytesError
	if errors.As(err, &big) {
		return err
	}
	return apiError(http.StatusBadRequest, CodeInvalid, "request body: %v", err)
}

// unhurried lifts the time limit of the answer for work that takes as long
// as it takes.
func unhurried(c echo.Context) {
	// Not every writer has deadlines; those that have none need no lifting.
	_ = http.NewResponseController(c.Response().Writer).SetWriteDeadline(time.Time{})
}

// cancelOf reads what is to be cancelled, and who has it done.
func cancelOf(c echo.Context) (req CancelRequest, by dedupe.By, err error) {
	if err = decode(c, &req); err == nil {
		by, err = byOf(c, req.Reason)
	}
	return req, by, err
}

func (a *Admin) cancel(c echo.Context) error {
	ref, err := a.eventOf(c)
	if err != nil {
		return err
	}
	req, by, err := cancelOf(c)
	if err != nil {
		return err
	}
	n, err := a.cfg.Account.Cancel(c.Request().Context(), ref, req.Target, by)
	if err != nil {
		return err
	}
	a.cfg.Log.Info("deliveries cancelled", "event", ref, "target", req.Target, "deliveries", n, "remote_ip", peerOf(c.Request()))
	return c.JSON(http.StatusOK, CancelResult{Ref: ref, Cancelled: n})
}

func (a *Admin) replay(c echo.Context) error {
	var req ReplayRequest
	if err := decode(c, &req); err != nil {
		return err
	}
	r, err := a.replayOf(c, &req)
	if err != nil {
		return err
	}
	if req.DryRun {
		unrecorded(c)
	}
	what := req
	what.Reason = "" // stands beside it
	about(c, what)
	if req.Job || req.Rate != "" {
		return a.startJob(c, &req, r)
	}
	unhurried(c)
	n, err := a.cfg.Account.Replay(c.Request().Context(), r)
	if !req.DryRun {
		a.cfg.Log.Info("events replayed", "events", n.Events, "opened", n.Opened, "new_key", req.NewKey,
			"reroute", req.Reroute, "complete", err == nil && n.Next == "", "remote_ip", peerOf(c.Request()))
	}
	if err != nil && n.Opened > 0 && !req.DryRun {
		return fmt.Errorf("%w: %d deliveries were opened before; go on with cursor %q", err, n.Opened, n.Next)
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, ReplayResult{ReplayCount: n, DryRun: req.DryRun})
}

// replayOf checks a replay request.
func (a *Admin) replayOf(c echo.Context, req *ReplayRequest) (audit.Replay, error) {
	r := audit.Replay{Target: req.Target, NewKey: req.NewKey, DryRun: req.DryRun}
	bad := func(problem string) (audit.Replay, error) {
		return r, &audit.InvalidError{Problem: problem}
	}
	switch {
	case req.ID == "" && req.Filter.IsZero():
		return bad("a replay needs an id or a filter with at least one condition")
	case req.ID != "" && !req.Filter.IsZero():
		return bad("a replay takes an id or a filter, not both")
	case req.Source != "" && req.ID == "":
		return bad("source says where to look an id up: in a filter, write it there")
	case req.Reroute && a.cfg.Route == nil:
		return bad("this gateway cannot reroute")
	case req.Reroute:
		r.Reroute = a.cfg.Route
	}
	q, err := req.Filter.Query(audit.KindReplay, a.cfg.Now())
	if err != nil {
		return r, err
	}
	if r.By, err = byOf(c, req.Reason); err != nil {
		return r, err
	}
	r.Query = q
	r.Query.Cursor = req.Cursor
	if req.ID != "" {
		r.Ref, err = a.resolve(c, req.ID, req.Source)
	}
	return r, err
}

// reload answers 200 with the warnings when the new configuration is in
// force, and 400 with every fault when the old one still is.
func (a *Admin) reload(c echo.Context) error {
	if !a.reloading.TryLock() {
		return apiError(http.StatusConflict, CodeBusy, "a reload is under way")
	}
	defer a.reloading.Unlock()
	unhurried(c)
	// Once begun it is brought to its end: who asked may be gone by then.
	a.cfg.Log.Info("reload asked for", "remote_ip", peerOf(c.Request()))
	faults, err := a.cfg.Reload(context.WithoutCancel(c.Request().Context()))
	if err != nil {
		api := apiError(http.StatusBadRequest, CodeConfig, "configuration not reloaded, the old one stays in force: %v", err)
		api.Faults = faults
		return api
	}
	if faults == nil {
		faults = []Fault{}
	}
	return c.JSON(http.StatusOK, ReloadResult{Warnings: faults})
}

// check reads the whole ledger. The report's faults are its result, not an
// error of the request.
func (a *Admin) check(c echo.Context) error {
	if !a.checking.TryLock() {
		return apiError(http.StatusConflict, CodeBusy, "a check is under way")
	}
	defer a.checking.Unlock()
	unhurried(c)
	rep, err := a.cfg.Account.Check(c.Request().Context())
	if err != nil {
		return err
	}
	if len(rep.Faults) > 0 {
		a.cfg.Log.Error("ledger check found faults", "faults", len(rep.Faults))
	}
	return c.JSON(http.StatusOK, rep)
}
