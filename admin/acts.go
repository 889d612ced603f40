package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
)

// ReasonHeader holds, percent-encoded, why an operator does what the request
// asks for. A "reason" in a JSON body or a form says it as well.
const ReasonHeader = "Onceward-Reason"

// recordTimeout bounds how long an act waits to be written.
const recordTimeout = 30 * time.Second

// unrecordedKey marks a request that is no act: it changed nothing.
const unrecordedKey = "unrecorded"

// unrecorded keeps a request that changes nothing out of the account.
func unrecorded(c echo.Context) { c.Set(unrecordedKey, true) }

// recorded writes what a request asked for, by whom and why, and what came of
// it, into the account. It stands around every handler of a method that can
// change something and needs a role.
func (a *Admin) recorded(r route, h echo.HandlerFunc) echo.HandlerFunc {
	if r.method == http.MethodGet || r.method == http.MethodHead || r.need == open || a.cfg.Record == nil {
		return h
	}
	name := strings.TrimPrefix(strings.TrimPrefix(r.path, apiPrefix), "/")
	return func(c echo.Context) error {
		req := c.Request()
		seen := &reasonReader{ReadCloser: req.Body}
		req.Body = seen
		err := h(c)
		if c.Get(unrecordedKey) != nil {
			return err
		}
		act := &dedupe.Act{
			Kind: dedupe.ActOperated, Outcome: name, Status: c.Response().Status, Time: a.cfg.Now(),
			Detail: detailOf(c), By: dedupe.By{Actor: who(c).Name, Reason: seen.reason(req)},
		}
		if err != nil {
			act.Status = asAPIError(err).Status
		}
		a.record(req.Context(), act)
		return err
	}
}

// record writes an act to its end, also when who asked for it is gone.
func (a *Admin) record(ctx context.Context, act *dedupe.Act) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := a.cfg.Record(ctx, act); err != nil {
		a.cfg.Log.Error("operator's act was not recorded", "event", "audit.unrecorded", "act", act.Outcome, "actor", act.Actor, "error", err)
	}
}

// about says in the account what a request is about, where its path does not.
func about(c echo.Context, detail any) {
	if b, err := json.Marshal(detail); err == nil {
		c.Set(aboutKey, string(b))
	}
}

const aboutKey = "about"

// detailOf is the path that was asked for, with its query, what its handler
// says it is about, and from where it came.
func detailOf(c echo.Context) string {
	r := c.Request()
	d := r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		d += "?" + r.URL.RawQuery
	}
	if more, ok := c.Get(aboutKey).(string); ok {
		d += " " + more
	}
	if len(d) > maxDetail {
		d = d[:maxDetail]
	}
	return d + " from " + peerOf(r).String()
}

const maxDetail = 512

func headerReason(r *http.Request) string {
	s, err := url.PathUnescape(r.Header.Get(ReasonHeader))
	if err != nil {
		return r.Header.Get(ReasonHeader)
	}
	return s
}

// reasonReader keeps what a handler reads of a body, to find a reason in it.
type reasonReader struct {
	io.ReadCloser
	buf bytes.Buffer
}

// Read passes the body on.
func (r *reasonReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if r.buf.Len() < maxRequestBody { // the body is bounded by the same
		r.buf.Write(p[:n])
	}
	return n, err
}

// reason is what the request says for itself: in the header, the form, or the
// JSON.
func (r *reasonReader) reason(req *http.Request) string {
	if s := headerReason(req); s != "" {
		return s
	}
	if s := req.PostForm.Get("reason"); s != "" {
		return s
	}
	var body struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(r.buf.Bytes(), &body) // what is no JSON has no reason in it
	return body.Reason
}

// What is only counted of failures, so that a stranger can't fill the ledger.
const (
	failedLogin     = "login_failed"
	failedForbidden = "forbidden"
	maxFailureKeys  = 64
	failureOthers   = "others"
)

// failureKey is one kind of failure of one caller.
type failureKey struct{ what, who, detail string }

// failureCounts counts failures until they are recorded.
type failureCounts struct {
	// mu guards n; held only for bookkeeping, never across I/O.
	mu sync.Mutex
	n  map[failureKey]uint64
}

