package conform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// scenarios is the contract, as far as it shows from outside.
func scenarios() []scenario {
	out := []scenario{
		{"a repeat gets the first answer, byte for byte", "replay", replay},
		{"a repeat with the key quoted is the same", "key", quotedKey},
		{"errors are replayed as well", "replay", replayError},
		{"the answer says when its key expires", "expiry", expires},
		{"a long answer is replayed whole", "replay", longAnswer},
		{"an answer of no bytes is replayed", "replay", emptyAnswer},
		{"a body that differs by one byte", "fingerprint", differs(ask{body: `{"amount":11}`})},
		{"a query that differs by one parameter", "fingerprint", differs(ask{body: `{"amount":10}`, query: "a=1&b=2"})},
		{"another path", "fingerprint", differs(ask{body: `{"amount":10}`, path: "/other"})},
		{"another method", "fingerprint", differs(ask{body: `{"amount":10}`, method: http.MethodPatch})},
		{"another content type", "fingerprint", differs(ask{body: `{"amount":10}`, media: "text/plain"})},
		{"only the case of headers differs", "fingerprint", headerCase},
		{"the same key while the first is under way", "concurrency", inFlight},
		{"another request while the first is under way: 422 wins", "concurrency", mismatchWins},
		{"100 at once with one key: one execution", "concurrency", manyAtOnce},
		{"a request without a key", "key", noKey},
		{"reads pass and are not deduplicated", "methods", reads},
		{"425 and 429 free the key", "release", releases},
		{"a caller that leaves early finds the answer later", "callers", leavesEarly},
		{"a connection that breaks after the request", "unknown", broken},
		{"cookies and private headers don't come back", "headers", cookies},
		{"streams of events and upgrades are refused", "methods", streams},
		{"a path that leads out of the route", "path", outOfRoute},
		{"path and query reach the target unchanged", "path", unchanged},
		{"two callers with one key", "callers", twoCallers},
		{"the credentials are needed", "callers", noCredentials},
	}
	for _, k := range badKeys {
		out = append(out, scenario{"a key that is " + k.name, "key", badKey(k.lines)})
	}
	return out
}

func replay(ctx context.Context, r *runner) error {
	_, _, err := r.pair(ctx, ask{key: newKey(), body: `{"amount":10}`}, http.StatusOK)
	return err
}

func quotedKey(ctx context.Context, r *runner) error {
	key := newKey()
	first, err := r.do(ctx, &ask{keys: []string{`"` + key + `"`}, body: "x"})
	if err != nil {
		return err
	}
	if err := first.fresh(http.StatusOK); err != nil {
		return err
	}
	again, err := r.do(ctx, &ask{key: key, body: "x"})
	if err != nil {
		return err
	}
	return again.replays(first)
}

func replayError(ctx context.Context, r *runner) error {
	if err := r.steered(); err != nil {
		return err
	}
	for _, status := range []int{400, 402, 404, 422, 500, 502, 503} {
		if _, _, err := r.pair(ctx, ask{key: newKey(), body: "x", query: fmt.Sprint("status=", status)}, status); err != nil {
			return fmt.Errorf("status %d: %w", status, err)
		}
	}
	return nil
}

func expires(ctx context.Context, r *runner) error {
	first, second, err := r.pair(ctx, ask{key: newKey(), body: "x"}, http.StatusOK)
	if err != nil {
		return err
	}
	for _, a := range []*reply{first, second} {
		at, err := http.ParseTime(a.header.Get("Onceward-Key-Expires"))
		if err != nil || time.Until(at) < time.Minute {
			return fmt.Errorf("Onceward-Key-Expires: %q, want a time to come", a.header.Get("Onceward-Key-Expires"))
		}
	}
	return nil
}

func longAnswer(ctx context.Context, r *runner) error {
	if err := r.steered(); err != nil {
		return err
	}
	for _, size := range []int{64 << 10, 64<<10 + 1, 1 << 20, 3<<20 + 17} {
		first, _, err := r.pair(ctx, ask{key: newKey(), body: "x", query: fmt.Sprint("size=", size)}, http.StatusOK)
		if err != nil {
			return fmt.Errorf("%d bytes: %w", size, err)
		}
		if len(first.body) != size {
			return fmt.Errorf("%d bytes came as %d", size, len(first.body))
		}
	}
	return nil
}

