package verify

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net/http"
	"sync"
	"time"
)

// Config is what a [Verifier] is made from.
type Config struct {
	// Row is the provider.
	Row Row
	// Auth names the mode; empty is the row's first mode that may be a default.
	Auth string
	// Secrets are the shared secrets; any may match. None at all makes a verifier
	// that refuses everything with [ReasonNoSecret].
	Secrets []Secret
	// PublicKeys are the keys of public-key modes.
	PublicKeys []Secret
	// PublicURL replaces [Request.URL] up to the query where the provider signs
	// the URL it was given. Empty takes the request's.
	PublicURL string
	// Options are the settings of the row, by the names in [Row.Options].
	Options map[string]string
	// Fetcher gets keys for the rows that have them fetched. Nil refuses what would
	// need one with [ReasonKeyUnavailable]; then Verify does no I/O at all.
	Fetcher Fetcher
	// Roots are what certificates are traced back to where a row demands it; nil
	// is the system's.
	Roots *x509.CertPool
	// Batch is "split" (the default: one event per element) or "keep" (one event
	// per request).
	Batch string
	// MaxBatch bounds the elements of a batch; 0 is [DefaultMaxBatch].
	MaxBatch int
	// Tolerance replaces the row's wherever there is a timestamp; 0 keeps it.
	Tolerance time.Duration
	// Guard replaces the row's; empty keeps it.
	Guard Guard
}

// Request is what arrived, byte for byte.
type Request struct {
	Method string
	// URL is the public URL as the provider called it, with its query.
	URL string
	// RawQuery is the query as it arrived.
	RawQuery string
	// Header has canonical keys, as net/http makes them.
	Header http.Header
	Body   []byte
	// Now is the time of arrival.
	Now time.Time
}

// Result is what Verify found.
type Result struct {
	// Reason is OK where the request is authentic.
	Reason Reason
	// Detail explains the reason to the operator. It never holds a secret, a
	// signature or bytes of the body.
	Detail string
	// Secret and Caller are the label and the caller of the secret that matched.
	Secret, Caller string
	// Skew is how long before Now the request was signed; negative is later.
	Skew time.Duration
	// HasSkew says that there was a readable timestamp.
	HasSkew bool
	// Events are in order. Nil with a handshake; empty for an empty batch.
	Events []Event
	// Split says that the events are elements of a batch body.
	Split bool
	// Handshake, where set, is to be answered, and nothing is to be stored.
	Handshake *Answer
	// Refusal, where set, is what a failed handshake is answered with in place of
	// the row's refusal.
	Refusal *Answer
	// Action, where set, has to happen beside the handshake's answer.
	Action *Action
	// Echo holds headers that the answer of success has to carry.
	Echo map[string]string
	// Guard is the SHA-256 of the signed bytes and the type header.
	Guard    [32]byte
	HasGuard bool

	lacksTime bool // the timestamp should be in the body and is not
}

// Event is one event of an authentic request.
type Event struct {
	// ID is the provider's ID of it; empty where there is none.
	ID string
	// Type is the provider's type of it; empty where there is none.
	Type string
	// Offset and Length are its exact slice of the request's body.
	Offset, Length int
}

// authenticator is one family made ready for requests.
type authenticator interface {
	// verify says whether the request is authentic; it never takes events.
	verify(x *exchange) Result
	// writeSigned sends the covered bytes to w, false where nothing is signed.
	writeSigned(x *exchange, w io.Writer) bool
	// covers and coversBody say what the signature protects.
	covers(l locator) bool
	coversBody() bool
	// offline reports that there is nothing to verify with.
	offline() bool
}

// Verifier checks the requests of one source. It is safe for concurrent use.
type Verifier struct {
	row        Row
	mode       Mode
	auth       authenticator
	keys       []key // of the families with shared secrets
	read       reader
	require    conditions
	opener     *opener
	handshakes []*handshake
	echo       []string
	options    map[string]string
	guard      Guard
	publicURL  string
	pool       sync.Pool
}

// Row returns the row in effect: with the mode's and the options' settings
// applied and the headers they imply listed. Headers, limits and policies are to
// be taken from here.
func (v *Verifier) Row() Row { return v.row.clone() }

// Mode returns the name of the mode in effect.
func (v *Verifier) Mode() string { return v.mode.Name }

// Guard returns the replay guard in effect, GuardOff where there is none.
func (v *Verifier) Guard() Guard { return v.guard }

