package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/onceward/onceward/admin"
)

// TestPulledTarget: through the whole product, what a service fetches is the
// exact bytes, an ack is in the account, and a reload changes the token.
func TestPulledTarget(t *testing.T) {
	t.Parallel()
	toml := base(t.TempDir()) + "[[source]]\nname = \"shop\"\nprovider = \"none\"\noptions = { id = \"json:id\" }\ntargets = [\"desk\"]\n" +
		"[[target]]\nname = \"desk\"\npull = true\npull_token = \"${env:PLAIN}\"\n"
	r := run(t, toml, Options{})
	ingest, adminAddr := r.Addr()
	body := `{"id":"evt_1", "n":  1}`
	resp, err := r.client.Post("http://"+ingest+"/in/shop", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	ask := func(method, path, body string, into any) int {
		t.Helper()
		req, _ := http.NewRequestWithContext(t.Context(), method, "http://"+adminAddr+"/api/v1/pull/desk"+path, strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer 0123456789abcdef")
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || into != nil && json.Unmarshal(text, into) != nil {
			t.Fatalf("answer %d %s, %v", resp.StatusCode, text, err)
		}
		return resp.StatusCode
	}
	var got admin.Page[admin.Pulled]
	if code := ask("GET", "?wait=30s", "", &got); code != 200 || len(got.Items) != 1 {
		t.Fatalf("%d, %+v", code, got)
	}
	p := got.Items[0]
	if string(p.Body) != body || p.Key != "shop:evt_1" || p.EventID != "evt_1" || p.Attempt != 1 || p.Source != "shop" || p.Method != "POST" {
		t.Errorf("pulled %+v", p)
	}
	has := map[string]string{}
	for _, h := range p.Header {
		has[h.Name] = h.Value
	}
	if has["Idempotency-Key"] != "shop:evt_1" || has["Content-Type"] != "application/json" || has["Onceward-Event-Id"] != "evt_1" {
		t.Errorf("headers %v", has)
	}
	var res admin.PullResult
	if code := ask("POST", "/ack", fmt.Sprintf(`{"leases":[%q]}`, p.Lease), &res); code != 200 || len(res.Done) != 1 {
		t.Errorf("ack: %d %+v", code, res)
	}
	if code := ask("POST", "/ack", fmt.Sprintf(`{"leases":[%q]}`, p.Lease), nil); code != 409 {
		t.Errorf("a second ack: %d", code)
	}
	got = admin.Page[admin.Pulled]{}
	if code := ask("GET", "?wait=0s", "", &got); code != 200 || got.Items == nil || len(got.Items) != 0 {
		t.Errorf("when all is done: %d %+v", code, got)
	}
}

func TestPullFaults(t *testing.T) {
	t.Parallel()
	const head = "[[source]]\nname = \"a\"\nprovider = \"none\"\ntargets = [\"b\", \"c\"]\n[[target]]\nname = \"c\"\npull = true\npull_token = \"${env:PLAIN}\"\n[[target]]\nname = \"b\"\n"
	for _, tt := range []struct{ add, want string }{
		{"pull = true\npull_token = \"${env:A}\"\nordered_by = \"type\"\nrate = \"5/s\"\n", ""},
		{"pull = true\n", "11:8: target[1].pull: this target is pulled and has no pull_token"},
		{"pull = true\npull_token = \"${env:A}\"\nurl = \"http://127.0.0.1:9/\"\ntimeout = \"3s\"\n", "13:7: target[1].url: url means nothing on a target that is pulled"},
		{"pull = true\npull_token = \"short\"\n", "12:14: target[1].pull_token: the pull_token is shorter than 16 bytes"},
		{"pull = true\npull_token = \"\"\n", "12:14: target[1].pull_token: the secret is empty"},
		{"pull = true\npull_token = \"${env:PLAIN}\"\n", "12:14: target[1].pull_token: target \"c\" has the same pull_token"},
		{"url = \"http://127.0.0.1:9/\"\npull_token = \"${env:A}\"\n", "12:14: target[1].pull_token: pull_token means nothing without pull = true"},
		{"pull = false\n", "target[1]: this target has no url"},
	} {
		_, fs := Parse("c.toml", []byte(head+tt.add), testEnv)
		got := lines(fs)
		if tt.want == "" && fs.Failed() || !strings.Contains(got, tt.want) {
			t.Errorf("%q: got\n%s, want %q", tt.add, got, tt.want)
		}
		if strings.Contains(got, secretA) || strings.Contains(got, "0123456789abcdef") {
			t.Errorf("%q: the faults hold a token: %s", tt.add, got)
		}
	}
}

// A printed configuration shows no pulling token.
func TestPullTokenIsNotPrinted(t *testing.T) {
	t.Parallel()
	cfg := parsed(t, "[[source]]\nname = \"a\"\nprovider = \"none\"\ntargets = [\"b\"]\n[[target]]\nname = \"b\"\npull = true\npull_token = \"${env:PLAIN}\"\n")
	var out strings.Builder
	if err := cfg.Print(&out); err != nil || strings.Contains(out.String(), "0123456789abcdef") || !strings.Contains(out.String(), "[redacted:pull_token]") {
		t.Errorf("printed %s, %v", out.String(), err)
	}
}
