package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/event"
)

func (a *Admin) listEvents(c echo.Context) error {
	q, err := audit.ParseQuery(audit.KindEvents, c.QueryParams(), a.cfg.Now())
	if err != nil {
		return err
	}
	page, err := a.cfg.Account.Events(c.Request().Context(), q)
	if err != nil {
		return err
	}
	err = c.JSON(http.StatusOK, page)
	if id := c.Request().Header.Get(exportHeader); exportID.MatchString(id) {
		a.exported(c, id, &q, len(page.Items), page.Next == "")
	}
	return err
}

func (a *Admin) listDeliveries(c echo.Context) error {
	q, err := audit.ParseQuery(audit.KindDeliveries, c.QueryParams(), a.cfg.Now())
	if err != nil {
		return err
	}
	page, err := a.cfg.Account.Deliveries(c.Request().Context(), q)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, page)
}

func (a *Admin) getEvent(c echo.Context) error {
	ref, err := a.eventOf(c)
	if err != nil {
		return err
	}
	d, err := a.cfg.Account.Detail(c.Request().Context(), ref)
	if err != nil {
		return err
	}
	d.Attempted = forRole(who(c), d.Attempted)
	return c.JSON(http.StatusOK, d)
}

func (a *Admin) listAttempts(c echo.Context) error {
	ref, err := a.eventOf(c)
	if err != nil {
		return err
	}
	at, err := a.cfg.Account.Attempts(c.Request().Context(), ref)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, Page[Attempt]{Items: forRole(who(c), at)})
}

// forRole leaves out what targets answered unless the role may see bodies.
func forRole(p Principal, at []Attempt) []Attempt {
	if p.may(RoleOperator) {
		return at
	}
	for i := range at {
		at[i].Response = ""
	}
	return at
}

// bodyFor is an event's body as the principal may have it: exact, or below the
// role admin with the fields redacted that its source says.
func (a *Admin) bodyFor(ctx context.Context, p Principal, ref event.Ref) (body []byte, redacted bool, err error) {
	if p.may(RoleAdmin) {
		body, err = a.cfg.Account.Body(ctx, ref)
		return body, false, err
	}
	return a.cfg.Account.Redacted(ctx, ref)
}

// getBody gives out the exact bytes, as something no browser will show. Below
// the role admin, fields are redacted where the event's source says so.
func (a *Admin) getBody(c echo.Context) error {
	ref, err := a.eventOf(c)
	if err != nil {
		return err
	}
	b, redacted, err := a.bodyFor(c.Request().Context(), who(c), ref)
	if errors.Is(err, audit.ErrHidden) {
		return apiError(http.StatusForbidden, CodeForbidden, "the body is not JSON and its source redacts fields: it needs the role admin")
	}
	if err != nil {
		return err
	}
	h := c.Response().Header()
	if redacted {
		h.Set("Onceward-Redacted", "true")
	}
	h.Set("Content-Disposition", `attachment; filename="`+ref.String()+`.bin"`)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	h.Set("Onceward-Event", ref.String())
	return c.Blob(http.StatusOK, "application/octet-stream", b)
}

// eventOf resolves the route's event, looked up in one source when the
// query names it. The query may hold nothing else.
func (a *Admin) eventOf(c echo.Context) (event.Ref, error) {
	id, err := pathParam(c, "id")
	if err != nil {
		return event.Ref{}, err
	}
	params, err := only(c.QueryParams(), "source")
	if err != nil {
		return event.Ref{}, err
	}
	return a.resolve(c, id, params.Get("source"))
}

func (a *Admin) resolve(c echo.Context, id, source string) (event.Ref, error) {
	return a.cfg.Account.Resolve(c.Request().Context(), id, a.sourceNames(source))
}

// sourceNames is the one source asked for, or every configured one and all others
// that the ledger knows.
func (a *Admin) sourceNames(source string) []string {
	if source != "" {
		return []string{source}
	}
	out := []string{""}
	for _, s := range a.cfg.Receiver.SourceStats() {
		out = append(out, s.Name)
	}
	return out
}

// pathParam decodes a path parameter: the router leaves it encoded exactly
// when the request's path needed more than the standard encoding.
func pathParam(c echo.Context, name string) (string, error) {
	v := c.Param(name)
	if c.Request().URL.RawPath == "" {
		return v, nil
	}
	out, err := url.PathUnescape(v)
	if err != nil {
		return "", &audit.InvalidError{Problem: "the path is not well encoded"}
	}
	return out, nil
}

// only refuses parameters beyond those named, and repeated ones.
func only(v url.Values, allowed ...string) (url.Values, error) {
	for name, vals := range v {
		known := false
		for _, n := range allowed {
			known = known || n == name
		}
		if !known || len(vals) > 1 {
			return nil, apiError(http.StatusBadRequest, CodeInvalid, "parameter %q is not known here, or given more than once", name)
		}
	}
	return v, nil
}
