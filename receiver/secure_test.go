package receiver

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/onceward/onceward/verify"
)

// loopbackCert is a certificate for 127.0.0.1 and who trusts it.
func loopbackCert(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// secureFixture is a receiver that speaks TLS.
func secureFixture(t *testing.T, change func(*Config)) (*fixture, *x509.CertPool) {
	t.Helper()
	cert, pool := loopbackCert(t)
	f := setup(t, []*Source{source(t, "none"), source(t, "square")}, func(c *Config) {
		c.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
		if change != nil {
			change(c)
		}
	})
	return f, pool
}

func clientOf(t *testing.T, pool *x509.CertPool, h2 bool) *http.Client {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: h2}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

// Events come in over TLS in both versions of HTTP, and a provider that signs
// the URL finds that it is https.
func TestServeTLS(t *testing.T) {
	t.Parallel()
	f, pool := secureFixture(t, nil)
	src := source(t, "square")
	for i, h2 := range []bool{false, true} {
		url := "https://" + f.addr + "/in/square"
		signed, err := src.Verifier.Sign(verify.SignRequest{Now: f.clock(), ID: "evt", Body: []byte(`{"event_id":"e` + string(rune('0'+i)) + `","type":"x"}`), URL: url})
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequest(signed.Method, url, strings.NewReader(string(signed.Body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = signed.Header
		resp, err := clientOf(t, pool, h2).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 || (resp.ProtoMajor == 2) != h2 {
			t.Errorf("HTTP/2 %v: %s %s %s", h2, resp.Proto, resp.Status, b)
		}
	}
	if n := f.events(t); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

// Over TLS, too, no header block passes that two readers may take for two
// requests.
func TestFramingOverTLS(t *testing.T) {
	t.Parallel()
	f, pool := secureFixture(t, nil)
	for _, tt := range framingCases {
		if tt.ok || strings.HasPrefix(tt.text, "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab") {
			continue
		}
		c, err := tls.Dial("tcp", f.addr, &tls.Config{RootCAs: pool, NextProtos: []string{"http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.WriteString(c, strings.Replace(tt.text, "POST / ", "POST /in/none ", 1)); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %v, %v; want 400", tt.name, resp, err)
		}
		c.Close()
	}
	if n := f.events(t); n != 0 {
		t.Errorf("%d events, want none", n)
	}
}

// What is below TLS 1.2, in the clear, or no handshake at all costs nothing but
// its slot, and that for no longer than a header may take.
func TestNoHandshake(t *testing.T) {
	t.Parallel()
	f, pool := secureFixture(t, func(c *Config) { c.MaxConns, c.HeaderTimeout = 2, 200*time.Millisecond })
	if c, err := tls.Dial("tcp", f.addr, &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS11}); err == nil {
		c.Close()
		t.Error("TLS 1.1 was spoken")
	}
	if got := f.raw(t, "POST /in/none HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na"); got.status != 400 || !strings.Contains(got.body, "TLS") {
		t.Errorf("in the clear: %d %q", got.status, got.body)
	}
	for range 5 { // more than there are slots, and each is silent
		c := f.dial(t)
		defer c.Close()
	}
	resp, err := clientOf(t, pool, true).Post("https://"+f.addr+"/in/none", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("after silent ones: %s", resp.Status)
	}
}

// An HTTP/2 connection is told how many requests it may have under way.
func TestStreams(t *testing.T) {
	t.Parallel()
	f, pool := secureFixture(t, nil)
	c, err := tls.Dial("tcp", f.addr, &tls.Config{RootCAs: pool, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	fr := http2.NewFramer(c, c)
	if err := fr.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	got, err := fr.ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	settings, ok := got.(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("first frame is %v", got)
	}
	if n, ok := settings.Value(http2.SettingMaxConcurrentStreams); !ok || n != 100 {
		t.Errorf("%d streams, want 100", n)
	}
}

// A stop waits for requests, and for handshakes as long as those may take.
func TestStopTLS(t *testing.T) {
	t.Parallel()
	f, pool := secureFixture(t, func(c *Config) { c.HeaderTimeout = time.Second })
	silent := f.dial(t)
	defer silent.Close()
	client := clientOf(t, pool, true)
	resp, err := client.Post("https://"+f.addr+"/in/none", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	began := time.Now()
	f.stop()
	if err := <-f.done; err != nil {
		t.Errorf("Serve: %v", err)
	}
	f.done <- nil
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the stop took %v", took)
	}
}
