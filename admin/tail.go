package admin

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
)

// Live is an event for those who follow the ledger.
type Live = audit.Live

// TailQuery says what to follow.
type TailQuery = audit.TailQuery

// TailEnd is the cursor after the newest event.
const TailEnd = dedupe.TailEnd

// maxTailWait bounds how long a request for a tail may wait.
const maxTailWait = time.Minute

// tail answers what follows a cursor, waiting for it if asked to.
func (a *Admin) tail(c echo.Context) error {
	v, err := only(c.QueryParams(), "cursor", "source", "type", "limit", "wait", "exact")
	if err != nil {
		return err
	}
	q := TailQuery{Cursor: v.Get("cursor"), Source: v.Get("source"), Type: v.Get("type"), Exact: v.Get("exact") == "true"}
	if s := v.Get("limit"); s != "" {
		if q.Limit, err = strconv.Atoi(s); err != nil || q.Limit < 1 {
			return apiError(http.StatusBadRequest, CodeInvalid, "limit %q: want a number from 1 to %d", s, audit.MaxLimit)
		}
	}
	if s := v.Get("wait"); s != "" {
		if q.Wait, err = time.ParseDuration(s); err != nil || q.Wait < 0 || q.Wait > maxTailWait {
			return apiError(http.StatusBadRequest, CodeInvalid, "wait %q: want a duration up to %v", s, maxTailWait)
		}
	}
	if q.Exact && !who(c).may(RoleOperator) {
		return apiError(http.StatusForbidden, CodeForbidden, "bodies need the role operator")
	}
	q.Raw = who(c).may(RoleAdmin)
	unhurried(c)
	page, err := a.cfg.Account.Tail(c.Request().Context(), q)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, page)
}

// Tail is the page of events that follows a cursor, in the order in which they
// were accepted; Next is always set. It waits up to q.Wait for the first.
func (c *Client) Tail(ctx context.Context, q TailQuery) (Page[Live], error) {
	v := sourced(q.Source)
	set(v, "cursor", q.Cursor)
	set(v, "type", q.Type)
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Wait > 0 {
		v.Set("wait", q.Wait.String())
	}
	if q.Exact {
		v.Set("exact", "true")
	}
	ctx, cancel := context.WithTimeout(ctx, q.Wait+c.timeout)
	defer cancel()
	return call[Page[Live]](ctx, c, http.MethodGet, "/tail", v, nil)
}
