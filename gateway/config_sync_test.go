package gateway

import (
	"strings"
	"testing"
	"time"
)

func TestSyncFaults(t *testing.T) {
	t.Parallel()
	const head = `[[source]]
name = "pay"
provider = "idempotency-key"
auth = "none"
mode = "sync"
targets = ["bank"]
`
	const tail = `
[[target]]
name = "bank"
url = "http://127.0.0.1:9000/"
[retention]
body = "60d"
`
	for _, tt := range []struct{ name, toml, want string }{
		{"without faults", head + tail, ""},
		{"all of it", head + `window = "48h"
require_key = true
wait = "10s"
methods = ["POST", "PUT"]
release_on = [425, 429]
max_response = "2MiB"
max_spool = "64MiB"
retry_window = "48h"
pass_headers = ["X-Tenant"]
answer_headers = ["X-Charge-Id"]
` + strings.Replace(tail, "9000/\"", "9000/\"\nidempotent = true", 1), ""},
		{"unknown mode", strings.Replace(head, `"sync"`, `"synchronous"`, 1) + tail, `
5:8: source[0].mode: unknown mode "synchronous"; want one of events, sync`},
		{"keys of the other mode, both ways", head + `on_conflict = "ack"
no_id = "deliver"
batch = "keep"
max_elements = 3
retention = { body = "1d" }
allow_short_window = true
[[source]]
name = "hook"
provider = "none"
targets = ["bank"]
require_key = true
wait = "1s"
max_response = "1MiB"
` + tail, `
7:15: source[0].on_conflict: on_conflict means nothing on a synchronous source; remove it
8:9: source[0].no_id: no_id means nothing on a synchronous source; remove it
9:9: source[0].batch: batch means nothing on a synchronous source; remove it
10:16: source[0].max_elements: max_elements means nothing on a synchronous source; remove it
11:13: source[0].retention: retention means nothing on a synchronous source; remove it
12:22: source[0].allow_short_window: allow_short_window means nothing on a synchronous source; remove it
17:15: source[1].require_key: require_key means nothing without mode = "sync"; remove it, or write mode = "sync"
18:8: source[1].wait: wait means nothing without mode = "sync"; remove it, or write mode = "sync"
19:16: source[1].max_response: max_response means nothing without mode = "sync"; remove it, or write mode = "sync"`},
		{"targets", strings.Replace(head, `["bank"]`, `["bank", "bank2"]`, 1) + tail + "[[target]]\nname = \"bank2\"\nurl = \"http://127.0.0.1:9001/\"\n", `
6:1: source[0].targets: a synchronous source has 2 targets; its answer is one target's: name one`},
		{"bounds", head + `window = "10m"
wait = "6m"
methods = []
max_response = "1KiB"
max_spool = "1GiB"
key = "{source}:{ref}"
` + tail, `
7:10: source[0].window: a window of 10m is out of bounds; want 1h to 400d
8:8: source[0].wait: wait = "6m" is out of bounds; want 0s to 5m
9:1: source[0].methods: no method takes part; then nothing is deduplicated; leave it out for POST and PATCH
10:16: source[0].max_response: max_response of 1KiB is out of bounds; want 64KiB to 8MiB; max_spool bounds larger answers
11:13: source[0].max_spool: max_spool of 1GiB is out of bounds; want max_response to 256MiB
12:7: source[0].key: the key template names {ref}, which a synchronous source doesn't have; use {source}, {caller}, {id} and {hash}`},
		{"lists", head + `methods = ["POST", "GET", "post"]
release_on = [200, 503, 408]
pass_headers = ["X_Tenant", "Authorization", "Idempotency-Key"]
answer_headers = ["Set-Cookie", "Onceward-Key-Expires"]
` + tail, `
7:20: source[0].methods[1]: method "GET" can't take part; want POST, PATCH, PUT or DELETE
7:27: source[0].methods[2]: method "post" can't take part; want POST, PATCH, PUT or DELETE
8:15: source[0].release_on[0]: 200 doesn't say that nothing was executed; want 400 to 599
8:20: warning: source[0].release_on[1]: 503 can follow an execution; the operation would then be executed again; leave it out, or write idempotent = true at a target that executes a key once
8:25: warning: source[0].release_on[2]: 408 can follow an execution; the operation would then be executed again; leave it out, or write idempotent = true at a target that executes a key once
9:17: source[0].pass_headers[0]: is not a header name; want letters, digits and -
9:29: source[0].pass_headers[1]: header "Authorization" never passes; remove it
9:46: source[0].pass_headers[2]: header "Idempotency-Key" never passes; remove it
10:19: source[0].answer_headers[0]: header "Set-Cookie" never passes; remove it
10:33: source[0].answer_headers[1]: header "Onceward-Key-Expires" never passes; remove it`},
		{"a window below what callers resend", head + `window = "24h"
retry_window = "3d"
` + tail, `
7:10: warning: source[0].window: keys are remembered for 24h, and callers send again for 3d; a later repeat would be executed again; lengthen the window`},
		{"a window below what the provider resends", strings.Replace(strings.Replace(head, `"idempotency-key"`, `"stripe"`, 1), `auth = "none"`, `secrets = ["${env:A}"]`, 1) + tail, `
2:8: warning: source[0].name: keys are remembered for 24h, and callers send again for 30d; a later repeat would be executed again; lengthen the window`},
		{"idempotent without a route", strings.Replace(stripe, "9000/\"", "9000/\"\nidempotent = true", 1), `
9:14: warning: target[0].idempotent: no synchronous source sends to target "billing"; idempotent is for mode = "sync"; remove it`},
		{"authentication has to be written", strings.Replace(head, "auth = \"none\"\n", "", 1) + tail, `
3:12: source[0].provider: auth: provider idempotency-key has no default, want hmac, bearer, basic, none; "onceward providers show idempotency-key" says what it takes`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, fs := Parse("c.toml", []byte(tt.toml), envOf("SECRET", secretA, "A", secretA))
			if got, want := lines(fs), strings.TrimPrefix(tt.want, "\n"); strings.TrimSuffix(got, "\n") != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestSyncDefaults(t *testing.T) {
	t.Parallel()
	cfg := parsed(t, base(t.TempDir())+syncSource("http://127.0.0.1:9000/", "", "idempotent = true"))
	s, _ := cfg.Source("pay")
	got := s.sync(cfg)
	if time.Duration(s.Window) != 24*time.Hour || got.Target != "bank" || got.Wait != 0 || !got.Idempotent || got.RequireKey ||
		got.MaxResponse != 1<<20 || got.MaxSpool != 32<<20 {
		t.Errorf("window %s, %+v", s.Window, got)
	}
	var out strings.Builder
	if err := cfg.Print(&out); err != nil || !strings.Contains(out.String(), "mode = 'sync'") || strings.Contains(out.String(), "shop-secret") {
		t.Errorf("printed, %v:\n%s", err, &out)
	}
}
