package inbox

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The defaults of VerifyConfig.
const (
	DefaultTolerance = 5 * time.Minute
	DefaultMaxBody   = 1 << 20
)

// The length of a signing secret in bytes, as Standard Webhooks has it.
const (
	minSecret = 24
	maxSecret = 64
)

// maxSignatures is how many signatures of one request are looked at.
const maxSignatures = 16

// Why a request does not pass.
var (
	ErrMissing   = errors.New("signature headers are missing or malformed")
	ErrTimestamp = errors.New("timestamp is outside the tolerance")
	ErrSignature = errors.New("no signature matches")
	ErrTooLarge  = errors.New("body is larger than allowed")
)

// VerifyConfig of a Verifier.
type VerifyConfig struct {
	// Secrets are the target's signing_secrets: "whsec_" and base64 of 24 to
	// 64 bytes. Any of them may have signed, so that one can be changed while
	// requests are under way.
	Secrets []string
	// Tolerance is how far the time of signing may be from now, in both
	// directions; 0 is DefaultTolerance.
	Tolerance time.Duration
	// MaxBody is the longest body that is read; 0 is DefaultMaxBody. A source
	// whose provider sends more needs more.
	MaxBody int64
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Refused, if set, is told of every request that did not pass, and why.
	Refused func(r *http.Request, why error)
}

// Verifier checks the gateway's signature. It is safe for concurrent use, and
// printing it shows no secret.
type Verifier struct {
	cfg  VerifyConfig // without the secrets
	macs []func(head string, body []byte) []byte
}

// NewVerifier makes a Verifier. Its errors hold no secret.
func NewVerifier(cfg VerifyConfig) (*Verifier, error) {
	v := &Verifier{}
	for i, secret := range cfg.Secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			return nil, fmt.Errorf("inbox: secret %d: want whsec_ and base64", i+1)
		}
		if len(key) < minSecret || len(key) > maxSecret {
			return nil, fmt.Errorf("inbox: secret %d: %d bytes, want %d to %d", i+1, len(key), minSecret, maxSecret)
		}
		v.macs = append(v.macs, func(head string, body []byte) []byte {
			mac := hmac.New(sha256.New, key)
			_, _ = io.WriteString(mac, head)
			_, _ = mac.Write(body)
			return mac.Sum(nil)
		})
	}
	if len(v.macs) == 0 {
		return nil, errors.New("inbox: no secret: nothing could pass")
	}
	if cfg.Tolerance <= 0 {
		cfg.Tolerance = DefaultTolerance
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = DefaultMaxBody
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	v.cfg, v.cfg.Secrets = cfg, nil
	return v, nil
}

// Verify reports whether header and body, as received, were signed with one
// of the secrets within the tolerance: nil, ErrMissing, ErrTimestamp or
// ErrSignature.
func (v *Verifier) Verify(header http.Header, body []byte) error {
	id, ok1 := single(header, "Webhook-Id")
	stamp, ok2 := single(header, "Webhook-Timestamp")
	list, ok3 := single(header, "Webhook-Signature")
	at, ok4 := seconds(stamp)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return ErrMissing
	}
	if d := v.cfg.Now().Sub(at); d > v.cfg.Tolerance || d < -v.cfg.Tolerance {
		return ErrTimestamp
	}
	var sent [][]byte
	for sig := range strings.FieldsSeq(list) {
		text, is := strings.CutPrefix(sig, "v1,")
		if !is || len(sent) == maxSignatures {
			continue
		}
		if sum, err := base64.StdEncoding.DecodeString(text); err == nil {
			sent = append(sent, sum)
		}
	}
	head := id + "." + stamp + "."
	for _, mac := range v.macs {
		sum := mac(head, body)
		for _, s := range sent {
			if hmac.Equal(sum, s) {
				return nil
			}
		}
	}
	return ErrSignature
}

// single is the value of a header that occurs exactly once and isn't empty.
func single(h http.Header, name string) (string, bool) {
	v := h[name]
	if len(v) != 1 || v[0] == "" {
		return "", false
	}
	return v[0], true
}

// seconds reads a time as Unix seconds in digits.
func seconds(s string) (time.Time, bool) {
	if len(s) == 0 || len(s) > 12 {
		return time.Time{}, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return time.Time{}, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return time.Unix(n, 0), err == nil
}

// Middleware lets only requests through that Verify passes, with their body
// to be read again from memory. The others are answered: 401, 413 for a body
// beyond MaxBody, 400 for one that can't be read. None of the answers says
// more than that.
func (v *Verifier) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := v.read(w, r)
		if err == nil {
			err = v.Verify(r.Header, body)
		}
		if err != nil {
			v.refuse(w, r, err)
			return
		}
		again := r.WithContext(r.Context())
		again.Body, again.ContentLength, again.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		next.ServeHTTP(w, again)
	})
}

func (v *Verifier) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > v.cfg.MaxBody {
		return nil, ErrTooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, v.cfg.MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, ErrTooLarge
	case err != nil:
		return nil, fmt.Errorf("read body: %w", err)
	}
	return body, nil
}

func (v *Verifier) refuse(w http.ResponseWriter, r *http.Request, why error) {
	status := http.StatusBadRequest
	switch {
	case errors.Is(why, ErrTooLarge):
		status = http.StatusRequestEntityTooLarge
		w.Header().Set("Connection", "close")
	case errors.Is(why, ErrMissing), errors.Is(why, ErrTimestamp), errors.Is(why, ErrSignature):
		status = http.StatusUnauthorized
	}
	if v.cfg.Refused != nil {
		v.cfg.Refused(r, why)
	}
	http.Error(w, http.StatusText(status), status)
}
