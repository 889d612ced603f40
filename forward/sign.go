package forward

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

const secretPrefix = "whsec_"

// The length of a signing secret in bytes, as Standard Webhooks has it.
const (
	minSigningKey = 24
	maxSigningKey = 64
)

// SigningSecret is one symmetric Standard Webhooks secret. It is never shown:
// it prints, logs and marshals as a constant. The zero value signs nothing
// and is refused by SetTargets.
type SigningSecret struct{ key []byte }

// ParseSigningSecret reads "whsec_" and base64 of 24 to 64 bytes; the prefix
// may be missing. The error does not hold the text.
func ParseSigningSecret(text string) (SigningSecret, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, secretPrefix))
	if err != nil {
		return SigningSecret{}, errors.New("signing secret: want whsec_ and base64")
	}
	if len(key) < minSigningKey || len(key) > maxSigningKey {
		return SigningSecret{}, fmt.Errorf("signing secret: %d bytes, want %d to %d", len(key), minSigningKey, maxSigningKey)
	}
	return SigningSecret{key: key}, nil
}

// String is a constant.
func (SigningSecret) String() string { return redacted }

// GoString is a constant.
func (SigningSecret) GoString() string { return redacted }

// LogValue is a constant.
func (SigningSecret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText writes a constant.
func (SigningSecret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// signatures is the value of Webhook-Signature: one v1 signature of
// {id}.{timestamp}.{body} for each secret, separated by spaces.
func signatures(secrets []SigningSecret, id, timestamp string, body []byte) string {
	out := make([]byte, 0, len(secrets)*48)
	head := make([]byte, 0, 64)
	head = append(append(append(append(head, id...), '.'), timestamp...), '.')
	var sum [sha256.Size]byte
	for i, s := range secrets {
		if i > 0 {
			out = append(out, ' ')
		}
		mac := hmac.New(sha256.New, s.key)
		mac.Write(head)
		mac.Write(body)
		out = append(out, "v1,"...)
		out = base64.StdEncoding.AppendEncode(out, mac.Sum(sum[:0]))
	}
	return string(out)
}

func unixSeconds(n int64) string { return strconv.FormatInt(n, 10) }
