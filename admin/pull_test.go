package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/event"
)

// desk is a Puller that says what it was asked.
type desk struct {
	asked []string
	fails error
}

func (d *desk) note(format string, args ...any) {
	d.asked = append(d.asked, fmt.Sprintf(format, args...))
}

func (d *desk) Pull(_ context.Context, target string, n int, lease, wait time.Duration) ([]admin.Pulled, error) {
	d.note("pull %s %d %v %v", target, n, lease, wait)
	if d.fails != nil {
		return nil, d.fails
	}
	return []admin.Pulled{{Lease: "L1", Delivery: "x.desk.0", Attempt: 1, Key: "shop:1", Method: "POST", Header: []event.Field{{Name: "A", Value: "b"}}, Body: []byte("exact\x00")}}, nil
}

func (d *desk) one(lease string) error {
	if strings.HasPrefix(lease, "lost") {
		return admin.ErrLeaseLost
	}
	return d.fails
}

func (d *desk) Ack(_ context.Context, target, lease string) error {
	d.note("ack %s %s", target, lease)
	return d.one(lease)
}

func (d *desk) Nack(_ context.Context, target, lease string, n admin.Nack) error {
	d.note("nack %s %s %+v", target, lease, n)
	return d.one(lease)
}

func (d *desk) Extend(_ context.Context, target, lease string, by time.Duration) (time.Time, error) {
	d.note("extend %s %s %v", target, lease, by)
	return time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC), d.one(lease)
}

func withDesk(d *desk) func(*admin.Config) {
	return func(c *admin.Config) {
		c.Puller = d
		c.PullTokens = map[string][32]byte{"desk": admin.HashToken("desk-token"), "till": admin.HashToken("till-token"), "open": admin.HashToken("")}
	}
}

func TestPullAPI(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string // in the answer
		asked              string
	}{
		{"GET", "", "", 200, `"body":"ZXhhY3QA"`, "pull desk 10 30s 20s"},
		{"GET", "?n=3&lease=5m&wait=0s", "", 200, `"lease":"L1"`, "pull desk 3 5m0s 0s"},
		{"GET", "?n=0", "", 400, "1 to 100", ""},
		{"GET", "?n=101", "", 400, "1 to 100", ""},
		{"GET", "?n=x", "", 400, "1 to 100", ""},
		{"GET", "?lease=2h", "", 400, "from 1s to 1h", ""},
		{"GET", "?wait=2m", "", 400, "from 0s to 50s", ""},
		{"GET", "?wait=-1s", "", 400, "from 0s to 50s", ""},
		{"GET", "?limit=3", "", 400, "limit", ""},
		{"POST", "/ack", `{"leases":["L1"]}`, 200, `{"done":["L1"],"lost":[]}`, "ack desk L1"},
		{"POST", "/ack", `{"leases":["L1","lost"]}`, 200, `{"done":["L1"],"lost":["lost"]}`, "ack desk L1 ack desk lost"},
		{"POST", "/ack", `{"leases":["lost"]}`, 409, admin.CodeLeaseLost, "ack desk lost"},
		{"POST", "/ack", `{"leases":[]}`, 400, "1 to 100", ""},
		{"POST", "/ack", `{}`, 400, "1 to 100", ""},
		{"POST", "/ack", `{"lease":["L1"]}`, 400, "", ""},
		{"POST", "/nack", `{"leases":["L1"],"delay":"10s","reason":"closed","dead":true}`, 200, `"done":["L1"]`, "nack desk L1 {Delay:10s Reason:closed Dead:true}"},
		{"POST", "/nack", `{"leases":["L1"],"delay":"soon"}`, 400, "delay", ""},
		{"POST", "/extend", `{"leases":["L1"],"lease":"1m"}`, 200, `"expires_at":"2026-03-01T12:00:30Z"`, "extend desk L1 1m0s"},
		{"POST", "/extend", `{"leases":["L1"],"lease":"100h"}`, 400, "from 1s to 1h", ""},
		{"POST", "", "", 405, admin.CodeMethod, ""},
		{"GET", "/ack", "", 405, admin.CodeMethod, ""},
	} {
		d := &desk{}
		b := setup(t, withDesk(d))
		resp, body := b.do(tt.method, "/api/v1/pull/desk"+tt.path, tt.body, as("desk-token"))
		if resp.StatusCode != tt.status || !strings.Contains(body, tt.want) || strings.Join(d.asked, " ") != tt.asked {
			t.Errorf("%s %s %s: %d %s after %q, want %d %s after %q", tt.method, tt.path, tt.body, resp.StatusCode, body, d.asked, tt.status, tt.want, tt.asked)
		}
	}
	for err, status := range map[error]int{admin.ErrStopping: 503, errors.New("x"): 500} {
		b := setup(t, withDesk(&desk{fails: err}))
		for _, req := range [][2]string{{"GET", ""}, {"POST", "/ack"}} {
			if resp, body := b.do(req[0], "/api/v1/pull/desk"+req[1], `{"leases":["L1"]}`, as("desk-token")); resp.StatusCode != status {
				t.Errorf("%v: %d %s, want %d", err, resp.StatusCode, body, status)
			}
		}
	}
}

