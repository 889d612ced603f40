package conform

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Config says what is held to the contract.
type Config struct {
	// URL is the base of the route, such as http://127.0.0.1:8080/in/pay.
	URL string
	// Header is sent with every request: the caller's credentials.
	Header http.Header
	// Other is another caller's header. Nil: scenarios with two callers are not
	// tried.
	Other http.Header
	// RequireKey says that the route refuses requests without a key.
	RequireKey bool
	// Wait says that repeats wait for the first answer, in place of a 409.
	Wait bool
	// Steered says that the route's target is a Target, so that scenarios may
	// choose its answers.
	Steered bool
	Client  *http.Client // nil: one with a time-out of 30 s
}

// Result is what one scenario found.
type Result struct {
	Name    string `json:"name"`
	Section string `json:"section"` // of the contract
	// Outcome is "pass", "fail" or "skip".
	Outcome string `json:"outcome"`
	Detail  string `json:"detail,omitempty"` // why it failed or was not tried
}

// Report is what a run found.
type Report struct {
	URL     string   `json:"url"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Skipped int      `json:"skipped"`
	Results []Result `json:"results"`
}

// errSkip says why a scenario was not tried.
type errSkip struct{ why string }

func (e errSkip) Error() string { return e.why }

// scenario is one thing the contract says.
type scenario struct {
	name, section string
	run           func(context.Context, *runner) error
}

// Run tries every scenario, one after the other. An error means that there was
// nothing to try at all: the base URL doesn't answer.
func Run(ctx context.Context, cfg Config) (Report, error) {
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		defer cfg.Client.CloseIdleConnections()
	}
	cfg.URL = strings.TrimSuffix(cfg.URL, "/")
	r := &runner{cfg: cfg}
	rep := Report{URL: cfg.URL}
	if _, err := r.do(ctx, &ask{method: http.MethodOptions}); err != nil {
		return rep, fmt.Errorf("reach %s: %w", cfg.URL, err)
	}
	for _, s := range scenarios() {
		res := Result{Name: s.name, Section: s.section, Outcome: "pass"}
		err := s.run(ctx, r)
		var skip errSkip
		switch {
		case errors.As(err, &skip):
			res.Outcome, res.Detail = "skip", skip.why
			rep.Skipped++
		case err != nil:
			res.Outcome, res.Detail = "fail", err.Error()
			rep.Failed++
		default:
			rep.Passed++
		}
		rep.Results = append(rep.Results, res)
		if ctx.Err() != nil {
			return rep, ctx.Err()
		}
	}
	return rep, nil
}

type runner struct{ cfg Config }

// newKey is a key that no run has used.
func newKey() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return "conform-" + hex.EncodeToString(b[:])
}

// ask is one request. The zero value but for a key is a POST with a body.
type ask struct {
	method, path, query, body, media string
	key                              string
	keys                             []string // raw header lines, in place of key
	header                           http.Header
	other                            bool // the other caller
}

// reply is an answer, read whole.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r *runner) do(ctx context.Context, a *ask) (*reply, error) {
	method := a.method
	if method == "" {
		method = http.MethodPost
	}
	var body io.Reader
	if a.body != "" {
		body = strings.NewReader(a.body)
	}
	url := r.cfg.URL + a.path
	if a.query != "" {
		url += "?" + a.query
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	for name, values := range r.cfg.Header {
		req.Header[name] = values
	}
	if a.other {
		for name, values := range r.cfg.Other {
			req.Header[name] = values
		}
	}
	for name, values := range a.header {
		req.Header[name] = values
	}
	if a.media == "" {
		a.media = "application/json"
	}
	req.Header.Set("Content-Type", a.media)
	switch {
	case a.keys != nil:
		req.Header["Idempotency-Key"] = a.keys
	case a.key != "":
		req.Header.Set("Idempotency-Key", a.key)
	}
	resp, err := r.cfg.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return &reply{resp.StatusCode, resp.Header, b}, err
}

// steered skips what needs a target that does as it is told.
func (r *runner) steered() error {
	if !r.cfg.Steered {
		return errSkip{"the target can't be told how to answer"}
	}
	return nil
}

// problem checks a refusal: status, form and stable type.
func (a *reply) problem(status int, kind string) error {
	if a.status != status {
		return fmt.Errorf("status %d, want %d", a.status, status)
	}
	if media, _, err := mime.ParseMediaType(a.header.Get("Content-Type")); err != nil || media != "application/problem+json" {
		return fmt.Errorf("content type %q, want application/problem+json", a.header.Get("Content-Type"))
	}
	var doc struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
	}
	if err := json.Unmarshal(a.body, &doc); err != nil {
		return fmt.Errorf("problem document: %w", err)
	}
	if doc.Status != status || doc.Title == "" || kind != "" && !strings.HasSuffix(doc.Type, kind) {
		return fmt.Errorf("problem document says %d, %q, %q; want %d, a title, and a type that ends in %q", doc.Status, doc.Title, doc.Type, status, kind)
	}
	return nil
}

// fresh checks that an answer is a first one, the target's.
func (a *reply) fresh(status int) error {
	if a.status != status {
		return fmt.Errorf("first answer has status %d, want %d", a.status, status)
	}
	if a.header.Get("Idempotent-Replayed") != "" {
		return errors.New("first answer says that it is replayed")
	}
	return nil
}

// replays checks that an answer is the first one again.
func (a *reply) replays(first *reply) error {
	switch {
	case a.header.Get("Idempotent-Replayed") != "true":
		return errors.New("repeat lacks Idempotent-Replayed: true")
	case a.status != first.status:
		return fmt.Errorf("repeat has status %d, the first %d", a.status, first.status)
	case !bytes.Equal(a.body, first.body):
		return errors.New("repeat has another body than the first")
	}
	for name, values := range first.header {
		if got := a.header[name]; strings.Join(got, "\n") != strings.Join(values, "\n") {
			return fmt.Errorf("repeat has %s: %q, the first %q", name, got, values)
		}
	}
	return nil
}

// pair sends a request twice and checks that the second is a replay.
func (r *runner) pair(ctx context.Context, a ask, status int) (first, second *reply, err error) {
	b := a
	if first, err = r.do(ctx, &a); err != nil {
		return nil, nil, err
	}
	if err = first.fresh(status); err != nil {
		return first, nil, err
	}
	if second, err = r.do(ctx, &b); err != nil {
		return first, nil, err
	}
	return first, second, second.replays(first)
}

// storm sends one request many times at once.
func (r *runner) storm(ctx context.Context, a ask, n int) ([]*reply, error) {
	replies, errs := make([]*reply, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			one := a
			replies[i], errs[i] = r.do(ctx, &one)
		})
	}
	wg.Wait()
	return replies, errors.Join(errs...)
}
