package admin

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/onceward/onceward/event"
)

// Puller gives deliveries to services that fetch them.
type Puller interface {
	// Pull leases up to n deliveries for lease, and while there is none waits for
	// wait at most.
	Pull(ctx context.Context, target string, n int, lease, wait time.Duration) ([]Pulled, error)
	// Ack, Nack and Extend return ErrLeaseLost for a lease that is not held.
	Ack(ctx context.Context, target, lease string) error
	Nack(ctx context.Context, target, lease string, n Nack) error
	Extend(ctx context.Context, target, lease string, by time.Duration) (time.Time, error)
}

// What a Puller answers.
var (
	ErrLeaseLost = errors.New("the lease is not held: it ran out, was settled, or the gateway was started anew")
	ErrStopping  = errors.New("the gateway is starting or stopping")
)

// CodeLeaseLost is the code of an answer to leases none of which was held.
const CodeLeaseLost = "lease_lost"

// The bounds of what a service may ask for.
const (
	defaultPull     = 10
	maxPull         = 100
	defaultLease    = 30 * time.Second
	minLease        = time.Second
	maxLease        = time.Hour
	defaultPullWait = 20 * time.Second
	maxPullWait     = 50 * time.Second
)

// Pulled is one delivery under a lease.
type Pulled struct {
	Lease     string        `json:"lease"` // settle it with this
	ExpiresAt time.Time     `json:"expires_at"`
	Delivery  string        `json:"delivery"`
	Attempt   uint32        `json:"attempt"`
	Key       string        `json:"idempotency_key"`
	Event     event.Ref     `json:"event"`
	Source    string        `json:"source"`
	EventID   string        `json:"event_id"`
	Type      string        `json:"type"`
	Test      bool          `json:"test,omitempty"`
	Received  time.Time     `json:"received_at"`
	Method    string        `json:"method"`
	Path      string        `json:"path,omitempty"`
	Query     string        `json:"query,omitempty"`
	Header    []event.Field `json:"headers"`
	Body      []byte        `json:"body"` // the exact bytes; base64 in JSON
}

// Nack says why and for how long a delivery is given back.
type Nack struct {
	Delay  time.Duration
	Reason string
	Dead   bool
}

// PullRequest settles leases.
type PullRequest struct {
	Leases []string `json:"leases"`
	Lease  string   `json:"lease,omitempty"`  // of extend: for how long from now, as "30s"
	Delay  string   `json:"delay,omitempty"`  // of nack: least time until the next attempt
	Reason string   `json:"reason,omitempty"` // of nack
	Dead   bool     `json:"dead,omitempty"`   // of nack: don't try again
}

