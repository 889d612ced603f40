package verify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"
)

// benchBody is a JSON body of exactly 1 KiB.
func benchBody() []byte {
	const head, tail = `{"id":"evt_1","type":"invoice.paid","data":"`, `"}`
	return []byte(head + strings.Repeat("x", 1024-len(head)-len(tail)) + tail)
}

// BenchmarkPrimitive is what a signature of 1 KiB costs at the least.
func BenchmarkPrimitive(b *testing.B) {
	body, secret := benchBody(), []byte("a secret of some length")
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	want := hex.EncodeToString(mac.Sum(nil))
	b.ReportAllocs()
	for b.Loop() {
		mac := hmac.New(sha256.New, secret)
		mac.Write(body)
		got, err := hex.DecodeString(want)
		if err != nil || !hmac.Equal(mac.Sum(nil), got) {
			b.Fatal("mismatch")
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	now := time.Unix(1767225600, 0)
	for _, name := range []string{"hmac", "github", "standard_webhooks", "stripe", "slack"} {
		b.Run(name, func(b *testing.B) {
			row := lookup(b, name)
			v := mustNew(b, Config{Row: row, Secrets: secrets(secretFor(row.Modes[0]))})
			s, err := v.Sign(SignRequest{Now: now, ID: "e1", Type: "t", Body: benchBody()})
			if err != nil {
				b.Fatal(err)
			}
			r := request(s, now)
			b.ReportAllocs()
			for b.Loop() {
				if res := v.Verify(r); res.Reason != OK {
					b.Fatal(res.Reason)
				}
			}
		})
	}
}

func BenchmarkHostileSignatures(b *testing.B) {
	v := mustNew(b, Config{Row: lookup(b, "stripe"), Secrets: secrets("s")})
	r := stripeRequest("{}", "t=1767225600"+strings.Repeat(",v1="+strings.Repeat("0", 64), 10_000))
	b.ReportAllocs()
	for b.Loop() {
		if res := v.Verify(r); res.Reason != ReasonSignatureMalformed {
			b.Fatal(res.Reason)
		}
	}
}
