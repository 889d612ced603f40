package gateway

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/event"
)

// routed is a source without verification whose routes follow.
const routed = "[[source]]\nname = \"a\"\nprovider = \"none\"\ntargets = []\n[[target]]\nname = \"app\"\nurl = \"http://127.0.0.1:9000/\"\n[retention]\nbody = \"60d\"\n[[source.route]]\ntarget = \"app\"\n"

// Faults of a condition are named by their own line and column, however the
// string is written.
func TestWhereFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, toml, want string }{
		{"literal", `where = 'type == "a" && tpye == "b"'`, `12:25: source[0].route[0].where: the condition is wrong: undeclared reference to 'tpye'`},
		{"basic, with escapes", `where = "type == \"\u00e9\" && tpye == \"b\""`, `12:32: source[0].route[0].where: the condition is wrong: undeclared reference to 'tpye'`},
		{"literal of several lines", "where = '''\ntype == \"a\" &&\n  tpye == \"b\"'''", `14:3: source[0].route[0].where: the condition is wrong: undeclared reference to 'tpye'`},
		{"basic of several lines", "where = \"\"\"type == \"a\" && \\\n   tpye == \"b\" \"\"\"", `13:4: source[0].route[0].where: the condition is wrong: undeclared reference to 'tpye'`},
		{"from the environment", `where = "${env:WHERE}"`, `12:9: source[0].route[0].where: the condition is wrong at 1:1: undeclared reference to 'tpye'`},
		{"two faults", `where = 'tpye == "b" || scource == "a"'`, `12:10: source[0].route[0].where: the condition is wrong: undeclared reference to 'tpye'`},
		{"not a condition", `where = 'type'`, `12:10: source[0].route[0].where: the condition is wrong: is a string; a condition is true or false`},
		{"empty", `where = " "`, `12:9: source[0].route[0].where: the condition is empty`},
		{"rounded", `where = 'body.n == 9007199254740993.0'`, `12:20: source[0].route[0].where: the condition is wrong: a number with a point or an exponent is rounded from 2^53 on`},
		{"wrong type", `where = true`, `12:9: source[0].route[0].where: is true or false; want a string`},
		{"unset", `where = "${env:NOPE}"`, `12:9: source[0].route[0].where: ${env:NOPE} is not set`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, fs := Parse("c.toml", []byte(routed+tt.toml+"\n"), envOf("WHERE", `tpye == "b"`))
			if got := lines(fs); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
	_, fs := Parse("c.toml", []byte(strings.Replace(routed, "targets = []", "body_limit = \"2MiB\"", 1)+"where = 'body.a == 1'\n"), envOf())
	if got := lines(fs); !strings.Contains(got, "12:9: warning: source[0].route[0].where: a body over 1MiB matches no condition") {
		t.Errorf("got\n%s", got)
	}
}

// Events go where conditions say, what none took is kept with the reason, and
// a reroute asks them again over the stored bytes.
func TestWhere(t *testing.T) {
	t.Parallel()
	big, bigHits := listener(t, ok)
	small, smallHits := listener(t, ok)
	toml := base(t.TempDir()) + `
[[source]]
name = "a"
provider = "none"
options = { id = "json:id" }
[[source.route]]
target = "big"
where = 'body.amount >= 9007199254740993'
[[source.route]]
target = "small"
where = 'body.amount < 9007199254740993'
[[target]]
name = "big"
url = "` + big + `"
[[target]]
name = "small"
url = "` + small + `"
`
	r := run(t, toml, Options{})
	sendBody := func(body string) {
		t.Helper()
		ingest, _ := r.Addr()
		resp, err := r.client.Post("http://"+ingest+"/in/a", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatalf("answered %s", resp.Status)
		}
	}
	sendBody(`{"id":"1","amount":9007199254740993}`)
	sendBody(`{"id":"2","amount":9007199254740992}`)
	sendBody(`{"id":"3"}`)
	if h := next(t, bigHits); !strings.Contains(h.body, `"1"`) {
		t.Errorf("big got %q", h.body)
	}
	if h := next(t, smallHits); !strings.Contains(h.body, `"2"`) {
		t.Errorf("small got %q", h.body)
	}
	account, err := audit.New(audit.Config{Reader: r.ledger, Keeper: r.ledger})
	if err != nil {
		t.Fatal(err)
	}
	q, err := audit.Args{Status: "unrouted"}.Query(audit.KindEvents, r.opts.Now())
	if err != nil {
		t.Fatal(err)
	}
	page, err := account.Events(t.Context(), q)
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("unrouted: %+v, %v; want one", page, err)
	}
	if got := page.Items[0]; got.Unrouted != event.UnroutedFilterError || got.BodyBytes != 10 {
		t.Errorf("reason %q of %d bytes, want filter_error", got.Unrouted, got.BodyBytes)
	}
	for _, e := range allEvents(t, account, r) {
		var want []string
		switch e.BodyBytes {
		case 36:
			want = e.Targets
		}
		rec, err := r.ledger.Get(t.Context(), e.Ref)
		if err != nil {
			t.Fatal(err)
		}
		got := r.route(&rec.Event, func() ([]byte, error) { return r.ledger.Body(t.Context(), e.Ref) })
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("today's targets of %s are %v, want %v", e.Ref, got, want)
		}
	}
}

func allEvents(t *testing.T, account *audit.Account, r *running) []audit.Event {
	t.Helper()
	q, err := audit.Args{Source: "a"}.Query(audit.KindEvents, r.opts.Now())
	if err != nil {
		t.Fatal(err)
	}
	page, err := account.Events(t.Context(), q)
	if err != nil || len(page.Items) != 3 {
		t.Fatalf("events: %+v, %v; want three", page, err)
	}
	return page.Items
}