// Offline reports whether there is nothing to verify with and no secret is waited
// for; then every request is refused with [ReasonNoSecret].
func (v *Verifier) Offline() bool {
	for _, h := range v.handshakes {
		if h.capture != nil && h.pending {
			return false
		}
	}
	return v.auth.offline()
}

// Verify says whether r is authentic and what it holds. It never panics and is
// pure, except that rows with fetched keys ask [Config.Fetcher]; it keeps no
// reference to r, but the text of IDs and types may share memory with its headers.
func (v *Verifier) Verify(r *Request) Result { return v.VerifyContext(context.Background(), r) }

// VerifyContext is Verify; ctx bounds the wait for keys that are fetched.
func (v *Verifier) VerifyContext(ctx context.Context, r *Request) Result {
	x, _ := v.pool.Get().(*exchange)
	if x == nil {
		x = new(exchange)
	}
	x.req, x.url, x.options, x.ctx = r, v.signedURL(r), v.options, ctx
	res := v.run(x)
	x.reset()
	v.pool.Put(x)
	return res
}

func (v *Verifier) run(x *exchange) Result {
	if res, done := v.greet(x); done {
		return res
	}
	if !v.require.hold(x) {
		return v.lacksRequired(x)
	}
	res := v.auth.verify(x)
	if res.Reason != OK {
		return res
	}
	if open := v.openAll(x); open.Reason != OK {
		return spoil(res, open.Reason, open.Detail)
	}
	for _, h := range v.handshakes {
		if h.rule.Verify && h.matches(x) {
			return h.run(x, res, v.keys)
		}
	}
	if res = v.read.events(x, res); res.Reason != OK {
		return res
	}
	v.addEcho(x, &res)
	if v.guard != GuardOff {
		res.Guard, res.HasGuard = v.guardSum(x)
	}
	return res
}

// greet answers handshakes that come before verification. Those that may come
// encrypted are looked for inside.
func (v *Verifier) greet(x *exchange) (res Result, done bool) {
	opened := false
	for _, h := range v.handshakes {
		if h.rule.Verify || !h.pending {
			continue
		}
		if v.opener != nil && !opened {
			opened = true
			_ = v.opener.apply(x) // what can't be opened is no handshake
		}
		if h.matches(x) {
			return h.run(x, Result{}, v.keys), true
		}
	}
	if opened {
		x.clear()
	}
	return Result{}, false
}

// lacksRequired says that a request lacks what all of its kind have. A request
// without any signature is refused as such.
func (v *Verifier) lacksRequired(x *exchange) Result {
	if res := v.auth.verify(x); res.Reason == ReasonSignatureMissing || res.Reason == ReasonNoSecret {
		return res
	}
	return refuse(ReasonSignatureMismatch, "what every request of this kind has is absent or another")
}

// addEcho copies the headers that the answer has to carry.
func (v *Verifier) addEcho(x *exchange, res *Result) {
	for _, name := range v.echo {
		s, p := single(x.req.Header[name])
		if p != once || s == "" || len(s) > maxEcho {
			continue
		}
		if res.Echo == nil {
			res.Echo = map[string]string{}
		}
		res.Echo[name] = s
	}
}

// signedURL is the URL the provider was given.
func (v *Verifier) signedURL(r *Request) string {
	if v.publicURL == "" {
		return r.URL
	}
	if r.RawQuery == "" {
		return v.publicURL
	}
	return v.publicURL + "?" + r.RawQuery
}

// guardSum is the SHA-256 of the signed bytes and the event type's header, each
// followed by its length, so that no two pairs give the same text.
func (v *Verifier) guardSum(x *exchange) (sum [32]byte, ok bool) {
	h := sha256.New()
	n := &counter{w: h}
	if !v.auth.writeSigned(x, n) {
		return sum, false
	}
	var frame [8]byte
	binary.BigEndian.PutUint64(frame[:], n.n)
	_, _ = h.Write(frame[:])
	typ := ""
	if l, ok := firstHeader(v.read.typ); ok {
		typ, _ = l.find(x, nil)
	}
	_, _ = io.WriteString(h, typ)
	binary.BigEndian.PutUint64(frame[:], uint64(len(typ)))
	_, _ = h.Write(frame[:])
	h.Sum(sum[:0])
	return sum, true
}

// counter counts what passes.
type counter struct {
	w io.Writer
	n uint64
}

func (c *counter) Write(b []byte) (int, error) {
	c.n += uint64(len(b))
	return c.w.Write(b)
}
