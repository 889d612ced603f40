package verify

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// countingFetcher serves documents by address and counts what it is asked for.
type countingFetcher struct {
	mu    sync.Mutex
	docs  map[string][]byte
	asked map[string]int
	gate  chan struct{} // when set, every fetch waits for it
	began chan struct{} // when set, told of every fetch
}

func (f *countingFetcher) Fetch(ctx context.Context, url string) ([]byte, error) {
	f.mu.Lock()
	if f.asked == nil {
		f.asked = map[string]int{}
	}
	f.asked[url]++
	doc, ok := f.docs[url]
	gate, began := f.gate, f.began
	f.mu.Unlock()
	if began != nil {
		began <- struct{}{}
	}
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if !ok {
		return nil, errors.New("nothing there: https://secret-path.test")
	}
	return doc, nil
}

func (f *countingFetcher) set(url string, doc []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.docs == nil {
		f.docs = map[string][]byte{}
	}
	f.docs[url] = doc
}

func (f *countingFetcher) count(url string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[url]
}

const jwksURL = "https://keys.acme.test/jwks.json"

func jwksRow() Row {
	return Row{Name: "acme", ID: []string{"json:id"}, Modes: []Mode{{Name: "jwt", JWT: &JWT{
		In: "header:Authorization", Prefix: "Bearer ", Algorithms: []string{"RS256", "ES256"}, BodyHash: "body",
		Claims: map[string]string{"iss": "acme"}, MaxAge: defaultTolerance, Keys: &KeySource{Kind: "jwks", URL: jwksURL},
	}}}}
}

func jwksOf(t *testing.T, keys map[string]crypto.PublicKey) []byte {
	t.Helper()
	b64 := base64.RawURLEncoding.EncodeToString
	var list []map[string]string
	for kid, k := range keys {
		switch k := k.(type) {
		case *rsa.PublicKey:
			list = append(list, map[string]string{"kty": "RSA", "kid": kid, "use": "sig", "n": b64(k.N.Bytes()), "e": b64(big.NewInt(int64(k.E)).Bytes())})
		case *ecdsa.PublicKey:
			raw, err := k.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, map[string]string{"kty": "EC", "kid": kid, "crv": "P-256", "x": b64(raw[1:33]), "y": b64(raw[33:])})
		}
	}
	b, err := json.Marshal(map[string]any{"keys": list})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// bearer makes a request whose token is signed by key.
func bearer(t *testing.T, key crypto.Signer, kid string, now time.Time, edit func(jwt.MapClaims)) *Request {
	t.Helper()
	body := []byte(`{"id":"e1"}`)
	claims := jwt.MapClaims{"iss": "acme", "iat": now.Unix(), "body": fmt.Sprintf("%x", sha(body))}
	if edit != nil {
		edit(claims)
	}
	var method jwt.SigningMethod = jwt.SigningMethodES256
	if _, ok := key.Public().(*rsa.PublicKey); ok {
		method = jwt.SigningMethodRS256
	}
	tok := jwt.NewWithClaims(method, claims)
	tok.Header["kid"] = kid
	text, err := tok.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return &Request{Method: "POST", Header: http.Header{"Authorization": {"Bearer " + text}}, Body: body, Now: now}
}

func sha(b []byte) []byte {
	h := crypto.SHA256.New()
	h.Write(b)
	return h.Sum(nil)
}

func ecKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestKeysAreFetchedSparingly walks through the life of a key set: fetched once,
// asked again for an unknown ID once a minute at most, kept while the provider is
// away.
func TestKeysAreFetchedSparingly(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	first, second := ecKey(t), ecKey(t)
	f := &countingFetcher{}
	f.set(jwksURL, jwksOf(t, map[string]crypto.PublicKey{"a": first.Public()}))
	v := mustNew(t, Config{Row: jwksRow(), Fetcher: f})
	check := func(what string, r *Request, want Reason, asked int) {
		t.Helper()
		res := v.Verify(r)
		if res.Reason != want || f.count(jwksURL) != asked {
			t.Errorf("%s: %s after %d fetches, want %s after %d", what, res.Reason, f.count(jwksURL), want, asked)
		}
		if strings.Contains(res.Detail, "secret-path") {
			t.Errorf("%s: the detail holds an address: %s", what, res.Detail)
		}
	}
	forged := bearer(t, first, "a", now, func(c jwt.MapClaims) { c["iss"] = "other" })
	check("a claim that is wrong is not worth a fetch", forged, ReasonClaimMismatch, 0)
	check("nor is a body that is another", func() *Request {
		r := bearer(t, first, "a", now, nil)
		r.Body = []byte(`{"id":"e2"}`)
		return r
	}(), ReasonSignatureMismatch, 0)
	check("an hour before", bearer(t, first, "a", now.Add(-time.Hour), nil), OK, 1)
	old := bearer(t, first, "a", now.Add(-time.Hour), nil)
	old.Now = now
	check("the same token now", old, ReasonTimestampOld, 1)
	check("first", bearer(t, first, "a", now, nil), OK, 1)
	check("again", bearer(t, first, "a", now.Add(time.Second), nil), OK, 1)
	check("unknown ID", bearer(t, second, "b", now.Add(2*time.Second), nil), ReasonSignatureMismatch, 2)
	check("unknown ID within the minute", bearer(t, second, "b", now.Add(30*time.Second), nil), ReasonSignatureMismatch, 2)
	f.set(jwksURL, jwksOf(t, map[string]crypto.PublicKey{"a": first.Public(), "b": second.Public()}))
	check("rotated", bearer(t, second, "b", now.Add(2*time.Minute), nil), OK, 3)
	check("the older key", bearer(t, first, "a", now.Add(2*time.Minute), nil), OK, 3)
	check("another's signature under a known ID", bearer(t, ecKey(t), "a", now.Add(3*time.Minute), nil), ReasonSignatureMismatch, 3)
	f.set(jwksURL, []byte("not JSON"))
	later := now.Add(25 * time.Hour)
	check("stale, and the provider is away", bearer(t, second, "b", later, nil), OK, 4)
	check("and stays so for a minute", bearer(t, second, "b", later.Add(time.Second), nil), OK, 4)
	check("then it is asked again", bearer(t, second, "b", later.Add(time.Minute), nil), OK, 5)
}

// TestKeysUnavailable tells a provider that is away from a request that is forged.
func TestKeysUnavailable(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	key := ecKey(t)
	if res := mustNew(t, Config{Row: jwksRow()}).Verify(bearer(t, key, "a", now, nil)); res.Reason != ReasonKeyUnavailable {
		t.Errorf("without a fetcher: %s", res.Reason)
	}
	f := &countingFetcher{}
	v := mustNew(t, Config{Row: jwksRow(), Fetcher: f})
	for range 3 {
		if res := v.Verify(bearer(t, key, "a", now, nil)); res.Reason != ReasonKeyUnavailable || strings.Contains(res.Detail, "secret-path") {
			t.Errorf("provider away: %+v", res)
		}
	}
	if f.count(jwksURL) != 1 {
		t.Errorf("asked %d times in one moment", f.count(jwksURL))
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.gate, f.began = make(chan struct{}), make(chan struct{}, 4)
	done := make(chan Result, 2)
	at := now.Add(time.Hour)
	go func() { done <- v.Verify(bearer(t, key, "a", at, nil)) }()
	<-f.began
	go func() { done <- v.VerifyContext(ctx, bearer(t, key, "a", at, nil)) }()
	cancel()
	if res := <-done; res.Reason != ReasonKeyUnavailable {
		t.Errorf("a caller that left: %s", res.Reason)
	}
	f.set(jwksURL, jwksOf(t, map[string]crypto.PublicKey{"a": key.Public()}))
	close(f.gate)
	<-done // it asked before the keys were there
}

// TestOneFetchForMany sends many at once: one of them fetches and all verify.
func TestOneFetchForMany(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	key := ecKey(t)
	f := &countingFetcher{gate: make(chan struct{})}
	f.set(jwksURL, jwksOf(t, map[string]crypto.PublicKey{"a": key.Public()}))
	v := mustNew(t, Config{Row: jwksRow(), Fetcher: f})
	var wg sync.WaitGroup
	for range 16 {
		r := bearer(t, key, "a", now, nil)
		wg.Go(func() {
			if res := v.Verify(r); res.Reason != OK {
				t.Errorf("%s: %s", res.Reason, res.Detail)
			}
		})
	}
	close(f.gate)
	wg.Wait()
	if f.count(jwksURL) != 1 {
		t.Errorf("%d fetches", f.count(jwksURL))
	}
}

// TestAddressesAreBounded names ever new addresses: few are asked for.
func TestAddressesAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	f := &countingFetcher{}
	src := KeySource{Kind: "x509", In: "header:X-Cert", Hosts: []string{"certs.acme.test"}, Path: "/c/*"}
	l, err := src.compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	l.fetch = f
	for i := range 1000 {
		_, err := l.keys(t.Context(), fmt.Sprintf("https://certs.acme.test/c/%d", i), "", now)
		if err == nil {
			t.Fatal("a key came from nowhere")
		}
	}
	total := 0
	for _, n := range f.asked {
		total += n
	}
	if total != maxNewURLs || len(l.entries) > maxKeyURLs {
		t.Errorf("%d fetches, %d entries", total, len(l.entries))
	}
	for i := range 40 {
		_, _ = l.keys(t.Context(), fmt.Sprintf("https://certs.acme.test/c/%d", 2000+i), "", now.Add(time.Duration(i)*time.Minute))
	}
	if len(l.entries) > maxKeyURLs {
		t.Errorf("%d entries are kept", len(l.entries))
	}
}