func emptyAnswer(ctx context.Context, r *runner) error {
	if err := r.steered(); err != nil {
		return err
	}
	_, _, err := r.pair(ctx, ask{key: newKey(), body: "x", query: "status=204"}, http.StatusNoContent)
	return err
}

// differs sends another request under a key that is taken.
func differs(other ask) func(context.Context, *runner) error {
	return func(ctx context.Context, r *runner) error {
		key := newKey()
		one := ask{key: key, body: `{"amount":10}`}
		if _, _, err := r.pair(ctx, one, http.StatusOK); err != nil {
			return err
		}
		two := other
		two.key = key
		got, err := r.do(ctx, &two)
		if err != nil {
			return err
		}
		if err := got.problem(http.StatusUnprocessableEntity, "key-reused"); err != nil {
			return err
		}
		again, err := r.do(ctx, &one)
		if err == nil && again.header.Get("Idempotent-Replayed") != "true" {
			err = errors.New("after it the first request is not replayed any more")
		}
		return err
	}
}

func headerCase(ctx context.Context, r *runner) error {
	key := newKey()
	first, err := r.do(ctx, &ask{key: key, body: "x", media: "application/json", header: http.Header{"X-Trace": {"a"}}})
	if err != nil {
		return err
	}
	if err := first.fresh(http.StatusOK); err != nil {
		return err
	}
	again, err := r.do(ctx, &ask{key: key, body: "x", media: "Application/JSON", header: http.Header{"x-trace": {"A"}}})
	if err != nil {
		return err
	}
	return again.replays(first)
}

// under starts a request that the target takes its time for.
func (r *runner) under(ctx context.Context, a ask) (answer <-chan *reply, err error) {
	if err := r.steered(); err != nil {
		return nil, err
	}
	c := make(chan *reply, 1)
	go func() {
		got, err := r.do(ctx, &a)
		if err != nil {
			got = &reply{body: []byte(err.Error())}
		}
		c <- got
	}()
	timer := time.NewTimer(300 * time.Millisecond) // until it is at the target
	defer timer.Stop()
	select {
	case <-timer.C:
		return c, nil
	case got := <-c:
		return nil, fmt.Errorf("the target was told to take a second and answered %d at once", got.status)
	}
}

const slow = "sleep=1s"

func inFlight(ctx context.Context, r *runner) error {
	a := ask{key: newKey(), body: "x", query: slow}
	first, err := r.under(ctx, a)
	if err != nil {
		return err
	}
	b := a
	got, err := r.do(ctx, &b)
	if err != nil {
		return err
	}
	one := <-first
	if r.cfg.Wait {
		return got.replays(one)
	}
	if err := got.problem(http.StatusConflict, "in-flight"); err != nil {
		return err
	}
	if got.header.Get("Retry-After") == "" {
		return errors.New("409 lacks Retry-After")
	}
	again, err := r.do(ctx, &a)
	if err != nil {
		return err
	}
	return again.replays(one)
}

func mismatchWins(ctx context.Context, r *runner) error {
	a := ask{key: newKey(), body: "x", query: slow}
	first, err := r.under(ctx, a)
	if err != nil {
		return err
	}
	b := a
	b.body = "y"
	got, err := r.do(ctx, &b)
	<-first
	if err != nil {
		return err
	}
	return got.problem(http.StatusUnprocessableEntity, "key-reused")
}

