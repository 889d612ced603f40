package verify

// Format is how a signature is written.
type Format string

// The formats of a signature.
const (
	// FormatPlain is one signature, after [Scheme.Prefix] if there is one.
	FormatPlain Format = "plain"
	// FormatKV is a list of key=value, as in `t=1,v1=ab,v1=cd`; [Scheme.Sep]
	// separates, and blanks around an entry don't count.
	FormatKV Format = "kv"
	// FormatList is a space-separated list of version,signature.
	FormatList Format = "list"
	// FormatPositional is a list whose first entry is the timestamp and whose
	// others are signatures, as in `1700000000000,ab,cd`.
	FormatPositional Format = "positional"
	// FormatMany is a list of signatures and nothing else, as in `ab,cd`.
	FormatMany Format = "many"
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
	// SecretWhsec is base64 after an optional `v1,` and an optional `whsec_`;
	// padding may be missing.
	SecretWhsec SecretForm = "whsec"
	// SecretNFKD is the text in Unicode normalisation form KD.
	SecretNFKD SecretForm = "nfkd"
	// SecretSHA1 and SecretSHA256 are the digest of the text.
	SecretSHA1   SecretForm = "sha1"
	SecretSHA256 SecretForm = "sha256"
)

// Unit is how a timestamp is written.
type Unit string

// The units.
const (
	Seconds      Unit = "s"
	Milliseconds Unit = "ms"
	// SecondsOrMillis is either: numbers of more than eleven digits are
	// milliseconds.
	SecondsOrMillis Unit = "s-or-ms"
	// RFC3339 is a date and time with a zone, fractions or none.
	RFC3339 Unit = "rfc3339"
	// HTTPDate is the format of the Date header.
	HTTPDate Unit = "http-date"
	// AnyTime is signed as the text it is and not read: its age is unknown.
	AnyTime Unit = "any"
)

// Scheme is what all signatures have in common: where they are, how they are
// written, what they cover.
type Scheme struct {
	// Sig locates the signature; places with `??` between are tried in order and
	// the first that is there counts.
	Sig string `toml:"sig,omitempty"`
	// More lists further places; a signature in any of them may match. SigSecret is
	// to Sig what [Place.Secret] is to the others.
	More      []Place `toml:"more,omitempty"`
	SigSecret string  `toml:"sig_secret,omitempty"`
	// Format is how it is written; empty is plain.
	Format Format `toml:"format,omitempty"`
	// Sep are the characters of which any separates the entries of a kv, positional
	// or many list; empty is a comma.
	Sep string `toml:"sep,omitempty"`
	// Groups takes several kv lists with blanks between, each with its own
	// timestamp; any of them may match.
	Groups bool `toml:"groups,omitempty"`
	// Prefix must stand before a plain signature, as in `sha256=`; {digest} in it
	// is the digest's name. PrefixOptional takes signatures without it as well.
	Prefix         string `toml:"prefix,omitempty"`
	PrefixOptional bool   `toml:"prefix_optional,omitempty"`
	// Repeat takes a plain signature header more than once; any may match.
	Repeat bool `toml:"repeat,omitempty"`
	// Key is the key or version of the entries that count in a list.
	Key string `toml:"key,omitempty"`
	// Encoding is the signature's; empty is hex.
	Encoding Encoding `toml:"encoding,omitempty"`
	// Signed is the template of the bytes covered; see the package documentation
	// for what may stand in it. Or lists further templates that are tried where
	// those before did not match.
	Signed string   `toml:"signed,omitempty"`
	Or     []string `toml:"or,omitempty"`
	// Timestamp locates the signed time: a locator, or `sig:KEY` for a key of the
	// signature's own list. Empty is none. TimeOptional takes requests without it.
	Timestamp    string `toml:"timestamp,omitempty"`
	TimeOptional bool   `toml:"time_optional,omitempty"`
	// Unit is the timestamp's; empty is seconds.
	Unit Unit `toml:"unit,omitempty"`
	// Tolerance is how far the timestamp may be from now in both directions; 0
	// means that age is not checked.
	Tolerance Duration `toml:"tolerance,omitempty"`
}

// Place is where a further signature is. Secret, if set, is the label of the only
// secret it may match, as long as a secret with that label is configured.
type Place struct {
	In     string `toml:"in"`
	Secret string `toml:"secret,omitempty"`
}

// HMAC is a signature under a shared secret.
type HMAC struct {
	Scheme
	// Digest is the hash function; empty is sha256.
	Digest Digest `toml:"digest,omitempty"`
	// DigestIn locates the name of the digest in the request, and Digests says
	// what the names mean; a name not in it is malformed, and where there is none
	// Digest is used. The option `algorithms` narrows the names down.
	DigestIn string            `toml:"digest_in,omitempty"`
	Digests  map[string]Digest `toml:"digests,omitempty"`
	// Secret is the form of the secret; empty is raw. Suffix is put after the key.
	Secret SecretForm `toml:"secret,omitempty"`
	Suffix string     `toml:"suffix,omitempty"`
	// Plain makes it a plain digest of the template, which then holds {secret}.
	Plain bool `toml:"plain,omitempty"`
}

