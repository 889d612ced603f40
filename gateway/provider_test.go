package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/onceward/onceward/verify"
)

// acme is a provider of one's own, and a source that uses it.
const acme = `[[provider]]
name = "acme"
id = ["json:id"]
type = ["json:type"]
retries = "1d"
body_limit = "2MiB"
[[provider.modes]]
name = "signature"
hmac = { sig = "header:Acme-Signature", signed = "{timestamp}.{body}", timestamp = "header:Acme-Time", tolerance = "5m" }
`

// TestProviderRow decodes a provider in every type that a row has, and prints
// it so that it can be read again.
func TestProviderRow(t *testing.T) {
	t.Parallel()
	cfg := parsed(t, acme+source("acme", "acme", "${env:A}")+target("http://127.0.0.1:9/"))
	row, ok := cfg.Provider("acme")
	if !ok {
		t.Fatal("no provider")
	}
	want := verify.Row{
		Name: "acme", ID: []string{"json:id"}, Type: []string{"json:type"}, Retries: verify.Duration(day), BodyLimit: 2 << 20,
		Modes: []verify.Mode{{Name: "signature", HMAC: &verify.HMAC{Scheme: verify.Scheme{
			Sig: "header:Acme-Signature", Signed: "{timestamp}.{body}", Timestamp: "header:Acme-Time", Tolerance: verify.Duration(5 * time.Minute),
		}}}},
	}
	if !reflect.DeepEqual(row, want) {
		t.Errorf("got\n%+v, want\n%+v", row, want)
	}
	src, _ := cfg.Source("acme")
	if src.BodyLimit != 2<<20 || src.Window != Duration(verify.DefaultWindow) {
		t.Errorf("the source has limit %v and window %v", src.BodyLimit, src.Window)
	}
	long := parsed(t, strings.Replace(acme, `"1d"`, `"10d"`, 1)+source("acme", "acme", "${env:A}")+target("http://127.0.0.1:9/"))
	if src, _ := long.Source("acme"); src.Window != Duration(11*day) {
		t.Errorf("resends of 10d are remembered %v", src.Window)
	}
	var out bytes.Buffer
	if err := cfg.Print(&out); err != nil {
		t.Fatal(err)
	}
	again, fs := Parse("c.toml", []byte(strings.ReplaceAll(out.String(), "[redacted:1]", secretA)), testEnv)
	if fs.Failed() {
		t.Fatalf("%v in\n%s", fs, out.String())
	}
	if got, _ := again.Provider("acme"); !reflect.DeepEqual(got, want) {
		t.Errorf("printed and read again\n%+v, want\n%+v", got, want)
	}
}

// TestBuiltInRowsAsProviders reads every built-in row as a provider of the
// file: the decoder knows every field that rows use, and a built-in row is a
// start for one's own.
func TestBuiltInRowsAsProviders(t *testing.T) {
	t.Parallel()
	type file struct {
		Providers []verify.Row `toml:"provider"`
	}
	rows := verify.Providers()
	for i := range rows {
		rows[i].Name = "my-" + strings.TrimPrefix(rows[i].Name, "my-")
	}
	text, err := toml.Marshal(file{rows})
	if err != nil {
		t.Fatal(err)
	}
	cfg, fs := Parse("c.toml", text, testEnv)
	if fs.Failed() {
		t.Fatalf("%v", fs)
	}
	if len(cfg.Providers) != len(rows) {
		t.Fatalf("got %d rows, want %d", len(cfg.Providers), len(rows))
	}
	for i, got := range cfg.Providers {
		if a, b := asJSON(t, got), asJSON(t, rows[i]); a != b {
			t.Errorf("%s: became\n%s\nfrom\n%s", got.Name, a, b)
		}
	}
}

// asJSON is a row with absent and empty lists alike.
func asJSON(t *testing.T, row verify.Row) string {
	t.Helper()
	b, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("[]", "null", "{}", "null").Replace(string(b))
}

// TestProviderTraffic sends an event of a provider that a reload brought.
func TestProviderTraffic(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.toml")
	url, hits := listener(t, ok)
	head := base(t.TempDir())
	before := head + source("stripe", "stripe", "${env:A}") + target(url)
	replace(t, path, before)
	r := run(t, before, Options{ConfigPath: path})
	after := head + acme + source("stripe", "stripe", "${env:A}") + source("acme", "acme", "${env:B}") + target(url)
	replace(t, path, after)
	if faults, err := r.Reload(t.Context()); err != nil || len(faults) > 0 {
		t.Fatalf("%v, %v", err, faults)
	}
	r.cfg = parsed(t, after)
	if resp, body := r.send(t, r.signed(t, "acme", "e1", "made")); resp.StatusCode != http.StatusOK {
		t.Fatalf("answered %s %s", resp.Status, body)
	}
	if h := next(t, hits); h.key != "acme:e1" {
		t.Errorf("target got %+v", h)
	}
	replace(t, path, strings.Replace(after, "{timestamp}.{body}", "{timestamp", 1))
	if faults, err := r.Reload(t.Context()); err == nil || !strings.Contains(faults.Error(), "provider[0].modes[0].hmac.signed") {
		t.Errorf("a faulty provider was taken: %v, %v", err, faults)
	}
	if resp, body := r.send(t, r.signed(t, "acme", "e2", "made")); resp.StatusCode != http.StatusOK {
		t.Errorf("after a refused reload: answered %s %s", resp.Status, body)
	}
}

// TestGetForwarded takes an event that is a GET with everything in its query,
// and forwards it as one, with the query byte for byte.
func TestGetForwarded(t *testing.T) {
	t.Parallel()
	const caller = `[[provider]]
name = "caller"
methods = ["GET"]
id = ["query:id"]
[[provider.modes]]
name = "token"
token = { in = "query:token" }
`
	seen := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		seen <- req.Method + " " + req.URL.RawQuery
	}))
	t.Cleanup(srv.Close)
	r := run(t, base(t.TempDir())+caller+source("caller", "caller", "${env:PLAIN}")+target(srv.URL), Options{})
	const query = "b=%41%2b+c&id=7&token=0123456789abcdef&b=&a"
	ingest, _ := r.Addr()
	resp, err := r.client.Get("http://" + ingest + "/in/caller?" + query)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("answered %s", resp.Status)
	}
	select {
	case got := <-seen:
		if got != "GET "+query {
			t.Errorf("forwarded %s, want GET %s", got, query)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was forwarded")
	}
	if resp, err = r.client.Post("http://"+ingest+"/in/caller?"+query, "text/plain", nil); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a POST is answered %s", resp.Status)
	}
}
