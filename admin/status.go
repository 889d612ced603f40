package admin

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
)

func (a *Admin) livez(c echo.Context) error { return plain(c, http.StatusOK, "ok\n") }

func (a *Admin) readyz(c echo.Context) error {
	if a.cfg.Ready() != nil {
		return plain(c, http.StatusServiceUnavailable, "not ready\n")
	}
	return plain(c, http.StatusOK, "ok\n")
}

// plain answers text. It is written here and not by the router's helper,
// which would allow a charset to differ between answers.
func plain(c echo.Context, status int, text string) error {
	return c.Blob(status, "text/plain; charset=utf-8", []byte(text))
}

func (a *Admin) metricsPage(c echo.Context) error {
	promhttp.HandlerFor(a.cfg.Gatherer, promhttp.HandlerOpts{}).ServeHTTP(c.Response(), c.Request())
	return nil
}

func (a *Admin) version(c echo.Context) error { return c.JSON(http.StatusOK, a.cfg.Build) }

func (a *Admin) listSources(c echo.Context) error {
	return c.JSON(http.StatusOK, Page[Source]{Items: a.sources()})
}

// sources keeps lists lists and maps maps in JSON.
func (a *Admin) sources() []Source {
	out := append([]Source{}, a.cfg.Receiver.SourceStats()...)
	for i := range out {
		out[i].Counts, out[i].Refused = orEmpty(out[i].Counts), orEmpty(out[i].Refused)
	}
	return out
}

func orEmpty(m map[string]uint64) map[string]uint64 {
	if m == nil {
		return map[string]uint64{}
	}
	return m
}

func (a *Admin) listTargets(c echo.Context) error {
	st, err := a.cfg.Account.Stats(c.Request().Context())
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, Page[Target]{Items: a.targets(st)})
}

// targets joins what the forwarder and the ledger know. A target that only
// the ledger knows is missing from the configuration.
func (a *Admin) targets(st dedupe.Stats) []Target {
	out := append([]Target{}, a.cfg.Forward.Status()...)
	for name := range st.Targets {
		if !slices.ContainsFunc(out, func(t Target) bool { return t.Name == name }) {
			out = append(out, Target{Name: name, Missing: true, Breaker: Breaker{State: "closed"}})
		}
	}
	for i := range out {
		s := st.Targets[out[i].Name]
		out[i].Pending, out[i].Leased, out[i].Dead = s.Pending, s.Leased, s.Dead
		out[i].Behind, out[i].BlockedKeys = s.Behind, s.BlockedKeys
		if !s.Oldest.IsZero() {
			out[i].OldestAge = max(0, a.cfg.Now().Sub(s.Oldest).Seconds())
		}
		out[i].Attempts = orEmpty(out[i].Attempts)
		if out[i].Breaker.History == nil {
			out[i].Breaker.History = []BreakerChange{}
		}
	}
	slices.SortFunc(out, func(x, y Target) int { return strings.Compare(x.Name, y.Name) })
	return out
}

func (a *Admin) listRefusals(c echo.Context) error {
	v, err := only(c.QueryParams(), "source", "reason", "since", "limit")
	if err != nil {
		return err
	}
	q := RefusalQuery{Source: v.Get("source"), Reason: v.Get("reason")}
	if q.Limit, err = audit.ParseLimit(v.Get("limit")); err != nil {
		return err
	}
	if q.Since, err = audit.ParseTime("since", v.Get("since"), a.cfg.Now()); err != nil {
		return err
	}
	out := append([]Refusal{}, a.cfg.Receiver.Refusals(q)...)
	for i := range out {
		out[i].Body = ""
		out[i] = maskRefusal(out[i])
	}
	return c.JSON(http.StatusOK, Page[Refusal]{Items: out})
}

func (a *Admin) getRefusal(c echo.Context) error {
	id, err := pathParam(c, "id")
	if err != nil {
		return err
	}
	if _, err := only(c.QueryParams()); err != nil {
		return err
	}
	for _, r := range a.cfg.Receiver.Refusals(RefusalQuery{Limit: math.MaxInt}) {
		if r.ID == id {
			r = a.redactRefusal(maskRefusal(r), who(c))
			if !who(c).may(RoleOperator) {
				r.Body, r.BodyOmitted = "", r.BodyBytes > 0
			}
			return c.JSON(http.StatusOK, r)
		}
	}
	return fmt.Errorf("refusal %q: %w: only the latest are remembered", id, dedupe.ErrNotFound)
}