// A pulled target has a token of its own, which opens nothing else, and no
// other token opens it; a name that is none is answered as a wrong token.
func TestPullTokens(t *testing.T) {
	t.Parallel()
	d := &desk{}
	b := setup(t, withRoles, withDesk(d))
	for _, path := range []string{"GET /api/v1/pull/%s", "POST /api/v1/pull/%s/ack", "POST /api/v1/pull/%s/nack", "POST /api/v1/pull/%s/extend"} {
		method, path, _ := strings.Cut(path, " ")
		for _, tt := range []struct {
			target, token string
			ok            bool
		}{
			{"desk", "desk-token", true}, {"till", "till-token", true},
			{"desk", "till-token", false}, {"desk", token, false}, {"desk", "operator-token", false}, {"desk", "", false}, {"desk", "desk-token2", false},
			{"open", "", false}, {"open", "desk-token", false}, {"none", "desk-token", false}, {"d%65sk", "desk-token", true}, {"desk%2Fack", "desk-token", false},
		} {
			b.clock.add(time.Hour) // the limit of wrong tokens is another test's
			resp, body := b.do(method, fmt.Sprintf(path, tt.target), `{"leases":["L1"]}`, as(tt.token))
			if got := resp.StatusCode; (got == http.StatusOK) != tt.ok || !tt.ok && got != http.StatusUnauthorized {
				t.Errorf("%s "+path+" with %q: %d %s, want allowed %v", method, tt.target, tt.token, got, body, tt.ok)
			}
		}
		if resp, _ := b.do(method, fmt.Sprintf(path, "desk"), "", func(r *http.Request) { r.Header.Del("Authorization") }); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", path, resp.StatusCode)
		}
	}
	for _, route := range []string{"GET /api/v1/events", "GET /api/v1/status", "POST /api/v1/replays", "GET /metrics"} {
		method, path, _ := strings.Cut(route, " ")
		b.clock.add(time.Hour)
		if resp, _ := b.do(method, path, "", as("desk-token"), func(r *http.Request) { r.Header.Set("X-Forwarded-For", "10.0.0.1") }); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s with a pulling token: %d", route, resp.StatusCode)
		}
	}
	b.admin.SetPullTokens(map[string][32]byte{"desk": admin.HashToken("next")})
	b.clock.add(time.Hour)
	if resp, _ := b.do("GET", "/api/v1/pull/desk", "", as("desk-token")); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a replaced token: %d", resp.StatusCode)
	}
	if resp, _ := b.do("GET", "/api/v1/pull/desk", "", as("next")); resp.StatusCode != http.StatusOK {
		t.Errorf("the new token: %d", resp.StatusCode)
	}
	for range 30 { // guessing is limited
		b.do("GET", "/api/v1/pull/desk", "", as("guess"))
	}
	if resp, _ := b.do("GET", "/api/v1/pull/desk", "", as("guess")); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("the 31st guess: %d", resp.StatusCode)
	}
	if resp, _ := setup(t).do("GET", "/api/v1/pull/desk", "", as("x")); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("where nothing is pulled: %d", resp.StatusCode)
	}
}
