package gateway

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/forward"
)

// aTarget is a target whose further lines follow, from line 7 on.
const aTarget = "[[source]]\nname = \"a\"\nprovider = \"none\"\ntargets = [\"app\"]\nretention = { body = \"60d\" }\n[[target]]\nname = \"app\"\n"

func TestOutboundFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	cert, key := selfSigned(t, 30*24*time.Hour)
	_, otherKey := selfSigned(t, time.Hour)
	soon, soonKey := selfSigned(t, time.Hour)
	put("soon.pem", soon, 0o644)
	put("soonkey.pem", soonKey, 0o600)
	oldCert, oldKey := selfSigned(t, -time.Hour)
	put("cert.pem", cert, 0o644)
	put("key.pem", key, 0o600)
	put("open.pem", key, 0o644)
	put("other.pem", otherKey, 0o600)
	put("old.pem", oldCert, 0o644)
	put("oldkey.pem", oldKey, 0o600)
	put("empty.pem", "", 0o600)
	put("config.toml", "", 0o600)
	const open, secure = "url = \"http://127.0.0.1:9000/\"\n", "url = \"https://app.internal/\"\n"
	for _, tt := range []struct{ name, toml, want string }{
		{"all of it", secure + `auth = { bearer = "${env:TOKEN}" }
tls = { cert = "cert.pem", key = "key.pem", ca = "cert.pem", server_name = "app", min_version = "1.3" }
proxy = "http://u:p@127.0.0.1:3128"
as = "cloudevents"
method = "PUT"
headers_allow = ["x-*", "Stripe-Signature"]
headers_deny = ["x-secret*"]
`, ``},
		{"basic", open + `auth = { user = "u", password = "${env:TOKEN}" }`, ``},
		{"two credentials", open + `auth = { bearer = "${env:TOKEN}", user = "u" }`, `9:8: target[0].auth: auth holds a bearer token and a user;`},
		{"no credential", open + `auth = {}`, `9:8: target[0].auth: auth says neither who nor what;`},
		{"no password", open + `auth = { user = "u" }`, `9:8: target[0].auth: auth has a user and no password;`},
		{"user with a colon", open + `auth = { user = "a:b", password = "${env:TOKEN}" }`, `9:17: target[0].auth.user: the user is empty or holds a colon;`},
		{"empty token", open + `auth = { bearer = "" }`, `9:19: target[0].auth.bearer: the secret is empty;`},
		{"unset token", open + `auth = { bearer = "${env:NOPE}" }`, `9:19: target[0].auth.bearer: ${env:NOPE} is not set;`},
		{"token of two lines", open + `auth = { bearer = "${env:LINES}" }`, `9:19: target[0].auth.bearer: the value holds a control character;`},
		{"token in the file", open + `auth = { bearer = "0123456789abcdef" }`, `9:19: warning: target[0].auth.bearer: the secret stands in the file itself;`},
		{"header and auth", open + "headers = { authorization = \"${env:TOKEN}\" }\nauth = { bearer = \"${env:TOKEN}\" }", `9:29: target[0].headers.authorization: auth sets this header as well;`},
		{"in the clear", "url = \"http://app.internal/\"\nauth = { bearer = \"${env:TOKEN}\" }", `9:8: warning: target[0].auth: the credential crosses the network unencrypted;`},
		{"tls on http", open + `tls = { ca = "cert.pem" }`, `9:7: target[0].tls: tls means nothing to a url that is not https;`},
		{"cert without key", secure + `tls = { cert = "cert.pem" }`, `9:7: target[0].tls: cert and key go together;`},
		{"another key", secure + `tls = { cert = "cert.pem", key = "other.pem" }`, `9:16: target[0].tls.cert: certificate and key are not usable: tls: private key does not match public key;`},
		{"no such file", secure + `tls = { ca = "none.pem" }`, `9:14: target[0].tls.ca: the file can't be read: no such file or directory;`},
		{"not PEM", secure + `tls = { ca = "empty.pem" }`, `9:14: target[0].tls.ca: the file holds no certificate in PEM;`},
		{"version", secure + `tls = { min_version = "1.1" }`, `9:23: target[0].tls.min_version: unknown min_version "1.1"; did you mean "1.2"?`},
		{"ended", secure + `tls = { cert = "old.pem", key = "oldkey.pem" }`, `9:16: warning: target[0].tls.cert: the certificate ended on`},
		{"open key", secure + `tls = { cert = "cert.pem", key = "open.pem" }`, `9:34: warning: target[0].tls.key: the key is readable by everyone; chmod 0600 it`},
		{"soon", secure + `tls = { cert = "soon.pem", key = "soonkey.pem" }`, `9:16: warning: target[0].tls.cert: the certificate ends on`},
		{"unknown key", secure + `tls = { insecure = true }`, `9:9: target[0].tls.insecure: unknown key "insecure"; known here: cert, key, ca, server_name, min_version`},
		{"proxy", open + `proxy = "socks5://127.0.0.1:1080"`, `9:9: target[0].proxy: the proxy is not usable;`},
		{"proxy at metadata", open + `proxy = "http://169.254.169.254:80"`, `9:9: target[0].proxy: the proxy is at a link-local, metadata`},
		{"number by proxy", "url = \"http://2852039166/\"\nproxy = \"http://127.0.0.1:3128\"", `8:7: target[0].url: the host is a number in a spelling that proxies may take for an address;`},
		{"as", open + `as = "cloudevent"`, `9:6: target[0].as: unknown as "cloudevent"; did you mean "cloudevents"?`},
		{"method", open + `method = "post"`, `9:10: target[0].method: unknown method "post"; want one of POST, PUT, PATCH, DELETE`},
		{"never passes", open + `headers_allow = ["Cookie", "Authorization", "x_y", "onceward-event"]`, `9:18: target[0].headers_allow[0]: "Cookie" never passes from sender to target; remove it
9:28: target[0].headers_allow[1]: "Authorization" never passes from sender to target; remove it
9:45: target[0].headers_allow[2]: "x_y" is not a header name, nor a beginning of names with a * at its end; remove it
9:52: target[0].headers_allow[3]: "onceward-event" never passes from sender to target; remove it
`},
		{"ce header", open + "as = \"cloudevents\"\nheaders = { Ce-Id = \"x\" }", `10:21: target[0].headers.Ce-Id: this header is an attribute of CloudEvents`},
		{"socket", `url = "unix:run/app.sock:/hook?a=1"`, ``},
		{"socket without path", `url = "unix:/run/app.sock"`, ``},
		{"not a socket", `url = "unix:cert.pem:/"`, `8:7: target[0].url: the url names a file that is no socket;`},
		{"socket, path without slash", `url = "unix:/run/app.sock:x"`, `8:7: target[0].url: the url is not that of a unix socket;`},
		{"socket with slashes", `url = "unix:///run/app.sock"`, `8:7: target[0].url: the url is not that of a unix socket;`},
		{"long socket", `url = "unix:/` + strings.Repeat("x", 120) + `"`, `8:7: target[0].url: the path of the socket is longer than 107 bytes;`},
		{"socket with tls", "url = \"unix:/run/app.sock\"\ntls = { ca = \"cert.pem\" }\nallow = [\"10.0.0.0/8\"]\nproxy = \"http://127.0.0.1:1\"", `9:7: target[0].tls: tls means nothing to a unix socket; remove it
10:1: target[0].allow: allow means nothing to a unix socket; remove it
11:9: target[0].proxy: a unix socket is not reached through a proxy; remove it
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(dir, "config.toml")
			_, fs := parse(path, dir, []byte(aTarget+tt.toml+"\n"), envOf("TOKEN", "tok-canary-0123456789", "LINES", "0123456789\nabcdef"))
			got := strings.ReplaceAll(lines(fs), path+":", "")
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
			if strings.Contains(got, "canary") {
				t.Errorf("a fault shows a secret:\n%s", got)
			}
		})
	}
}

// selfSigned is a certificate for loopback that ends after d, and its key.
func selfSigned(t *testing.T, d time.Duration) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(d),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	kder, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: kder}))
}

// check --print shows that there are credentials and none of them.
func TestPrintHidesOutbound(t *testing.T) {
	t.Parallel()
	cfg, fs := Parse("c.toml", []byte(aTarget+`url = "https://app.internal/"
auth = { user = "u", password = "${env:TOKEN}" }
proxy = "http://u:canary@127.0.0.1:3128"
[[target]]
name = "b"
url = "https://app.internal/"
auth = { bearer = { value = "${env:TOKEN}" } }
proxy = "${env:PROXY}"
`), envOf("TOKEN", "tok-canary-0123456789", "PROXY", "http://canary:x@127.0.0.1:1"))
	if fs.Failed() {
		t.Fatal(fs)
	}
	var b bytes.Buffer
	if err := cfg.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"[redacted:bearer]", "[redacted:password]", "[redacted:proxy]"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, &b)
		}
	}
	if strings.Contains(b.String(), "canary") {
		t.Errorf("a secret is shown:\n%s", &b)
	}
	plain, fs := Parse("c.toml", []byte(aTarget+"url = \"http://127.0.0.1:1/\"\n"), envOf())
	b.Reset()
	if err := plain.Print(&b); err != nil || fs.Failed() || strings.Contains(b.String(), "redacted") || strings.Contains(b.String(), "tls") {
		t.Errorf("what is not there is shown: %v, %v\n%s", err, fs, &b)
	}
}

// A reload reads certificates again: with new ones the target is called with
// them, with the same ones its connections go on.
func TestReloadReadsCertificates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seen := make(chan string, 16)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		seen <- req.TLS.PeerCertificates[0].SerialNumber.String()
	}))
	cert, key := selfSigned(t, time.Hour)
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	replace(t, filepath.Join(dir, "ca.pem"), cert)
	client := func() string {
		t.Helper()
		c, k := selfSigned(t, 30*24*time.Hour)
		replace(t, filepath.Join(dir, "cert.pem"), c)
		replace(t, filepath.Join(dir, "key.pem"), k)
		block, _ := pem.Decode([]byte(c))
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return leaf.SerialNumber.String()
	}
	first := client()
	path := filepath.Join(dir, "config.toml")
	toml := base(t.TempDir()) + source("stripe", "stripe", "${env:A}") + target(srv.URL) + "tls = { cert = \"cert.pem\", key = \"key.pem\", ca = \"ca.pem\" }\n"
	replace(t, path, toml)
	cfg, fs := Load(path, testEnv)
	if fs.Failed() {
		t.Fatal(fs)
	}
	r := runConfig(t, cfg, Options{ConfigPath: path})
	deliver := func(id, want string) {
		t.Helper()
		if err := r.post(id); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("%s: client certificate %s, want %s", id, got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: the target saw nothing", id)
		}
	}
	deliver("evt_1", first)
	before := r.gen.Load().targets[0].TLS
	if faults, err := r.Reload(t.Context()); err != nil {
		t.Fatal(err, faults)
	}
	if r.gen.Load().targets[0].TLS != before {
		t.Error("the same files made another configuration: the target's connections were given up")
	}
	deliver("evt_2", first)
	second := client()
	if faults, err := r.Reload(t.Context()); err != nil {
		t.Fatal(err, faults)
	}
	deliver("evt_3", second)
	replace(t, filepath.Join(dir, "key.pem"), "nothing")
	if faults, err := r.Reload(t.Context()); err == nil {
		t.Errorf("a broken key was taken: %v", faults)
	}
	deliver("evt_4", second)
}

// Auth, socket and shape arrive in the forwarder's terms.
func TestOutboundBuild(t *testing.T) {
	t.Parallel()
	cfg := parsed(t, aTarget+`url = "unix:/run/app.sock:/hook?a=1"
auth = { bearer = "${env:A}" }
as = "cloudevents"
method = "PUT"
headers_deny = ["x-*"]
`)
	gen, err := build(cfg, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := gen.targets[0]
	if got.Way != (forward.Way{Socket: "/run/app.sock"}) || got.URL.String() != "http://localhost/hook?a=1" {
		t.Errorf("way %+v, url %s", got.Way, got.URL)
	}
	if string(got.Headers["Authorization"]) != "Bearer "+secretA || !got.Shape.CloudEvents || got.Shape.Method != "PUT" || len(got.Shape.HeadersDeny) != 1 {
		t.Errorf("shape %+v", got.Shape)
	}
}
