// Package verify says whether a request is authentic, what its events and
// their IDs are, and how to answer a handshake. It imports nothing else of
// this module and may be used as a library alone.
//
// What always holds:
//
//   - A provider is a [Row]: data, not code. Rows are Go literals in one
//     alphabetical table, and the same type can be read from a config file.
//   - [New] parses every template, locator and key once and reports all faults
//     together. [Verifier.Verify] has no global state, no clock but [Request.Now],
//     and never panics, whatever the bytes. It does no I/O, except that rows with a
//     [KeySource] ask the [Fetcher] they were given, and never one they were not.
//   - The signature is computed over the exact bytes received. Nothing is ever
//     parsed and encoded again before it is compared, except where a provider signs
//     just that; such template parts have a file of their own.
//   - The signature is checked before the timestamp, and both before any event
//     is taken from the body: a result that is not [OK] has no events.
//   - Secrets, tokens and digests are compared in constant time only. An empty
//     secret is refused by New and so never verifies anything. No error, reason
//     or detail contains a secret, a signature or bytes of a body.
//   - Work is bounded by the size of the request: a signature header is read up
//     to a fixed length and a fixed number of candidates, JSON up to a fixed
//     depth, a batch up to a fixed number of elements.
//   - An event ID is text the sender chose, byte for byte: never trimmed, never
//     folded; numbers keep their literal text. What is absent, empty, null, an
//     object or an array is no ID. Where a JSON object has one key twice, the
//     first one counts.
//
// # How to write a row
//
// A row goes into the rows_*.go file of its first letter, in alphabetical order,
// with a link to the provider's own page, and its vectors into
// testdata/vectors/NAME.json. Facts that nobody confirmed are listed in
// Unconfirmed. Pick the family that fits:
//
//	// The body under a shared secret.
//	{Name: "acme", HMAC: …} // in full:
//	{
//		Name: "acme", Title: "Acme", Docs: "https://docs.acme.example/webhooks",
//		Modes: []Mode{{Name: "signature", HMAC: &HMAC{Scheme: Scheme{
//			Sig: "header:X-Acme-Signature", Prefix: "sha256=", Signed: "{body}",
//		}}}},
//		ID: []string{"json:id"}, Type: []string{"json:type"},
//		NeverID: []string{"json:attempt"},
//		NoID: NoIDBodyHash, OnConflict: OnConflictAck, IDSigned: true, BodySigned: true, BodyStable: true,
//		Retries: 24 * hour, Window: 3 * day, Patience: 10 * second,
//	}
//	// A time and signatures in one header: t=…,v1=…; Sep for other separators.
//	Scheme{Sig: "header:Acme-Signature", Format: FormatKV, Key: "v1", Signed: "{timestamp}.{body}",
//		Timestamp: "sig:t", Tolerance: defaultTolerance}
//	// A time header of its own, in milliseconds.
//	Scheme{Sig: "header:X-Sig", Encoding: Base64, Signed: "{timestamp}:{body}",
//		Timestamp: "header:X-Time", Unit: Milliseconds, Tolerance: defaultTolerance}
//	// Standard Webhooks, under any prefix of its headers.
//	Mode{Name: "hmac", HMAC: &HMAC{Scheme: standardWebhooks("Webhook", "v1"), Secret: SecretWhsec}}
//	// A time first, then signatures: 1700000000000,ab,cd.
//	Scheme{Sig: "header:X-Sig", Format: FormatPositional, Signed: "{timestamp}.{body}", Timestamp: "sig:0", Unit: Milliseconds}
//	// A signature per configured key; `#` stands for 1, 2, 3 … .
//	Scheme{Sig: "header:X-Sig-#", Encoding: Base64, Signed: "{body}"}
//	// Two headers, each for one key, and further headers that must be right.
//	Mode{Require: []string{"header:X-Version=1"}, HMAC: &HMAC{Scheme: Scheme{Sig: "header:X-Primary",
//		More: []Place{{In: "header:X-Secondary"}}, Signed: "{body}{timestamp}", Timestamp: "header:X-Time", Unit: RFC3339}}}
//	// A signature inside the body, the query, or either.
//	Scheme{Sig: "json:signature.value ?? form:signature", Signed: "{timestamp}{json:signature.token ?? form:token}",
//		Timestamp: "json:signature.timestamp ?? form:timestamp"}
//	// A plain digest with the secret in it.
//	HMAC{Plain: true, Digest: SHA1, Scheme: Scheme{Sig: "header:X-Sig", Signed: "{body}{timestamp}{secret}", Timestamp: "header:X-Time"}}
//	// A token as it is; Each where every element carries it.
//	Token{In: "header:Authorization ?? query:access_token", Prefix: "Bearer "}
//	Token{In: "json:clientState", Each: "value"}
//	// A secret in the URL that the operator registers.
//	Token{In: "query:token"}
//	// A public key.
//	PublicKey{Algorithm: Ed25519, Scheme: Scheme{Sig: "header:X-Sig", Signed: "{timestamp}{body}", Timestamp: "header:X-Time"}}
//	// A public key that is fetched: from a fixed set of keys, or a certificate
//	// whose URL the request names and the row bounds.
//	KeySource{Kind: "jwks", URL: "https://keys.acme.example/jwks.json", KeyID: "header:X-Key-Id"}
//	KeySource{Kind: "x509", In: "header:X-Cert-Url", Hosts: []string{"api.acme.example"}, Path: "/certs/*", Name: "acme.example", Chain: true}
//	// A JSON Web Token.
//	JWT{In: "header:Authorization", Prefix: "Bearer ", Algorithms: []string{"HS256"},
//		Claims: map[string]string{"iss": "acme", "aud": "$audience"}, BodyHash: "sha256", MaxAge: defaultTolerance}
//
// Locators are written
//
//	header:NAME  query:NAME  form:FIELD (URL-encoded or multipart)
//	json:PATH    dots between keys, numbers index arrays, * in a key matches anything;
//	             in a batch it looks into the element
//	body:PATH    the same, but always from the top of the body
//	parent:PATH  the same, in what encloses the element
//	xml:a/b      text of an element below the root, by local names
//	key:a,b      the name of the first top-level key among these; a* and *a match,
//	             and key:!a is the first that is not a
//	claim:NAME   a claim of the token that was verified
//	sig:KEY      an entry of the signature's own list
//	text:WORD    the word itself
//	path:        the path of the URL
//
// and go on inside what they find with |json:PATH, |xml:PATH, |form:FIELD,
// |base64, |lower and |sha256 (hex; also of JSON objects), as in
// `form:payload|json:id`. A list of locators is tried in order. Parts of one
// composite are joined with +, as in `json:a+json:b`: for an ID each part is
// escaped and they are joined with colons, for a type they are joined with dots.
// A composite with a missing part is missing as a whole.
//
// Templates of signed bytes hold literals and
//
//	{body} {timestamp} {id} {url} {method} {form} {secret}
//	{url_decoded}      HubSpot's decoding of a few escapes
//	{path}             path and query of the URL
//	{body_ascii}       the body with all beyond ASCII as \uXXXX
//	{body_base64}      the body in base64
//	{body_sha256}      the 32 bytes of its SHA-256
//	{sorted_query}     the query, sorted by name
//	{crc32}            the body's CRC-32 as a decimal number
//	{form_json}        a form's fields as a JSON object of strings, in their order
//	{form_php:FIELD}   a form's fields but FIELD in PHP's serialize format, sorted
//	{sorted:a,b}       values of locators (or secret), sorted as text, put together
//	{listed:LOCATOR}   values of the headers named there, with dots between
//	{none:LOCATOR}     nothing; the template does not fit where something is there
//	{option:NAME}      a setting of the source
//	{LOCATOR}          also with `??` between several: the first that is there
//
// In a plain digest {secret} is required; in an HMAC it may stand as well.
package verify