func TestURLRule(t *testing.T) {
	t.Parallel()
	r := urlRule{hosts: []string{"sns.*.amazonaws.com", "s3.amazonaws.com"}, path: "/echo.api/*.pem"}
	for raw, want := range map[string]string{
		"https://sns.us-east-1.amazonaws.com/echo.api/a.pem":  "https://sns.us-east-1.amazonaws.com/echo.api/a.pem",
		"https://s3.amazonaws.com:443/echo.api/x.pem":         "https://s3.amazonaws.com/echo.api/x.pem",
		"HTTPS://S3.AMAZONAWS.COM/echo.api/x.pem":             "https://s3.amazonaws.com/echo.api/x.pem",
		"https://s3.amazonaws.com/a/../echo.api/x.pem":        "https://s3.amazonaws.com/echo.api/x.pem",
		"http://s3.amazonaws.com/echo.api/x.pem":              "",
		"https://s3.amazonaws.com:8443/echo.api/x.pem":        "",
		"https://user@s3.amazonaws.com/echo.api/x.pem":        "",
		"https://s3.amazonaws.com@evil.test/echo.api/x.pem":   "",
		"https://s3.amazonaws.com.evil.test/echo.api/x.pem":   "",
		"https://sns.a.b.amazonaws.com/echo.api/a.pem":        "",
		"https://sns..amazonaws.com/echo.api/a.pem":           "",
		"https://sns.evil%2e.amazonaws.com/echo.api/a.pem":    "",
		"https://s3.amazonaws.com/ECHO.API/x.pem":             "",
		"https://s3.amazonaws.com/echo.api/../evil/x.pem":     "",
		"https://s3.amazonaws.com/echo.api/%2e%2e/evil/x.pem": "",
		"https://s3.amazonaws.com/echo.api/x.pem#y":           "",
		"https://s3.amazonaws.com\\@evil.test/echo.api/x.pem": "",
		"//s3.amazonaws.com/echo.api/x.pem":                   "",
		"":                                                    "", "https://": "", "https://s3.amazonaws.com/echo.api/" + strings.Repeat("a", 4096) + ".pem": "",
	} {
		got, ok := r.check(raw)
		if got != want || ok != (want != "") {
			t.Errorf("check(%.80q) = %q, %t, want %q", raw, got, ok, want)
		}
	}
	for _, bad := range []string{"*", "*.com", "evil.*", "acme.*.", "Acme.test", "a/b.test", "test"} {
		if checkHosts([]string{bad}) == nil {
			t.Errorf("host %q is taken", bad)
		}
	}
}

