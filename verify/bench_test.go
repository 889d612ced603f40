package verify

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"
)

// benchBody is a JSON body of exactly n bytes.
func benchBody(n int) []byte {
	const head, tail = `{"id":"evt_1","type":"invoice.paid","data":"`, `"}`
	return []byte(head + strings.Repeat("x", n-len(head)-len(tail)) + tail)
}

var benchSizes = map[string]int{"1KiB": 1 << 10, "64KiB": 64 << 10}

// BenchmarkPrimitive is what a signature costs at the least.
func BenchmarkPrimitive(b *testing.B) {
	pairs := signers(b)
	for size, n := range benchSizes {
		body, secret := benchBody(n), []byte("a secret of some length")
		b.Run("hmac/"+size, func(b *testing.B) {
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
		})
		for _, alg := range []Algorithm{Ed25519, ECDSASHA256, RSASHA256} {
			b.Run(string(alg)+"/"+size, func(b *testing.B) { benchPublic(b, alg, pairs[alg], body) })
		}
	}
}

func benchPublic(b *testing.B, alg Algorithm, key crypto.Signer, body []byte) {
	b.Helper()
	msg, opts := body, crypto.SignerOpts(crypto.Hash(0))
	if alg != Ed25519 {
		sum := sha256.Sum256(body)
		msg, opts = sum[:], crypto.SHA256
	}
	sig, err := key.Sign(rand.Reader, msg, opts)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		sum := sha256.Sum256(body)
		ok := false
		switch k := key.Public().(type) {
		case ed25519.PublicKey:
			ok = ed25519.Verify(k, body, sig)
		case *ecdsa.PublicKey:
			ok = ecdsa.VerifyASN1(k, sum[:], sig)
		case *rsa.PublicKey:
			ok = rsa.VerifyPKCS1v15(k, crypto.SHA256, sum[:], sig) == nil
		}
		if !ok {
			b.Fatal("mismatch")
		}
	}
}

// BenchmarkVerify is what a request of each family costs.
func BenchmarkVerify(b *testing.B) {
	now := time.Unix(1767225600, 0)
	pairs := signers(b)
	for size, n := range benchSizes {
		for _, name := range []string{"hmac", "github", "standard_webhooks", "stripe", "slack", "token", "messagebird"} {
			b.Run(name+"/"+size, func(b *testing.B) {
				row := lookup(b, name)
				v := mustNew(b, Config{Row: row, Secrets: secrets(secretFor(row.Modes[0]))})
				benchVerify(b, v, SignRequest{Now: now, ID: "e1", Type: "t", URL: "https://a.test/in", Body: benchBody(n)})
			})
		}
		for _, alg := range []Algorithm{Ed25519, ECDSASHA256, RSASHA256} {
			b.Run(string(alg)+"/"+size, func(b *testing.B) {
				v := mustNew(b, Config{Row: pubRow(alg, Base64), PublicKeys: secrets(pemKey(b, pairs[alg].Public()))})
				benchVerify(b, v, SignRequest{Now: now, Body: benchBody(n), PrivateKey: pairs[alg]})
			})
		}
	}
}

func benchVerify(b *testing.B, v *Verifier, sr SignRequest) {
	b.Helper()
	s, err := v.Sign(sr)
	if err != nil {
		b.Fatal(err)
	}
	r := request(s, sr.Now)
	b.ReportAllocs()
	for b.Loop() {
		if res := v.Verify(r); res.Reason != OK {
			b.Fatal(res.Reason)
		}
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
