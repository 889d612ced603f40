package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ErrUnreachable reports that no gateway answered, or something that is none.
var ErrUnreachable = errors.New("gateway cannot be reached")

// ClientConfig says which gateway to talk to.
type ClientConfig struct {
	// Addr is the operator's listener: host:port, or an http or https URL
	// without a path. An unspecified host (":8081") is this machine.
	Addr string
	// Token is the bearer token; "" reaches only what needs none.
	Token string
	// Reason is why its user does what changes something; for the account.
	Reason string
	// Timeout bounds calls that answer from memory or a bounded read.
	// Default 30s. Bodies, replays, reloads and checks are bounded by their
	// context alone.
	Timeout time.Duration
}

// Client calls the JSON API of a gateway. It is safe for concurrent use and
// never follows redirects or uses a proxy. Its errors are an *APIError when
// the gateway answered, and ErrUnreachable when none did.
type Client struct {
	base    string
	token   string
	reason  string
	timeout time.Duration
	export  string // of an export's client: what its pages are named by
	http    *http.Client
}

const defaultClientTimeout = 30 * time.Second

// NewClient returns a Client. It makes no connection yet.
func NewClient(cfg ClientConfig) (*Client, error) {
	base, err := baseURL(cfg.Addr)
	if err != nil {
		return nil, err
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultClientTimeout
	}
	return &Client{
		base: base, token: cfg.Token, reason: cfg.Reason, timeout: cfg.Timeout,
		http: &http.Client{
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
				TLSHandshakeTimeout: 5 * time.Second,
				IdleConnTimeout:     30 * time.Second,
				DisableCompression:  true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func baseURL(addr string) (string, error) {
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	u, err := url.Parse(addr)
	if err != nil {
		return "", fmt.Errorf("admin address %q: want host:port or a URL", addr)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return "", fmt.Errorf("admin address %q: want host:port, or an http or https URL without a path", addr)
	}
	host, port := u.Hostname(), u.Port()
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if err == nil && ip.Is6() {
			host = "::1"
		}
	}
	if port != "" {
		host = net.JoinHostPort(host, port)
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return u.Scheme + "://" + host, nil
}

// Close drops idle connections. The Client stays usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Events lists events, newest first. cursor is the Next of the page before;
// a limit of 0 is the gateway's default.
func (c *Client) Events(ctx context.Context, f Filter, cursor string, limit int) (Page[Event], error) {
	return get[Page[Event]](ctx, c, "/events", paging(f, cursor, limit))
}

// Deliveries lists deliveries, newest event first.
func (c *Client) Deliveries(ctx context.Context, f Filter, cursor string, limit int) (Page[Delivery], error) {
	return get[Page[Delivery]](ctx, c, "/deliveries", paging(f, cursor, limit))
}

// Event is one event with its deliveries and attempts. id is a ref or the
// provider's ID, looked up in source or, with "", in every source.
func (c *Client) Event(ctx context.Context, id, source string) (Detail, error) {
	return get[Detail](ctx, c, "/events/"+escape(id), sourced(source))
}

// Attempts are all attempts of one event, oldest first.
func (c *Client) Attempts(ctx context.Context, id, source string) ([]Attempt, error) {
	p, err := get[Page[Attempt]](ctx, c, "/events/"+escape(id)+"/attempts", sourced(source))
	return p.Items, err
}

// Body copies an event's exact bytes to w and returns how many there were. An
// error after the first byte means that w has only a part.
func (c *Client) Body(ctx context.Context, id, source string, w io.Writer) (int64, error) {
	return c.copyTo(ctx, w, "body of event "+id, "/events/"+escape(id)+"/body", sourced(source))
}

// copyTo copies an answer to w and returns how many bytes there were; what is what
// the error of a cut one calls it.
func (c *Client) copyTo(ctx context.Context, w io.Writer, what, path string, params url.Values) (int64, error) {
	resp, err := c.send(ctx, http.MethodGet, path, params, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, readError(resp)
	}
	n, err := io.Copy(w, resp.Body)
	if err != nil {
		return n, fmt.Errorf("read %s: %w", what, err)
	}
	return n, nil
}

// Cancel closes the open deliveries of one event, of one target or of all.
func (c *Client) Cancel(ctx context.Context, id, source, target string) (CancelResult, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return post[CancelResult](ctx, c, "/events/"+escape(id)+"/cancel", sourced(source), CancelRequest{Target: target})
}

// Replay sends stored events again. While the result has a Next, call again
// with it as the request's Cursor.
func (c *Client) Replay(ctx context.Context, r ReplayRequest) (ReplayResult, error) {
	return post[ReplayResult](ctx, c, "/replays", nil, r)
}

// Sources is the state of every configured source.
func (c *Client) Sources(ctx context.Context) ([]Source, error) {
	p, err := get[Page[Source]](ctx, c, "/sources", nil)
	return p.Items, err
}

// Targets is the state of every target, and of those that are no longer
// configured and have deliveries left.
func (c *Client) Targets(ctx context.Context) ([]Target, error) {
	p, err := get[Page[Target]](ctx, c, "/targets", nil)
	return p.Items, err
}

// TestTarget sends one test request to a target. A target that does not answer
// is no error: see Outcome.
func (c *Client) TestTarget(ctx context.Context, name string) (TargetTest, error) {
	return post[TargetTest](ctx, c, "/targets/"+escape(name)+"/test", nil, nil)
}

// RefusalFilter selects refusals. Since is a time or an age, as in Filter.
type RefusalFilter struct {
	Source string
	Reason string
	Since  string
	Limit  int // 0 is the gateway's default
}

// Refusals are the remembered requests that did not verify, newest first.
func (c *Client) Refusals(ctx context.Context, f RefusalFilter) ([]Refusal, error) {
	v := sourced(f.Source)
	set(v, "reason", f.Reason)
	set(v, "since", f.Since)
	if f.Limit != 0 {
		v.Set("limit", strconv.Itoa(f.Limit))
	}
	p, err := get[Page[Refusal]](ctx, c, "/refusals", v)
	return p.Items, err
}

// Refusal is one remembered refusal.
func (c *Client) Refusal(ctx context.Context, id string) (Refusal, error) {
	return get[Refusal](ctx, c, "/refusals/"+escape(id), nil)
}

// Status is the state of the whole gateway.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return get[Status](ctx, c, "/status", nil)
}

// Health is the verbose health. An unhealthy gateway is no error: see OK.
func (c *Client) Health(ctx context.Context) (Health, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	resp, err := c.send(ctx, http.MethodGet, "/health", url.Values{"verbose": {""}}, nil)
	if err != nil {
		return Health{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
		return Health{}, readError(resp)
	}
	return readJSON[Health](resp)
}

// Ready is nil when the gateway says at /readyz that it takes events. It
// needs no token. A gateway that does not is CodeStore.
func (c *Client) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	resp, err := c.sendTo(ctx, http.MethodGet, c.base+"/readyz", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return apiError(resp.StatusCode, CodeStore, "gateway is not ready")
	}
	return nil
}

// Reload swaps the configuration in whole. A configuration with faults is an
// *APIError with CodeConfig that holds them all; the old one stays in force.
func (c *Client) Reload(ctx context.Context) (ReloadResult, error) {
	return post[ReloadResult](ctx, c, "/reload", nil, nil)
}

// Check reads the whole ledger and returns the report, faults and all.
func (c *Client) Check(ctx context.Context) (CheckReport, error) {
	return post[CheckReport](ctx, c, "/check", nil, nil)
}

// Version says which program answers.
func (c *Client) Version(ctx context.Context) (Build, error) {
	return get[Build](ctx, c, "/version", nil)
}

func get[T any](ctx context.Context, c *Client, path string, v url.Values) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return call[T](ctx, c, http.MethodGet, path, v, nil)
}

func post[T any](ctx context.Context, c *Client, path string, v url.Values, body any) (T, error) {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			var zero T
			return zero, fmt.Errorf("encode request: %w", err)
		}
	}
	return call[T](ctx, c, http.MethodPost, path, v, b)
}