func (f *failureCounts) add(what, who, detail string) {
	k := failureKey{what, who, detail}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == nil {
		f.n = map[failureKey]uint64{}
	}
	if _, ok := f.n[k]; !ok && len(f.n) >= maxFailureKeys {
		k.who = failureOthers
	}
	f.n[k]++
}

// failedFrom counts a failed login.
func (a *Admin) failedFrom(peer netip.Addr, reason string) {
	a.failures.add(failedLogin, network(peer).String(), reason)
}

// forbidden counts a request for which a role was too low.
func (a *Admin) forbidden(p Principal, need Role) {
	a.failures.add(failedForbidden, p.Name, "needs the role "+need.String())
}

// Failures are the acts that stand for failed logins and refused requests since
// the last call: counts by caller, of a bounded number of them.
func (a *Admin) Failures() []*dedupe.Act {
	a.failures.mu.Lock()
	counts := a.failures.n
	a.failures.n = nil
	a.failures.mu.Unlock()
	var out []*dedupe.Act
	for k, n := range counts {
		act := &dedupe.Act{Kind: dedupe.ActOperated, Outcome: k.what, Number: n, Detail: k.detail}
		if k.what == failedForbidden {
			act.Actor, act.Status = k.who, http.StatusForbidden
		} else {
			act.Detail += " from " + k.who
			act.Status = http.StatusUnauthorized
		}
		out = append(out, act)
	}
	slices.SortFunc(out, func(x, y *dedupe.Act) int {
		return strings.Compare(x.Outcome+x.Actor+x.Detail, y.Outcome+y.Actor+y.Detail)
	})
	return out
}

// The account.

// errNoAudit says that this listener was made without a log.
var errNoAudit = apiError(http.StatusNotFound, CodeNotFound, "this gateway keeps no audit log")

func (a *Admin) listActs(c echo.Context) error {
	if a.cfg.Audit == nil {
		return errNoAudit
	}
	q, err := audit.ParseActQuery(c.QueryParams(), a.cfg.Now())
	if err != nil {
		return err
	}
	page, err := a.cfg.Audit.List(c.Request().Context(), q)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, page)
}

func (a *Admin) auditKey(c echo.Context) error {
	if a.cfg.Audit == nil {
		return errNoAudit
	}
	if _, err := only(c.QueryParams()); err != nil {
		return err
	}
	k := AuditKey{Key: a.cfg.Audit.PublicKey()}
	all, err := a.cfg.Audit.PublicKeys(c.Request().Context())
	if err != nil {
		return err
	}
	if len(all) > 1 {
		k.All = all
	}
	return c.JSON(http.StatusOK, k)
}

// signAudit makes a checkpoint. It records nothing: that would be something new
// to sign.
func (a *Admin) signAudit(c echo.Context) error {
	unrecorded(c)
	if a.cfg.Audit == nil {
		return errNoAudit
	}
	cs, err := a.cfg.Audit.CheckpointAll(c.Request().Context())
	if err != nil {
		return err
	}
	out := Page[Checkpoint]{Items: []Checkpoint{}}
	for _, s := range cs {
		out.Items = append(out.Items, Checkpoint{Log: s.Log, Size: s.Size, Root: s.Root.String(), SignedAt: s.At.UTC(), Note: s.Note})
	}
	return c.JSON(http.StatusOK, out)
}

// exportAudit streams the account. An error after the first byte cuts the
// export, and what verifies it says so: an export has an end.
func (a *Admin) exportAudit(c echo.Context) error {
	if a.cfg.Audit == nil {
		return errNoAudit
	}
	if _, err := only(c.QueryParams()); err != nil {
		return err
	}
	unhurried(c)
	c.Response().Header().Set("Content-Type", "application/jsonl")
	ctx := c.Request().Context()
	return a.transfers.follow(TransferAudit, who(c).Name, 0, c.Response(), func(w io.Writer) error { return a.cfg.Audit.Export(ctx, w) })
}

func (a *Admin) proveEvent(c echo.Context) error {
	if a.cfg.Audit == nil {
		return errNoAudit
	}
	ref, err := a.eventOf(c)
	if err != nil {
		return err
	}
	r, err := a.cfg.Audit.Prove(c.Request().Context(), ref)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, r)
}
