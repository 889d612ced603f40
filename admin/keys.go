package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
)

// Key is the view of a key of a synchronous route.
type Key = audit.SyncKey

// KeyQuery selects keys. Without All and State only those without a conclusion
// are listed: in flight or unknown.
type KeyQuery struct {
	Source, Caller, ID string
	State              string // a state's name
	All                bool
}

func (q KeyQuery) values() url.Values {
	v := url.Values{}
	set(v, "source", q.Source)
	set(v, "caller", q.Caller)
	set(v, "id", q.ID)
	set(v, "state", q.State)
	if q.All {
		v.Set("all", "true")
	}
	return v
}

// SettleRequest says what became of a key of unknown outcome.
type SettleRequest struct {
	// As is "done", it was executed, or "retry", it was not: the next request
	// with the key is forwarded again.
	As string `json:"as"`
	// Status, ContentType and Body are what repeats get when it is done; a
	// status of 0 is 200.
	Status      int    `json:"status,omitempty"`
	ContentType string `json:"content_type,omitempty"`
	Body        string `json:"body,omitempty"`
	Token       uint64 `json:"token,omitempty"` // that was seen; 0 is any
	Reason      string `json:"reason"`          // required
}

// The words of SettleRequest.As.
const (
	SettleDone  = "done"
	SettleRetry = "retry"
)

const maxKeyPage = 1000

func (a *Admin) listKeys(c echo.Context) error {
	q := c.QueryParams()
	f := dedupe.KeyFilter{Source: q.Get("source"), Caller: q.Get("caller"), ID: q.Get("id")}
	limit, cursor := maxKeyPage/10, q.Get("cursor")
	for name, values := range q {
		var ok bool
		switch v := values[0]; name {
		case "source", "caller", "id", "cursor":
			ok = true
		case "state":
			f.State, ok = dedupe.ParseKeyState(v)
		case "all":
			_, err := strconv.ParseBool(v)
			ok = err == nil
		case "limit":
			n, err := strconv.Atoi(v)
			limit, ok = n, err == nil && n > 0 && n <= maxKeyPage
		}
		if !ok || len(values) != 1 {
			return apiError(http.StatusBadRequest, CodeInvalid, "parameter %q: unknown, given twice, or not valid", name)
		}
	}
	all, _ := strconv.ParseBool(q.Get("all")) // checked above
	f.Open = !all && (f.State == 0 || f.State.Open())
	page, err := a.cfg.Account.ListSyncKeys(c.Request().Context(), f, cursor, limit)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, page)
}

func keyName(c echo.Context) (audit.KeyName, error) {
	id, err := pathParam(c, "id")
	return audit.KeyName{ID: id, Source: c.QueryParam("source"), Caller: c.QueryParam("caller")}, err
}

func (a *Admin) getKey(c echo.Context) error {
	name, err := keyName(c)
	if err != nil {
		return err
	}
	k, err := a.cfg.Account.SyncKey(c.Request().Context(), name)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, k)
}

func (a *Admin) settleKey(c echo.Context) error {
	var req SettleRequest
	name, err := keyName(c)
	if err == nil {
		err = decode(c, &req)
	}
	if err != nil {
		return err
	}
	by, err := byOf(c, req.Reason)
	switch {
	case err != nil:
		return err
	case req.Reason == "":
		return apiError(http.StatusBadRequest, CodeInvalid, "settling a key needs a reason")
	case req.As != SettleDone && req.As != SettleRetry:
		return apiError(http.StatusBadRequest, CodeInvalid, "as %q: want %s or %s", req.As, SettleDone, SettleRetry)
	case req.As == SettleRetry && (req.Status != 0 || req.Body != "" || req.ContentType != ""):
		return apiError(http.StatusBadRequest, CodeInvalid, "an answer means nothing to %s", SettleRetry)
	case strings.ContainsFunc(req.ContentType, func(r rune) bool { return r < 0x20 || r >= 0x7f }):
		return apiError(http.StatusBadRequest, CodeInvalid, "content_type holds more than visible ASCII")
	}
	s := audit.Settlement{KeyName: name, Done: req.As == SettleDone, Token: req.Token, Status: req.Status, ContentType: req.ContentType, Body: []byte(req.Body), By: by}
	if s.Done && s.Status == 0 {
		s.Status = http.StatusOK
	}
	k, err := a.cfg.Account.Settle(c.Request().Context(), s)
	if err != nil {
		return err
	}
	a.cfg.Log.Info("key settled", "source", k.Source, "caller", k.Caller, "as", req.As, "actor", by.Actor, "reason", req.Reason, "remote_ip", peerOf(c.Request()))
	return c.JSON(http.StatusOK, k)
}

// Keys lists keys of synchronous routes. cursor is the Next of the page
// before.
func (c *Client) Keys(ctx context.Context, q KeyQuery, cursor string, limit int) (Page[Key], error) {
	v := q.values()
	set(v, "cursor", cursor)
	if limit != 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	return get[Page[Key]](ctx, c, "/keys", v)
}

// Key is one key: by its ref, or by the ID its caller sent, with source and
// caller as far as they are needed.
func (c *Client) Key(ctx context.Context, id, source, caller string) (Key, error) {
	return get[Key](ctx, c, "/keys/"+escape(id), KeyQuery{Source: source, Caller: caller}.values())
}

// SettleKey concludes a key of unknown outcome. One that is not is an
// *APIError with CodeBusy.
func (c *Client) SettleKey(ctx context.Context, id, source, caller string, r SettleRequest) (Key, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return post[Key](ctx, c, "/keys/"+escape(id)+"/settle", KeyQuery{Source: source, Caller: caller}.values(), r)
}
