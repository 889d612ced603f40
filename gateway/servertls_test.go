package gateway

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// ages counts calls of age.
var ages atomic.Int64

// age gives a file a time of its own: clocks of file systems may stand still
// between two writes.
func age(t *testing.T, name string) {
	t.Helper()
	at := time.Unix(1_700_000_000+ages.Add(1), 0)
	if err := os.Chtimes(name, at, at); err != nil {
		t.Fatal(err)
	}
}

// TestListenerTLS serves over TLS, follows its certificate files without a
// reload, and keeps the certificate while the files don't fit each other.
func TestListenerTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	put := func() (cert, key string) {
		t.Helper()
		cert, key = selfSigned(t, 30*24*time.Hour)
		replace(t, certFile, cert)
		replace(t, keyFile, key)
		age(t, certFile)
		return cert, key
	}
	put()
	toml := base(t.TempDir()) + source("stripe", "stripe", "${env:A}") + target("http://127.0.0.1:9/") + fmt.Sprintf("[tls]\ncert = %q\nkey = %q\n", certFile, keyFile)
	path := filepath.Join(dir, "config.toml")
	replace(t, path, toml)
	cfg, fs := Load(path, testEnv)
	if fs.Failed() {
		t.Fatal(fs)
	}
	r := runConfig(t, cfg, Options{ConfigPath: path})
	ingest, _ := r.Addr()
	leaf := func() string {
		t.Helper()
		c, err := tls.Dial("tcp", ingest, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	pinned, err := cfg.ClientTLS()
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: pinned, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(cfg.ReceiverURL(ingest) + "/readyz")
	if err != nil || resp.StatusCode != 200 || resp.ProtoMajor != 2 {
		t.Fatalf("%v, %v; want 200 over HTTP/2", resp, err)
	}
	resp.Body.Close()
	client.CloseIdleConnections()
	families, err := r.opts.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	ends := 0.0
	for _, f := range families {
		if f.GetName() == "onceward_tls_certificate_not_after_timestamp_seconds" {
			ends = f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	if want := float64(r.cert.notAfter().Unix()); ends != want {
		t.Errorf("the certificate ends at %v by the metric, want %v", ends, want)
	}
	first := leaf()
	put()
	if faults, err := r.Reload(t.Context()); err != nil { // looks at once
		t.Fatal(err, faults)
	}
	second := leaf()
	if second == first {
		t.Error("a reload kept the old certificate")
	}
	if resp, err := client.Get(cfg.ReceiverURL(ingest) + "/readyz"); err == nil {
		resp.Body.Close()
		t.Error("a client that trusts the old certificate took the new one")
	}
	_, other := selfSigned(t, time.Hour)
	replace(t, keyFile, other)
	if faults, err := r.Reload(t.Context()); err == nil || !strings.Contains(faults.Error(), "private key does not match") {
		t.Errorf("a key that doesn't fit: %v, %v", err, faults)
	}
	if got := leaf(); got != second {
		t.Errorf("certificate %s, want %s: the one that works", got, second)
	}
}

// The files are looked at every few seconds, by handshakes alone.
func TestCertKeeper(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	now := time.Now()
	put := func(cert, key string) {
		t.Helper()
		replace(t, certFile, cert)
		replace(t, keyFile, key)
		age(t, certFile)
	}
	put(selfSigned(t, time.Hour))
	k, err := newCertKeeper(certFile, keyFile, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	serial := func() string {
		t.Helper()
		c, err := k.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf.SerialNumber.String()
	}
	first := serial()
	put(selfSigned(t, time.Hour))
	if serial() != first {
		t.Error("the files were read again at once")
	}
	now = now.Add(certRecheck)
	second := serial()
	if second == first {
		t.Error("changed files were not read again")
	}
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	now = now.Add(certRecheck)
	if serial() != second {
		t.Error("without a key the certificate is another")
	}
	put(selfSigned(t, time.Hour))
	now = now.Add(-time.Hour) // a clock that is set back
	if serial() == second {
		t.Error("the files are not looked at any more")
	}
	if _, err := newCertKeeper(certFile, filepath.Join(dir, "none"), time.Now, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a missing key was taken")
	}
}

func TestListenerTLSConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := selfSigned(t, 30*24*time.Hour)
	replace(t, filepath.Join(dir, "cert.pem"), cert)
	replace(t, filepath.Join(dir, "key.pem"), key)
	for _, tt := range []struct{ toml, want string }{
		{"[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\nmin_version = \"1.3\"\n", ""},
		{"[tls]\n", "1:2: tls: cert and key go together; name both files, or leave the table out"},
		{"[tls]\ncert = \"cert.pem\"\n", "1:2: tls: cert and key go together;"},
		{"[tls]\ncert = \"cert.pem\"\nkey = \"none.pem\"\n", "3:7: tls.key: the file can't be read: no such file or directory;"},
		{"[tls]\ncert = \"cert.pem\"\nkey = \"cert.pem\"\n", "2:8: tls.cert: certificate and key are not usable:"},
		{"[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\nmin_version = \"1.0\"\n", "4:15: tls.min_version: unknown min_version"},
	} {
		path := filepath.Join(dir, "c.toml")
		cfg, fs := parse(path, dir, []byte(tt.toml), envOf())
		got := strings.ReplaceAll(lines(fs), path+":", "")
		if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%q: got %q, want %q", tt.toml, got, tt.want)
		}
		if tt.want == "" && (cfg.Listen != DefaultSecureListen || cfg.ReceiverURL("h") != "https://h") {
			t.Errorf("listens on %s, called %s", cfg.Listen, cfg.ReceiverURL("h"))
		}
	}
}