// redactRefusal is a refusal as the principal may see it where its source
// redacts fields. Of a body that is cut off, or no JSON, only an admin sees it.
func (a *Admin) redactRefusal(r Refusal, p Principal) Refusal {
	b, err := a.cfg.Account.Redaction(r.Source).Body([]byte(r.Body))
	switch {
	case err == nil:
		r.Body = string(b)
	case !p.may(RoleAdmin):
		r.Body, r.BodyOmitted = "", r.BodyBytes > 0
	}
	return r
}

// maskRefusal masks what the receiver has already stripped of credentials: a
// request that did not verify may hold them anywhere.
func maskRefusal(r Refusal) Refusal {
	if path, query, ok := strings.Cut(r.Path, "?"); ok {
		r.Path = path + "?" + audit.MaskQuery(query)
	}
	r.Header = audit.MaskHeader(r.Header)
	r.Body = audit.MaskBody([]byte(r.Body))
	return r
}

func (a *Admin) status(c echo.Context) error {
	st, err := a.cfg.Account.Stats(c.Request().Context())
	if err != nil {
		return err
	}
	s := Status{
		Build: a.cfg.Build, Now: a.cfg.Now().UTC(), StartedAt: a.started.UTC(), Ready: true,
		Sources: a.sources(), Targets: a.targets(st), Ledger: ledgerView(&st), Gateways: a.gateways(),
	}
	if err := a.cfg.Ready(); err != nil {
		s.Ready, s.Problem = false, err.Error()
	}
	return c.JSON(http.StatusOK, s)
}

func ledgerView(st *dedupe.Stats) Ledger {
	return Ledger{
		Events: st.Events, Batches: st.Batches, LastRef: st.LastRef, SizeBytes: st.SizeBytes, FreeBytes: st.FreeBytes,
		Reserve: st.Reserve, ReadOnly: st.ReadOnly, Rebuilding: st.Rebuilding, ClockHold: st.ClockHold,
		UnknownKeys: st.Keys.Unknown, Concerns: st.Concerns,
	}
}

// health answers 200 when every probe is well and 503 when one is not.
func (a *Admin) health(c echo.Context) error {
	v, err := only(c.QueryParams(), "verbose")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), healthTimeout)
	defer cancel()
	h := Health{OK: true, Probes: a.probes(ctx)}
	for _, p := range h.Probes {
		h.OK = h.OK && p.OK
	}
	if !v.Has("verbose") {
		h.Probes = nil
	}
	status := http.StatusOK
	if !h.OK {
		status = http.StatusServiceUnavailable
	}
	return c.JSON(status, h)
}

// healthTimeout bounds the probes of one health request.
const healthTimeout = 5 * time.Second

func (a *Admin) probes(ctx context.Context) []Probe {
	out := []Probe{
		probe("ready", a.cfg.Ready()),
		probe("ledger", a.cfg.Account.Health(ctx)),
	}
	st, err := a.cfg.Account.Stats(ctx)
	if err != nil {
		return append(out, probe("statistics", err))
	}
	intake := Probe{Name: "intake", OK: !st.ReadOnly}
	if st.ReadOnly {
		intake.Detail = fmt.Sprintf("refused: %d bytes free, reserve %d", st.FreeBytes, st.Reserve)
	}
	// A held clock and a schedule being read back are no fault: both end by
	// themselves, and events are taken meanwhile.
	return append(out, intake,
		note("schedule", st.Rebuilding, "still being read back"),
		note("clock", st.ClockHold, "expiry waits: the clock ran far ahead"))
}

func probe(name string, err error) Probe {
	if err != nil {
		return Probe{Name: name, Detail: err.Error()}
	}
	return Probe{Name: name, OK: true}
}

func note(name string, on bool, detail string) Probe {
	if !on {
		detail = ""
	}
	return Probe{Name: name, OK: true, Detail: detail}
}
