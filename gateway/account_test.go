package gateway

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
)

// apiClient is a client with the gateway's own token.
func (r *running) apiClient(t *testing.T) *admin.Client {
	t.Helper()
	token, err := admin.ReadToken(r.cfg.TokenFile())
	if err != nil {
		t.Fatal(err)
	}
	_, addr := r.Addr()
	c, err := admin.NewClient(admin.ClientConfig{Addr: addr, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// keysOf are the public keys of a gateway's account.
func keysOf(t *testing.T, cfg *Config) audit.Keys {
	t.Helper()
	public, err := AuditKey(cfg)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := audit.ParseKeys(public)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestAccount runs the product and finds in its account what happened, over
// the API, and after its end in the ledger's directory.
func TestAccount(t *testing.T) {
	t.Parallel()
	url, hits := listener(t, ok)
	dir := t.TempDir()
	witness := filepath.Join(t.TempDir(), "witness")
	toml := base(dir) + fmt.Sprintf("[audit]\nwitness = %q\n", witness) + source("stripe", "stripe", "${env:A}") + target(url)
	r := run(t, toml, Options{ConfigData: []byte(toml), Version: "v9"})
	r.send(t, r.signed(t, "stripe", "evt_1", "thing.happened"))
	next(t, hits)
	forged := r.signed(t, "stripe", "evt_2", "thing.happened")
	forged.Header.Set("Stripe-Signature", "t=1,v1=00")
	r.send(t, forged)
	ingest, _ := r.Addr()
	if resp, err := r.client.Get("http://" + ingest + "/in/nobody"); err == nil {
		resp.Body.Close()
	}
	c := r.apiClient(t)
	if _, err := c.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys := keysOf(t, r.cfg)
	if info, err := os.Stat(filepath.Join(dir, "audit.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info.Mode(), err)
	}
	receipt, err := c.Proof(t.Context(), "evt_1", "")
	if err != nil || receipt.Event.Secret != "1" || receipt.Event.Verification != "verified" {
		t.Errorf("receipt %+v, %v", receipt.Event, err)
	}
	var live bytes.Buffer
	if err := c.ExportAudit(t.Context(), &live); err != nil {
		t.Fatal(err)
	}
	if rep, err := audit.Verify(&live, audit.VerifyConfig{Keys: keys}); err != nil || len(rep.Faults) > 0 {
		t.Errorf("while it runs: %+v, %v", rep, err)
	}
	if err := r.stop(t); err != nil {
		t.Fatal(err)
	}
	account, closing, err := OpenAccount(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer closing()
	var kinds []string
	page, err := account.List(t.Context(), audit.ActQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range page.Items {
		if a.Kind != "attempted" {
			kinds = append(kinds, strings.TrimSpace(a.Kind+" "+a.Source+" "+a.Outcome+" "+a.Actor))
		}
	}
	want := "configured  stopped (gateway)|refused stripe timestamp_old|refused _unknown unknown_source|configured  loaded (signal)|operated  reload admin|configured  loaded (api)|delivered  2xx|accepted stripe|configured  started (gateway)"
	got := strings.Join(kinds, "|")
	for _, part := range strings.Split(want, "|") {
		if part = strings.TrimSuffix(part, " "); !strings.Contains(got, strings.SplitN(part, " timestamp", 2)[0]) {
			t.Errorf("%q is not among %q", part, got)
		}
	}
	var stopped bytes.Buffer
	if err := account.Export(t.Context(), &stopped); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(witness)
	if err != nil {
		t.Fatal(err)
	}
	notes, _ := audit.SplitNotes(string(text))
	rep, err := audit.Verify(&stopped, audit.VerifyConfig{Keys: keys, Witnessed: notes})
	if err != nil || len(rep.Faults) > 0 || rep.Witnessed != len(notes) || rep.Logs[0].Unsigned != 0 {
		t.Errorf("after its end: %+v, %v", rep, err)
	}
}

// TestAccountKey: the key of the file is used again, one of the config in its
// place, and a broken one stops the start.
func TestAccountKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := parsed(t, base(dir))
	log := slog.New(slog.DiscardHandler)
	if _, err := AuditKey(cfg); err == nil {
		t.Error("there is a key before the first start")
	}
	first, err := (&Gateway{start: cfg, log: log}).auditKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := (&Gateway{start: cfg, log: log}).auditKey(t.Context()); err != nil || again.Public() != first.Public() {
		t.Errorf("the second start has another key: %v", err)
	}
	if public, err := AuditKey(cfg); err != nil || public != first.Public() {
		t.Errorf("public key %q, %v", public, err)
	}
	_, private, err := audit.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	given, fs := Parse("c.toml", []byte(base(dir)+"[audit]\nkey = \"${env:K}\"\n"), envOf("K", private))
	if fs.Failed() {
		t.Fatal(fs)
	}
	if k, err := (&Gateway{start: given, log: log}).auditKey(t.Context()); err != nil || k.Public() == first.Public() {
		t.Errorf("the config's key is not used: %v", err)
	}
	var printed strings.Builder
	if err := given.Print(&printed); err != nil || strings.Contains(printed.String(), private[30:]) || !strings.Contains(printed.String(), "[redacted:audit]") {
		t.Errorf("the key is printed: %v\n%s", err, printed.String())
	}
	if err := os.WriteFile(filepath.Join(dir, "audit.key"), []byte("PRIVATE+KEY+CANARY"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Gateway{start: cfg, log: log}).auditKey(t.Context()); err == nil || strings.Contains(err.Error(), "CANARY") {
		t.Errorf("a broken key file: %v", err)
	}
}

func TestAccountFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ toml, want string }{
		{"[audit]\nkey = \"nonsense\"\n", `2:7: audit.key: is no audit key; want a private key as a gateway makes it, "PRIVATE+KEY+onceward-audit+…"`},
		{"[audit]\nkey = \"${env:GONE}\"\n", `2:7: audit.key: ${env:GONE} is not set; set GONE in the environment`},
		{"[audit]\nwitness = \"\"\n", `2:11: audit.witness: the witness is empty; name a file or a URL, or leave it out`},
		{"[audit]\nwitness = \"ftp://x/y\"\n", `2:11: audit.witness: the witness is no URL that can be posted to; want http:// or https:// and a host, or the path of a file`},
		{"[audit]\nwitnes = \"x\"\n", `2:1: audit.witnes: unknown key "witnes"; did you mean "witness"?`},
	} {
		_, fs := Parse("c.toml", []byte(tt.toml), envOf())
		if got := lines(fs); !strings.Contains(got, tt.want) {
			t.Errorf("%q:\n got %s\nwant %s", tt.toml, got, tt.want)
		}
	}
	cfg, fs := Parse("c.toml", []byte("[audit]\nwitness = \"https://u:CANARY@host/CANARY?k=CANARY\"\n"), envOf())
	var printed strings.Builder
	if err := cfg.Print(&printed); err != nil || fs.Failed() || strings.Contains(printed.String(), "CANARY") || !strings.Contains(printed.String(), "https://host") {
		t.Errorf("witness is printed as %v %v\n%s", err, fs, printed.String())
	}
}

// TestWitnessOverHTTP: every checkpoint is posted as it is; a witness that is
// down costs nothing but the log line, and gets the next one.
func TestWitnessOverHTTP(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	got := make(chan string, 64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var b bytes.Buffer
		_, _ = b.ReadFrom(req.Body)
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		got <- b.String()
	}))
	defer srv.Close()
	dir := t.TempDir()
	r := run(t, base(dir)+fmt.Sprintf("[audit]\nwitness = %q\n", srv.URL+"/CANARY"), Options{})
	keys := keysOf(t, r.cfg)
	see := func() audit.Checkpoint {
		t.Helper()
		select {
		case n := <-got:
			c, err := keys.Open(n)
			if err != nil {
				t.Fatalf("witnessed %q: %v", n, err)
			}
			return c
		case <-time.After(20 * time.Second):
			t.Fatal("nothing was witnessed for 20 s")
			return audit.Checkpoint{}
		}
	}
	record := func() audit.Checkpoint {
		t.Helper()
		if err := r.writer.Record(t.Context(), &dedupe.Act{Kind: dedupe.ActOperated}); err != nil {
			t.Fatal(err)
		}
		c, err := r.account.Checkpoint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := record()
	for see().Size != c.Size {
	}
	down.Store(true)
	missed := record()
	down.Store(false)
	if c = record(); see().Size != c.Size || missed.Size >= c.Size {
		t.Errorf("after a failure %d was not witnessed", c.Size)
	}
	err := audit.URLWitness{URL: "http://127.0.0.1:1/CANARY"}.See(context.Background(), c)
	if err == nil || strings.Contains(err.Error(), "CANARY") {
		t.Errorf("a witness that is not there: %v", err)
	}
}