// TestHTTPFetcher holds the fetcher to its bounds against a real server.
func TestHTTPFetcher(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("keys")) })
	mux.HandleFunc("/full", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, MaxFetch)) })
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, MaxFetch+1)) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ok", http.StatusFound) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	srv := httptest.NewTLSServer(mux)
	t.Cleanup(srv.Close)
	f := NewHTTPFetcher(srv.Client().Transport)
	for path, ok := range map[string]bool{"/ok": true, "/full": true, "/big": false, "/moved": false, "/absent": false} {
		b, err := f.Fetch(t.Context(), srv.URL+path)
		if (err == nil) != ok || ok && len(b) == 0 {
			t.Errorf("%s: %d bytes, %v", path, len(b), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Fetch(ctx, srv.URL+"/slow"); err == nil {
		t.Error("a fetch outlived its context")
	}
	if _, err := f.Fetch(t.Context(), strings.Replace(srv.URL, "https", "http", 1)+"/ok"); !errors.Is(err, errNotHTTPS) {
		t.Errorf("http: %v", err)
	}
}

// certificate makes one for names, signed by parent (nil is itself).
func certificate(t *testing.T, key crypto.Signer, cn string, from, to time.Time, parent *x509.Certificate, by crypto.Signer) (*x509.Certificate, []byte) {
	t.Helper()
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: cn}, NotBefore: from, NotAfter: to,
		IsCA: parent == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	if parent == nil {
		parent, by = tmpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestCertificates holds name, dates and chain against each other.
func TestCertificates(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	year := 365 * 24 * time.Hour
	rootKey, leafKey := ecKey(t), ecKey(t)
	root, rootPEM := certificate(t, rootKey, "root", now.Add(-year), now.Add(year), nil, nil)
	_, leafPEM := certificate(t, leafKey, "keys.acme.test", now.Add(-time.Hour), now.Add(time.Hour), root, rootKey)
	_, ownPEM := certificate(t, leafKey, "keys.acme.test", now.Add(-year), now.Add(year), nil, nil)
	pool := x509.NewCertPool()
	pool.AddCert(root)
	for name, tt := range map[string]struct {
		doc  []byte
		name string
		free bool // no chain is demanded
		at   time.Duration
		ok   bool
	}{
		"right":                 {doc: leafPEM, name: "keys.acme.test", ok: true},
		"with its chain":        {doc: append(append([]byte{}, leafPEM...), rootPEM...), name: ".acme.test", ok: true},
		"another name":          {doc: leafPEM, name: "keys.other.test"},
		"the end of a name":     {doc: leafPEM, name: ".cme.test"},
		"too early":             {doc: leafPEM, name: "keys.acme.test", at: -2 * time.Hour},
		"too late":              {doc: leafPEM, name: "keys.acme.test", at: 2 * time.Hour},
		"signed by itself":      {doc: ownPEM, name: "keys.acme.test"},
		"by itself, and may be": {doc: ownPEM, name: "keys.acme.test", free: true, ok: true},
		"too late, by itself":   {doc: ownPEM, name: "keys.acme.test", free: true, at: 2 * year},
		"too early, by itself":  {doc: ownPEM, name: "keys.acme.test", free: true, at: -2 * year},
		"no certificate":        {doc: []byte("hello")},
		"broken":                {doc: []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")},
	} {
		l := &keyLookup{src: KeySource{Kind: "x509", Name: tt.name, Chain: !tt.free}, roots: pool}
		if _, err := l.parse(tt.doc, now.Add(tt.at)); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTokens holds a token to the row, one fault at a time.
func TestTokens(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	key := ecKey(t)
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	f := &countingFetcher{}
	f.set(jwksURL, jwksOf(t, map[string]crypto.PublicKey{"a": key.Public(), "r": rs.Public()}))
	v := mustNew(t, Config{Row: jwksRow(), Fetcher: f})
	for _, ok := range []*Request{bearer(t, key, "a", now, nil), bearer(t, rs, "r", now, nil)} {
		if res := v.Verify(ok); res.Reason != OK || res.Events[0].ID != "e1" || !res.HasSkew {
			t.Fatalf("%+v", res)
		}
	}
	set := func(name string, val any) func(jwt.MapClaims) { return func(c jwt.MapClaims) { c[name] = val } }
	for name, tt := range map[string]struct {
		edit func(jwt.MapClaims)
		want Reason
	}{
		"issuer":          {set("iss", "evil"), ReasonClaimMismatch},
		"issuer absent":   {func(c jwt.MapClaims) { delete(c, "iss") }, ReasonClaimMismatch},
		"issuer a number": {set("iss", 1), ReasonClaimMismatch},
		"issuer in list":  {set("iss", []string{"x", "acme"}), OK},
		"body hash":       {set("body", strings.Repeat("0", 64)), ReasonSignatureMismatch},
		"no body hash":    {func(c jwt.MapClaims) { delete(c, "body") }, ReasonSignatureMismatch},
		"no iat":          {func(c jwt.MapClaims) { delete(c, "iat") }, ReasonTimestampMissing},
		"iat as text":     {set("iat", "1767225600"), ReasonTimestampMalformed},
		"iat huge":        {set("iat", 1e300), ReasonTimestampMalformed},
		"iat negative":    {set("iat", -1), ReasonTimestampMalformed},
		"iat in future":   {set("iat", now.Unix()+301), ReasonTimestampFuture},
		"iat old":         {set("iat", now.Unix()-301), ReasonTimestampOld},
		"ended":           {set("exp", now.Unix()-1), ReasonTimestampOld},
		"not yet":         {set("nbf", now.Unix()+1), ReasonTimestampFuture},
	} {
		if res := v.Verify(bearer(t, key, "a", now, tt.edit)); res.Reason != tt.want || tt.want != OK && res.Events != nil {
			t.Errorf("%s: %s (%s), want %s", name, res.Reason, res.Detail, tt.want)
		}
	}
	// The classic: the public key as the secret of an HMAC.
	pub := pemKey(t, rs.Public())
	hs, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"iss": "acme", "iat": now.Unix()}).SignedString([]byte(pub))
	if err != nil {
		t.Fatal(err)
	}
	good := strings.TrimPrefix(bearer(t, key, "a", now, nil).Header.Get("Authorization"), "Bearer ")
	parts := strings.Split(good, ".")
	enc := base64.RawURLEncoding.EncodeToString
	for name, text := range map[string]string{
		"HMAC under the public key": hs,
		"no algorithm":              enc([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".",
		"algorithm of other case":   enc([]byte(`{"alg":"es256","kid":"a"}`)) + "." + parts[1] + "." + parts[2],
		"RSA key for ECDSA":         enc([]byte(`{"alg":"ES256","kid":"r"}`)) + "." + parts[1] + "." + parts[2],
		"critical":                  enc([]byte(`{"alg":"ES256","kid":"a","crit":["exp"]}`)) + "." + parts[1] + "." + parts[2],
		"payload as it is":          enc([]byte(`{"alg":"ES256","kid":"a","b64":false}`)) + "." + parts[1] + "." + parts[2],
		"two parts":                 parts[0] + "." + parts[1],
		"four parts":                good + ".x",
		"no payload":                parts[0] + ".." + parts[2],
		"line break":                good + "\n",
		"padding":                   good + "=",
		"header no JSON":            enc([]byte("x")) + "." + parts[1] + "." + parts[2],
		"claims a list":             parts[0] + "." + enc([]byte("[]")) + "." + parts[2],
		"endless":                   strings.Repeat("a", maxTokenLen+1),
	} {
		r := bearer(t, key, "a", now, nil)
		r.Header.Set("Authorization", "Bearer "+text)
		if res := v.Verify(r); res.Reason != ReasonSignatureMalformed && res.Reason != ReasonSignatureMismatch {
			t.Errorf("%s: %s", name, res.Reason)
		}
	}
}