func manyAtOnce(ctx context.Context, r *runner) error {
	a := ask{key: newKey(), body: "x", query: "sleep=50ms"}
	replies, err := r.storm(ctx, a, 100)
	if err != nil {
		return err
	}
	var first *reply
	for _, got := range replies {
		if got.status == http.StatusOK && got.header.Get("Idempotent-Replayed") == "" {
			if first != nil {
				return errors.New("two of them were answered as the first")
			}
			first = got
		}
	}
	if first == nil {
		return errors.New("none of them was answered as the first")
	}
	for _, got := range replies {
		switch {
		case got == first:
		case got.status == http.StatusConflict && !r.cfg.Wait:
			err = got.problem(http.StatusConflict, "in-flight")
		default:
			err = got.replays(first)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func noKey(ctx context.Context, r *runner) error {
	got, err := r.do(ctx, &ask{body: "x"})
	if err != nil {
		return err
	}
	if r.cfg.RequireKey {
		return got.problem(http.StatusBadRequest, "key-missing")
	}
	again, err := r.do(ctx, &ask{body: "x"})
	if err != nil {
		return err
	}
	if err := got.fresh(http.StatusOK); err != nil {
		return err
	}
	return again.fresh(http.StatusOK)
}

func reads(ctx context.Context, r *runner) error {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
		key := newKey()
		for range 2 {
			got, err := r.do(ctx, &ask{method: method, key: key})
			if err != nil {
				return err
			}
			if err := got.fresh(http.StatusOK); err != nil {
				return fmt.Errorf("%s: %w", method, err)
			}
		}
	}
	got, err := r.do(ctx, &ask{key: newKey(), body: "x"}) // else a bare proxy passes
	if err == nil && got.header.Get("Onceward-Key-Expires") == "" {
		err = errors.New("a POST is treated no other than a GET")
	}
	return err
}

func releases(ctx context.Context, r *runner) error {
	if err := r.steered(); err != nil {
		return err
	}
	for _, status := range []int{425, 429} {
		a := ask{key: newKey(), body: "x", query: fmt.Sprint("once=", status)}
		b := a
		got, err := r.do(ctx, &a)
		if err != nil {
			return err
		}
		if got.status != status {
			return fmt.Errorf("status %d, want the target's %d", got.status, status)
		}
		if _, _, err := r.pair(ctx, b, http.StatusOK); err != nil {
			return fmt.Errorf("after %d: %w", status, err)
		}
	}
	return nil
}

func leavesEarly(ctx context.Context, r *runner) error {
	if err := r.steered(); err != nil {
		return err
	}
	a := ask{key: newKey(), body: "x", query: slow}
	leaving, leave := context.WithTimeout(ctx, 300*time.Millisecond)
	defer leave()
	b := a
	if got, err := r.do(leaving, &b); err == nil {
		return fmt.Errorf("answered %d at once", got.status)
	}
	end := time.Now().Add(5 * time.Second)
	for {
		c := a
		got, err := r.do(ctx, &c)
		if err != nil {
			return err
		}
		if got.status == http.StatusOK && got.header.Get("Idempotent-Replayed") == "true" {
			return nil
		}
		if got.status != http.StatusConflict || time.Now().After(end) {
			return fmt.Errorf("status %d, replayed %q; want the first answer in the end", got.status, got.header.Get("Idempotent-Replayed"))
		}
		timer := time.NewTimer(200 * time.Millisecond)
		<-timer.C
	}
}

func broken(ctx context.Context, r *runner) error {
	if err := r.steered(); err != nil {
		return err
	}
	a := ask{key: newKey(), body: "x", query: "cut=1"}
	for range 2 {
		b := a
		got, err := r.do(ctx, &b)
		if err != nil {
			return err
		}
		if err := got.problem(http.StatusBadGateway, ""); err != nil {
			return err
		}
		if !bytes.Contains(got.body, []byte("outcome-unknown")) && !bytes.Contains(got.body, []byte("try-again")) {
			return fmt.Errorf("problem %s, want outcome-unknown, or try-again for an idempotent target", got.body)
		}
	}
	return nil
}

func cookies(ctx context.Context, r *runner) error {
	if err := r.steered(); err != nil {
		return err
	}
	first, second, err := r.pair(ctx, ask{key: newKey(), body: "x"}, http.StatusOK)
	if err != nil {
		return err
	}
	for _, a := range []*reply{first, second} {
		if a.header.Get("Set-Cookie") != "" || a.header.Get("X-Private") != "" {
			return fmt.Errorf("answer carries Set-Cookie %q, X-Private %q", a.header.Get("Set-Cookie"), a.header.Get("X-Private"))
		}
		if a.header.Get("Location") == "" {
			return errors.New("answer lacks the target's Location")
		}
	}
	return nil
}

func streams(ctx context.Context, r *runner) error {
	got, err := r.do(ctx, &ask{key: newKey(), body: "x", header: http.Header{"Accept": {"text/event-stream"}}})
	if err != nil {
		return err
	}
	if err := got.problem(http.StatusNotImplemented, "streaming-unsupported"); err != nil {
		return err
	}
	got, err = r.do(ctx, &ask{key: newKey(), body: "x", header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}})
	if err != nil {
		return err
	}
	return got.problem(http.StatusNotImplemented, "upgrade-unsupported")
}

func outOfRoute(ctx context.Context, r *runner) error {
	for _, path := range []string{"/../x", "/a/%2e%2e/x", "/a/..%2fx", "/a/..%5Cx", "/%2E/x"} {
		got, err := r.do(ctx, &ask{key: newKey(), body: "x", path: path})
		if err != nil {
			return err
		}
		if got.status != http.StatusBadRequest && got.status != http.StatusNotFound {
			return fmt.Errorf("path %s: status %d, want a refusal", path, got.status)
		}
	}
	return nil
}

func unchanged(ctx context.Context, r *runner) error {
	if err := r.steered(); err != nil {
		return err
	}
	const path, query = "/a%2Fb/c%20d//e", "q=%2f&&x=1&status=200"
	first, _, err := r.pair(ctx, ask{key: newKey(), body: "x", path: path, query: query}, http.StatusOK)
	if err != nil {
		return err
	}
	if !strings.Contains(string(first.body), path+"?"+query+",") {
		return fmt.Errorf("the target saw %q, want %s?%s at its end", first.body, path, query)
	}
	return nil
}

func twoCallers(ctx context.Context, r *runner) error {
	if r.cfg.Other == nil {
		return errSkip{"no other caller is known"}
	}
	key := newKey()
	first, _, err := r.pair(ctx, ask{key: key, body: "x"}, http.StatusOK)
	if err != nil {
		return err
	}
	other, _, err := r.pair(ctx, ask{key: key, body: "x", other: true}, http.StatusOK)
	if err != nil {
		return fmt.Errorf("the other caller: %w", err)
	}
	if r.cfg.Steered && bytes.Equal(first.body, other.body) {
		return errors.New("both callers see one answer")
	}
	return nil
}

func noCredentials(ctx context.Context, r *runner) error {
	if len(r.cfg.Header) == 0 {
		return errSkip{"no credentials are known"}
	}
	bare := &runner{cfg: r.cfg}
	bare.cfg.Header = nil
	got, err := bare.do(ctx, &ask{key: newKey(), body: "x"})
	if err != nil {
		return err
	}
	return got.problem(http.StatusUnauthorized, "not-authentic")
}

// badKeys are header lines that are no key.
var badKeys = []struct {
	name  string
	lines []string
}{
	{"empty", []string{""}},
	{"empty in quotes", []string{`""`}},
	{"of 256 characters", []string{strings.Repeat("k", 256)}},
	{"not ASCII", []string{"schlüssel"}},
	{"of words", []string{"two words"}},
	{"given twice", []string{"a", "a"}},
	{"two, joined by a comma", []string{"a, b"}},
	{"two quoted ones, joined by a comma", []string{`"a", "b"`}},
	{"not closed", []string{`"a`}},
	{"quoted with a parameter", []string{`"a";p=1`}},
}

func badKey(lines []string) func(context.Context, *runner) error {
	return func(ctx context.Context, r *runner) error {
		got, err := r.do(ctx, &ask{keys: lines, body: "x"})
		if err != nil {
			return err
		}
		return got.problem(http.StatusBadRequest, "key-invalid")
	}
}