func call[T any](ctx context.Context, c *Client, method, path string, v url.Values, body []byte) (T, error) {
	var zero T
	resp, err := c.send(ctx, method, path, v, body)
	if err != nil {
		return zero, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusAccepted {
		return zero, readError(resp)
	}
	return readJSON[T](resp)
}

func (c *Client) send(ctx context.Context, method, path string, v url.Values, body []byte) (*http.Response, error) {
	target := c.base + "/api/v1" + path
	if len(v) > 0 {
		target += "?" + v.Encode()
	}
	return c.sendTo(ctx, method, target, body)
}

// Exporting is a client of the same gateway whose lists of events are pages of one
// export, which is named by 8 to 64 letters and digits and shown among the
// gateway's Transfers.
func (c *Client) Exporting(id string) *Client {
	e := *c
	e.export = id
	return &e
}

func (c *Client) sendTo(ctx context.Context, method, target string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.export != "" {
		req.Header.Set(exportHeader, c.export)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.reason != "" && method != http.MethodGet {
		req.Header.Set(ReasonHeader, url.PathEscape(c.reason))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, context.Canceled) {
			return nil, cause
		}
		return nil, fmt.Errorf("%w at %s: %w", ErrUnreachable, c.base, err)
	}
	return resp, nil
}

// maxErrorBody bounds what is read of an error's body.
const maxErrorBody = 4 << 20

// readError is the error of an answer that is not 200.
func readError(resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		return fmt.Errorf("%w: its answer broke off: %w", ErrUnreachable, err)
	}
	var body errorBody
	if json.Unmarshal(b, &body) != nil || body.Error == nil || body.Error.Code == "" {
		return fmt.Errorf("%w: what answers there with status %d is no gateway's admin listener", ErrUnreachable, resp.StatusCode)
	}
	body.Error.Status, body.Error.Faults = resp.StatusCode, body.Faults
	return body.Error
}

func readJSON[T any](resp *http.Response) (T, error) {
	var out T
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return out, fmt.Errorf("%w: its answer is not the JSON expected: %w", ErrUnreachable, err)
	}
	return out, nil
}

// escape makes one path segment of an ID, whatever it holds. A segment of
// dots alone would be taken for a direction by what stands between.
func escape(id string) string {
	if id == "." || id == ".." {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}

func paging(f Filter, cursor string, limit int) url.Values {
	v := f.Values()
	set(v, "cursor", cursor)
	if limit != 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	return v
}

func sourced(source string) url.Values {
	v := url.Values{}
	set(v, "source", source)
	return v
}

func set(v url.Values, name, value string) {
	if value != "" {
		v.Set(name, value)
	}
}