// Token is a shared secret sent as it is.
type Token struct {
	// In locates it; places with `??` between are tried in order.
	In string `toml:"in"`
	// Prefix stands before it in a header, as in `Bearer `; its case does not
	// count. Other places have none.
	Prefix string `toml:"prefix,omitempty"`
	// Each is the JSON path of an array: the token must be in every element, and
	// In is followed there.
	Each string `toml:"each,omitempty"`
}

// Basic is HTTP Basic authentication; the secret is `user:password`.
type Basic struct{}

// Algorithm names a public-key signature.
type Algorithm string

// The algorithms. Those with SHA-1 are taken only where a provider has nothing
// else.
const (
	ECDSASHA1    Algorithm = "ecdsa-sha1"
	ECDSASHA256  Algorithm = "ecdsa-sha256"
	Ed25519      Algorithm = "ed25519"
	RSASHA1      Algorithm = "rsa-sha1"
	RSASHA256    Algorithm = "rsa-sha256"
	RSASHA512    Algorithm = "rsa-sha512"
	RSAPSSSHA256 Algorithm = "rsa-pss-sha256"
)

// PublicKey is a signature that anyone can check. Keys are PEM, base64 of a DER
// SubjectPublicKeyInfo, or for Ed25519 also the 32 bytes in hex, base64 or `whpk_`.
type PublicKey struct {
	Scheme
	Algorithm Algorithm `toml:"algorithm"`
	// Keys says where keys are fetched; nil takes configured keys only.
	Keys *KeySource `toml:"keys,omitempty"`
}

// JWT is a JSON Web Token that vouches for the request.
type JWT struct {
	// In locates it; `body:` is the whole body, whose claims are then the event.
	In string `toml:"in"`
	// Prefix stands before it, as in `Bearer `; its case does not count.
	// PrefixOptional takes tokens without it as well.
	Prefix         string `toml:"prefix,omitempty"`
	PrefixOptional bool   `toml:"prefix_optional,omitempty"`
	// Algorithms are the only ones taken: HS*, RS*, PS*, ES* or EdDSA. HS* are
	// checked with secrets and all others with public keys, never one with the
	// other.
	Algorithms []string `toml:"algorithms"`
	// Keys says where public keys are fetched; nil takes configured keys only.
	Keys *KeySource `toml:"keys,omitempty"`
	// Detached takes the body as the payload of a token that has none.
	Detached bool `toml:"detached,omitempty"`
	// Claims must be there with the value given: a literal, `$option` for a
	// setting of the source, `$option?` for one that may be unset and then is not
	// checked, `@url` for the URL as called, or `*` for any value. Where the claim
	// is a list (as aud may be), one of its elements has to be the value.
	Claims map[string]string `toml:"claims,omitempty"`
	// BodyHash is the claim with the SHA-256 of the body and HashEncoding how it
	// is written (empty is hex). BodyHashOptional takes tokens without it;
	// NoHashEmpty wants it absent exactly where the body is empty.
	BodyHash         string   `toml:"body_hash,omitempty"`
	HashEncoding     Encoding `toml:"hash_encoding,omitempty"`
	BodyHashOptional bool     `toml:"body_hash_optional,omitempty"`
	NoHashEmpty      bool     `toml:"no_hash_empty,omitempty"`
	// URLHash is the claim with the hex SHA-256 of the URL as called; QueryHash
	// the one with Atlassian's query string hash.
	URLHash   string `toml:"url_hash,omitempty"`
	QueryHash string `toml:"query_hash,omitempty"`
	// Leeway is how far exp, nbf and iat may be off; MaxAge is how old iat may be
	// (0 is any age).
	Leeway Duration `toml:"leeway,omitempty"`
	MaxAge Duration `toml:"max_age,omitempty"`
}

// KeySource says where public keys are fetched and what is believed of the
// request about it.
type KeySource struct {
	// Kind is jwks, pem or x509 (a certificate, with its chain if there is one).
	Kind string `toml:"kind"`
	// URL is where they are; {option:NAME} in it is a setting of the source.
	URL string `toml:"url,omitempty"`
	// In locates the URL in the request, and Base is put before what is found.
	In   string `toml:"in,omitempty"`
	Base string `toml:"base,omitempty"`
	// Hosts are the only hosts asked where the request names the URL; `*` stands
	// for one label. Path is what its path must look like; `*` stands for
	// anything.
	Hosts []string `toml:"hosts,omitempty"`
	Path  string   `toml:"path,omitempty"`
	// KeyID locates the ID of the key in a key set; tokens name it themselves.
	KeyID string `toml:"key_id,omitempty"`
	// Name is a DNS name the certificate must be made out to (`.x.test` is any
	// below x.test), and Chain demands a chain to a trusted root.
	Name  string `toml:"name,omitempty"`
	Chain bool   `toml:"chain,omitempty"`
}
