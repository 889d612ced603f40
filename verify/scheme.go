package verify

import "time"

// Format is how a signature header is written.
type Format string

// The formats of a signature header.
const (
	// FormatPlain is one signature, after [Scheme.Prefix] if there is one.
	FormatPlain Format = "plain"
	// FormatKV is a comma-separated list of key=value, as in `t=1,v1=ab,v1=cd`.
	FormatKV Format = "kv"
	// FormatList is a space-separated list of version,signature.
	FormatList Format = "list"
)

// Encoding is how bytes are written as text.
type Encoding string

// The encodings of signatures.
const (
	Hex       Encoding = "hex"
	Base64    Encoding = "base64"
	Base64URL Encoding = "base64url"
)

// Digest names a hash function.
type Digest string

// The digests.
const (
	SHA1   Digest = "sha1"
	SHA256 Digest = "sha256"
	SHA384 Digest = "sha384"
	SHA512 Digest = "sha512"
)

// SecretForm is how a secret is turned into key bytes.
type SecretForm string

// The forms of a secret.
const (
	// SecretRaw takes the text itself.
	SecretRaw SecretForm = "raw"
	// SecretHex and SecretBase64 decode it first.
	SecretHex    SecretForm = "hex"
	SecretBase64 SecretForm = "base64"
	// SecretWhsec is base64 after an optional `whsec_`; padding may be missing.
	SecretWhsec SecretForm = "whsec"
)

// Unit is the unit of a timestamp.
type Unit string

// The units.
const (
	Seconds      Unit = "s"
	Milliseconds Unit = "ms"
)

// Scheme is what all signatures have in common: where they are, how they are
// written, what they cover.
type Scheme struct {
	// Sig locates the signature: `header:NAME`, `query:NAME`, `form:…` or `json:…`.
	Sig string `toml:"sig"`
	// Format is how it is written; empty is plain.
	Format Format `toml:"format"`
	// Prefix must stand before a plain signature, as in `sha256=`.
	Prefix string `toml:"prefix"`
	// Key is the key or version of the entries that count in a list.
	Key string `toml:"key"`
	// Encoding is the signature's; empty is hex.
	Encoding Encoding `toml:"encoding"`
	// Signed is the template of the bytes covered: literals and {body},
	// {timestamp}, {id}, {url}, {url_decoded}, {method}, {form}, {header:X},
	// {query:x}, {json:a.b}, and {secret} where [HMAC.Plain] is set.
	Signed string `toml:"signed"`
	// Timestamp locates the signed time: a locator, or `sig:KEY` for a key of the
	// signature's own list. Empty is none.
	Timestamp string `toml:"timestamp"`
	// Unit is the timestamp's; empty is seconds.
	Unit Unit `toml:"unit"`
	// Tolerance is how far the timestamp may be from now in both directions; 0
	// means that age is not checked.
	Tolerance time.Duration `toml:"tolerance"`
}

// HMAC is a signature under a shared secret.
type HMAC struct {
	Scheme
	// Digest is the hash function; empty is sha256.
	Digest Digest `toml:"digest"`
	// Secret is the form of the secret; empty is raw.
	Secret SecretForm `toml:"secret"`
	// Plain makes it a plain digest of the template, which then holds {secret}.
	Plain bool `toml:"plain"`
}

// Token is a shared secret sent as it is.
type Token struct {
	// In locates it.
	In string `toml:"in"`
	// Prefix stands before it, as in `Bearer `; its case does not count.
	Prefix string `toml:"prefix"`
}

// Basic is HTTP Basic authentication; the secret is `user:password`.
type Basic struct{}

// Algorithm names a public-key signature.
type Algorithm string

// The algorithms.
const (
	ECDSASHA256  Algorithm = "ecdsa-sha256"
	Ed25519      Algorithm = "ed25519"
	RSASHA256    Algorithm = "rsa-sha256"
	RSASHA512    Algorithm = "rsa-sha512"
	RSAPSSSHA256 Algorithm = "rsa-pss-sha256"
)

// PublicKey is a signature that anyone can check. Keys are PEM, base64 of a DER
// SubjectPublicKeyInfo, or for Ed25519 also the 32 bytes in hex, base64 or `whpk_`.
type PublicKey struct {
	Scheme
	Algorithm Algorithm `toml:"algorithm"`
}
