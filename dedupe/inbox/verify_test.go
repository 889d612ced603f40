package inbox_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/onceward/onceward/dedupe/inbox"
)

var (
	secretA = "whsec_" + base64.StdEncoding.EncodeToString([]byte("a secret of thirty-two bytes, aa"))
	secretB = "whsec_" + base64.StdEncoding.EncodeToString([]byte("a secret of thirty-two bytes, bb"))
	noon    = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
)

// signed is the header of a request signed with secrets, by the library of
// the specification's authors.
func signed(t testing.TB, at time.Time, body string, secrets ...string) http.Header {
	t.Helper()
	h := http.Header{"Webhook-Id": {"01JRF"}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)}}
	var sigs []string
	for _, s := range secrets {
		wh, err := standard.NewWebhook(s)
		if err != nil {
			t.Fatal(err)
		}
		sig, err := wh.Sign("01JRF", at, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		sigs = append(sigs, sig)
	}
	h.Set("Webhook-Signature", strings.Join(sigs, " "))
	return h
}

func verifier(t testing.TB, cfg inbox.VerifyConfig) *inbox.Verifier {
	t.Helper()
	if cfg.Secrets == nil {
		cfg.Secrets = []string{secretA, secretB}
	}
	cfg.Now = func() time.Time { return noon }
	v, err := inbox.NewVerifier(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVerify(t *testing.T) {
	t.Parallel()
	const body = `{"amount": 5}`
	other := "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("x"), 32))
	change := func(h http.Header, name string, values ...string) http.Header {
		h = h.Clone()
		h[name] = values
		return h
	}
	good := signed(t, noon, body, secretA)
	sig := good.Get("Webhook-Signature")
	for _, tt := range []struct {
		name   string
		header http.Header
		body   string
		want   error
	}{
		{"first secret", good, body, nil},
		{"second secret", signed(t, noon, body, secretB), body, nil},
		{"both", signed(t, noon, body, secretA, secretB), body, nil},
		{"one of two unknown", signed(t, noon, body, other, secretB), body, nil},
		{"unknown versions beside it", change(good, "Webhook-Signature", "v1a,xx "+sig+" v2,yy"), body, nil},
		{"empty body", signed(t, noon, "", secretA), "", nil},
		{"oldest", signed(t, noon.Add(-5*time.Minute), body, secretA), body, nil},
		{"furthest ahead", signed(t, noon.Add(5*time.Minute), body, secretA), body, nil},
		{"too old", signed(t, noon.Add(-5*time.Minute-time.Second), body, secretA), body, inbox.ErrTimestamp},
		{"too far ahead", signed(t, noon.Add(5*time.Minute+time.Second), body, secretA), body, inbox.ErrTimestamp},
		{"other body", good, body + " ", inbox.ErrSignature},
		{"other secret", signed(t, noon, body, other), body, inbox.ErrSignature},
		{"other ID", change(good, "Webhook-Id", "01JRG"), body, inbox.ErrSignature},
		{"other time", change(good, "Webhook-Timestamp", strconv.FormatInt(noon.Unix()+1, 10)), body, inbox.ErrSignature},
		{"no ID", change(good, "Webhook-Id"), body, inbox.ErrMissing},
		{"empty ID", change(good, "Webhook-Id", ""), body, inbox.ErrMissing},
		{"two IDs", change(good, "Webhook-Id", "01JRF", "01JRF"), body, inbox.ErrMissing},
		{"no time", change(good, "Webhook-Timestamp"), body, inbox.ErrMissing},
		{"negative time", change(good, "Webhook-Timestamp", "-1"), body, inbox.ErrMissing},
		{"time of 400 digits", change(good, "Webhook-Timestamp", strings.Repeat("9", 400)), body, inbox.ErrMissing},
		{"time in milliseconds", change(good, "Webhook-Timestamp", strconv.FormatInt(noon.UnixMilli(), 10)), body, inbox.ErrMissing},
		{"no signature", change(good, "Webhook-Signature"), body, inbox.ErrMissing},
		{"two signature headers", change(good, "Webhook-Signature", sig, sig), body, inbox.ErrMissing},
		{"blank signature", change(good, "Webhook-Signature", " "), body, inbox.ErrSignature},
		{"no version", change(good, "Webhook-Signature", strings.TrimPrefix(sig, "v1,")), body, inbox.ErrSignature},
		{"no base64", change(good, "Webhook-Signature", "v1,***"), body, inbox.ErrSignature},
		{"cut short", change(good, "Webhook-Signature", sig[:len(sig)-4]), body, inbox.ErrSignature},
		{"empty one", change(good, "Webhook-Signature", "v1,"), body, inbox.ErrSignature},
		{"behind too many others", change(good, "Webhook-Signature", strings.Repeat("v1,AAAA ", 16)+sig), body, inbox.ErrSignature},
		{"nothing", http.Header{}, body, inbox.ErrMissing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if err := verifier(t, inbox.VerifyConfig{}).Verify(tt.header, []byte(tt.body)); !errors.Is(err, tt.want) {
				t.Errorf("Verify = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestBadSecrets(t *testing.T) {
	t.Parallel()
	short := "whsec_" + base64.StdEncoding.EncodeToString([]byte("twenty-three bytes long"))
	for name, secrets := range map[string][]string{
		"none": nil, "empty": {""}, "one empty": {secretA, ""}, "no base64": {"whsec_hunter2!"}, "short": {short},
		"long": {"whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))}, "a space": {secretA + " "},
	} {
		v, err := inbox.NewVerifier(inbox.VerifyConfig{Secrets: secrets})
		if err == nil || v != nil {
			t.Fatalf("%s: no error", name)
		}
		for _, s := range secrets {
			if text := strings.TrimPrefix(s, "whsec_"); text != "" && strings.Contains(err.Error(), text) {
				t.Errorf("%s: the error holds the secret: %v", name, err)
			}
		}
	}
}

func TestVerifierPrintsNoSecret(t *testing.T) {
	t.Parallel()
	v := verifier(t, inbox.VerifyConfig{Secrets: []string{secretA}})
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("made", "verifier", v, "value", *v)
	all := fmt.Sprintf("%v %+v %#v %v %#v %v", v, v, v, *v, *v, log.String())
	raw := "a secret of thirty-two bytes, aa"
	for _, leak := range []string{strings.TrimPrefix(secretA, "whsec_"), raw, fmt.Sprint([]byte(raw))[1:20], fmt.Sprintf("%x", raw)} {
		if strings.Contains(all, leak) {
			t.Errorf("printing shows the secret: %s", all)
		}
	}
}

func TestMiddleware(t *testing.T) {
	t.Parallel()
	const body = `{"amount": 5}`
	long := strings.Repeat("x", 65)
	for _, tt := range []struct {
		name   string
		header http.Header
		body   io.Reader
		length int64
		want   int
		why    error
	}{
		{"good", signed(t, noon, body, secretB), strings.NewReader(body), int64(len(body)), 200, nil},
		{"good, chunked", signed(t, noon, body, secretB), strings.NewReader(body), -1, 200, nil},
		{"good, as long as allowed", signed(t, noon, long[:64], secretB), strings.NewReader(long[:64]), -1, 200, nil},
		{"unsigned", http.Header{}, strings.NewReader(body), -1, 401, inbox.ErrMissing},
		{"old", signed(t, noon.Add(-time.Hour), body, secretB), strings.NewReader(body), -1, 401, inbox.ErrTimestamp},
		{"forged", signed(t, noon, body+"!", secretB), strings.NewReader(body), -1, 401, inbox.ErrSignature},
		{"said to be too long", signed(t, noon, long, secretB), strings.NewReader(long), 65, 413, inbox.ErrTooLarge},
		{"is too long", signed(t, noon, long, secretB), strings.NewReader(long), -1, 413, inbox.ErrTooLarge},
		{"breaks off", signed(t, noon, body, secretB), iotest.ErrReader(io.ErrUnexpectedEOF), -1, 400, io.ErrUnexpectedEOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var why error
			var got string
			v := verifier(t, inbox.VerifyConfig{MaxBody: 64, Refused: func(_ *http.Request, err error) { why = err }})
			h := v.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				text, err := io.ReadAll(r.Body)
				if got = string(text); err != nil || r.ContentLength != int64(len(text)) {
					t.Errorf("body of %d bytes, length %d, %v", len(text), r.ContentLength, err)
				}
			}))
			r := httptest.NewRequest(http.MethodPost, "/", tt.body)
			r.Header, r.ContentLength = tt.header, tt.length
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tt.want || !errors.Is(why, tt.why) || (tt.why == nil) != (why == nil) {
				t.Errorf("answer %d for %v, want %d for %v", w.Code, why, tt.want, tt.why)
			}
			if (got != "") != (tt.want == 200) {
				t.Errorf("the handler saw %q", got)
			}
			if text := w.Body.String(); tt.want != 200 && text != http.StatusText(tt.want)+"\n" {
				t.Errorf("the answer says %q", text)
			}
		})
	}
}

// FuzzVerify: nothing passes that the specification's library refuses, and
// nothing panics.
func FuzzVerify(f *testing.F) {
	good := signed(f, noon, "{}", secretA)
	f.Add("01JRF", good.Get("Webhook-Timestamp"), good.Get("Webhook-Signature"), []byte("{}"))
	f.Add("", "0", "v1,", []byte{})
	f.Add("x", "99999999999999", "v1,AAAA v1a,BBBB", []byte("{}"))
	oracle, err := standard.NewWebhook(secretA)
	if err != nil {
		f.Fatal(err)
	}
	v := verifier(f, inbox.VerifyConfig{Secrets: []string{secretA}})
	f.Fuzz(func(t *testing.T, id, stamp, sig string, body []byte) {
		h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {sig}}
		if err := v.Verify(h, body); err == nil {
			if err := oracle.VerifyIgnoringTimestamp(body, h); err != nil {
				t.Errorf("passed, and the oracle says %v", err)
			}
		}
	})
}
