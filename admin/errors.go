package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
)

// The codes of errors: a closed set, for programs to branch on.
const (
	CodeInvalid      = "invalid"       // 400: an argument is wrong
	CodeConfig       = "config"        // 400: the configuration is, nothing was changed
	CodeUnauthorized = "unauthorized"  // 401: no token, or not this one
	CodeForbidden    = "forbidden"     // 403: the role is too low, or called from another web site
	CodeNotFound     = "not_found"     // 404
	CodeMethod       = "method"        // 405
	CodeAmbiguous    = "ambiguous"     // 409: the ID means several events
	CodeBusy         = "busy"          // 409: the same work is under way
	CodePruned       = "pruned"        // 410: retention took it
	CodeTooLarge     = "too_large"     // 413
	CodeHost         = "unknown_host"  // 421: not called by a name of ours
	CodeLimited      = "rate_limited"  // 429: too many wrong tokens
	CodeInternal     = "internal"      // 500
	CodeDamaged      = "store_damaged" // 500: what must be there is not
	CodeStore        = "store"         // 503: the ledger cannot do it now
)

// APIError is an error that the gateway answered with.
type APIError struct {
	Status  int     `json:"-"`
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Faults  []Fault `json:"-"` // of a reload, with CodeConfig
}

// Error is the message with its code.
func (e *APIError) Error() string { return fmt.Sprintf("%s (%s)", e.Message, e.Code) }

// errorBody is the one JSON shape of errors.
type errorBody struct {
	Error  *APIError `json:"error"`
	Faults []Fault   `json:"faults,omitempty"`
}

func apiError(status int, code, format string, args ...any) *APIError {
	return &APIError{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// asAPIError gives every error its status and code.
func asAPIError(err error) *APIError {
	var api *APIError
	var inv *audit.InvalidError
	var amb *audit.AmbiguousError
	var he *echo.HTTPError
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &api):
		return api
	case errors.As(err, &inv):
		return apiError(http.StatusBadRequest, CodeInvalid, "%s", inv.Problem)
	case errors.As(err, &amb):
		return apiError(http.StatusConflict, CodeAmbiguous, "%s", amb.Error())
	case errors.As(err, &big):
		return apiError(http.StatusRequestEntityTooLarge, CodeTooLarge, "request body is over %d bytes", big.Limit)
	case errors.As(err, &he):
		return fromEcho(he)
	}
	return fromLedger(err)
}

func fromEcho(he *echo.HTTPError) *APIError {
	switch he.Code {
	case http.StatusNotFound:
		return apiError(he.Code, CodeNotFound, "no such page: the API is under /api/v1/")
	case http.StatusMethodNotAllowed:
		return apiError(he.Code, CodeMethod, "method not allowed here")
	}
	return apiError(http.StatusInternalServerError, CodeInternal, "internal error")
}

func fromLedger(err error) *APIError {
	switch {
	case errors.Is(err, dedupe.ErrNotFound):
		return apiError(http.StatusNotFound, CodeNotFound, "%v", err)
	case errors.Is(err, audit.ErrSettled):
		return apiError(http.StatusConflict, CodeBusy, "%v", err)
	case errors.Is(err, dedupe.ErrPruned):
		return apiError(http.StatusGone, CodePruned, "%v", err)
	case errors.Is(err, dedupe.ErrDamaged):
		return apiError(http.StatusInternalServerError, CodeDamaged, "%v", err)
	case errors.Is(err, dedupe.ErrOverloaded), errors.Is(err, dedupe.ErrDiskLow), errors.Is(err, dedupe.ErrClosed),
		errors.Is(err, dedupe.ErrFatal), errors.Is(err, dedupe.ErrAway), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return apiError(http.StatusServiceUnavailable, CodeStore, "%v", err)
	}
	return apiError(http.StatusInternalServerError, CodeInternal, "internal error: see the log of the gateway")
}

// fail is the one place where errors become answers.
func (a *Admin) fail(err error, c echo.Context) {
	api := asAPIError(err)
	if api.Status >= http.StatusInternalServerError && !errors.Is(err, context.Canceled) {
		a.cfg.Log.Error("admin request failed", "route", c.Path(), "code", api.Code, "error", err)
	}
	if c.Response().Committed {
		return // the answer is under way: all that is left is to end it
	}
	writeError(c.Response(), api)
}