// PullResult says what became of leases: those settled, and those that were
// not held any more, whose deliveries are given out again.
type PullResult struct {
	Done      []string  `json:"done"`
	Lost      []string  `json:"lost"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // of extend
}

// SetPullTokens replaces the tokens of the targets that are pulled, as their
// hashes, by target. No token opens more than its own target's deliveries, and
// no other token opens those.
func (a *Admin) SetPullTokens(byTarget map[string][32]byte) { a.pullTokens.Store(&byTarget) }

// servePull asks for the token of the target that the path names. Wrong
// tokens, and names that are no pulled target, are answered alike.
func (a *Admin) servePull(route string, h func(c echo.Context, target string) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		if w, ok := c.Response().Writer.(*answer); ok {
			w.route = route
		}
		target, err := pathParam(c, "target")
		if err != nil {
			return err
		}
		got, ok := c.Request().Header["Authorization"]
		token, reason := "", authMissing
		if ok {
			reason = authMalformed
			if token, ok = bearer(got); ok {
				reason = authWrong
			} else {
				token = ""
			}
		}
		if _, err := a.login(c.Request(), token, reason, func(sum [32]byte) (Principal, bool) { return a.pullHolder(sum, target) }); err != nil {
			return err
		}
		if a.cfg.Puller == nil {
			return apiError(http.StatusNotFound, CodeNotFound, "nothing is pulled from this gateway")
		}
		return h(c, target)
	}
}

// pullHolder reports whether a token with this hash is the target's. Every
// token is compared, each in constant time.
func (a *Admin) pullHolder(sum [32]byte, target string) (Principal, bool) {
	same := 0
	for name, have := range *a.pullTokens.Load() {
		if subtle.ConstantTimeCompare(sum[:], have[:]) == 1 && name == target {
			same = 1
		}
	}
	return Principal{Name: "pull:" + target}, same == 1 && sum != HashToken("")
}

// pullRoutes are those of services that fetch their deliveries.
func (a *Admin) pullRoutes() []route {
	const path = apiPrefix + "/pull/:target"
	return []route{
		{http.MethodGet, path, byPullToken, a.servePull(path, a.pull)},
		{http.MethodPost, path + "/ack", byPullToken, a.servePull(path+"/ack", a.pullAck)},
		{http.MethodPost, path + "/nack", byPullToken, a.servePull(path+"/nack", a.pullNack)},
		{http.MethodPost, path + "/extend", byPullToken, a.servePull(path+"/extend", a.pullExtend)},
	}
}

func (a *Admin) pull(c echo.Context, target string) error {
	v, err := only(c.QueryParams(), "n", "lease", "wait")
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(cmp.Or(v.Get("n"), strconv.Itoa(defaultPull)))
	if err != nil || n < 1 || n > maxPull {
		return apiError(http.StatusBadRequest, CodeInvalid, "n %q: want 1 to %d", v.Get("n"), maxPull)
	}
	lease, err := within("lease", v.Get("lease"), defaultLease, minLease, maxLease)
	if err != nil {
		return err
	}
	wait, err := within("wait", v.Get("wait"), defaultPullWait, 0, maxPullWait)
	if err != nil {
		return err
	}
	unhurried(c)
	got, err := a.cfg.Puller.Pull(c.Request().Context(), target, n, lease, wait)
	if err != nil {
		return pullError(err)
	}
	if got == nil {
		got = []Pulled{}
	}
	return c.JSON(http.StatusOK, Page[Pulled]{Items: got})
}

// within reads a length of time.
func within(name, text string, def, least, most time.Duration) (time.Duration, error) {
	if text == "" {
		return def, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		return 0, apiError(http.StatusBadRequest, CodeInvalid, "%s %q: want a length of time from %s to %s", name, text, least, most)
	}
	return d, nil
}

func pullError(err error) error {
	switch {
	case errors.Is(err, ErrLeaseLost):
		return apiError(http.StatusConflict, CodeLeaseLost, "%v", ErrLeaseLost)
	case errors.Is(err, ErrStopping):
		return apiError(http.StatusServiceUnavailable, CodeStore, "%v", ErrStopping)
	}
	return err
}

func (a *Admin) pullAck(c echo.Context, target string) error {
	req, err := pullRequest(c, "leases")
	if err != nil {
		return err
	}
	return a.settled(c, req, &PullResult{}, func(ctx context.Context, lease string) error { return a.cfg.Puller.Ack(ctx, target, lease) })
}

func (a *Admin) pullNack(c echo.Context, target string) error {
	req, err := pullRequest(c, "leases, delay, reason and dead")
	if err != nil {
		return err
	}
	n := Nack{Reason: req.Reason, Dead: req.Dead}
	if n.Delay, err = within("delay", req.Delay, 0, 0, 24*time.Hour); err != nil {
		return err
	}
	return a.settled(c, req, &PullResult{}, func(ctx context.Context, lease string) error { return a.cfg.Puller.Nack(ctx, target, lease, n) })
}

func (a *Admin) pullExtend(c echo.Context, target string) error {
	req, err := pullRequest(c, "leases and lease")
	if err != nil {
		return err
	}
	by, err := within("lease", req.Lease, defaultLease, minLease, maxLease)
	if err != nil {
		return err
	}
	out := &PullResult{}
	return a.settled(c, req, out, func(ctx context.Context, lease string) error {
		until, err := a.cfg.Puller.Extend(ctx, target, lease, by)
		if err == nil && (out.ExpiresAt.IsZero() || until.Before(out.ExpiresAt)) {
			out.ExpiresAt = until
		}
		return err
	})
}

func pullRequest(c echo.Context, what string) (PullRequest, error) {
	var req PullRequest
	if err := decode(c, &req); err != nil {
		return req, err
	}
	if len(req.Leases) == 0 || len(req.Leases) > maxPull {
		return req, apiError(http.StatusBadRequest, CodeInvalid, "%d leases: want 1 to %d; the body has %s", len(req.Leases), maxPull, what)
	}
	return req, nil
}

// settled does something to each lease and answers what became of them. When
// none was held that is an error, so that nobody takes it for done.
func (a *Admin) settled(c echo.Context, req PullRequest, out *PullResult, do func(context.Context, string) error) error {
	out.Done, out.Lost = []string{}, []string{}
	for _, lease := range req.Leases {
		switch err := do(c.Request().Context(), lease); {
		case err == nil:
			out.Done = append(out.Done, lease)
		case errors.Is(err, ErrLeaseLost):
			out.Lost = append(out.Lost, lease)
		default:
			return pullError(err)
		}
	}
	if len(out.Done) == 0 {
		return pullError(ErrLeaseLost)
	}
	return c.JSON(http.StatusOK, out)
}
