package receiver

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

// Refusal is one refused request as the operator may see it. Credentials,
// signatures and headers that nobody vouches for are replaced by their
// length. It lives in memory only.
type Refusal struct {
	ID          string        `json:"id"` // 26 characters like a ref; names no event
	At          time.Time     `json:"at"`
	Source      string        `json:"source"` // "" when no source has the path
	Reason      string        `json:"reason"`
	Detail      string        `json:"detail"`
	Remote      string        `json:"remote"` // client address
	Method      string        `json:"method"`
	Path        string        `json:"path"`
	Header      []event.Field `json:"header"` // sorted by name
	BodyLength  int64         `json:"body_bytes"`
	BodySHA256  string        `json:"body_sha256"` // "" when the body was not read to its end
	Body        []byte        `json:"body"`        // at most 64 KiB from the start; none where it may hold a credential
	Skew        time.Duration `json:"skew_ns"`
	HasSkew     bool          `json:"has_skew"`
	BodyOmitted bool          `json:"body_omitted"` // by rule, not by size
}

// RefusalFilter selects refusals. Zero fields select everything.
type RefusalFilter struct {
	Source string
	Reason string
	Since  time.Time
	Limit  int // 0 is 100
}

// maxKeptBody bounds the body kept of one refusal.
const maxKeptBody = 64 << 10

// Bounds on what a refusal shows of a request line and its headers.
const (
	maxShownPath   = 256
	maxShownMethod = 16
	maxShownValue  = 512
	maxShownLines  = 50
)

// refuse counts, remembers and answers a request that is not admitted. It
// leaves no trace in the ledger.
func (c *call) refuse(reason, detail string, a *answer) outcome {
	c.note(&Refusal{Reason: reason, Detail: detail})
	c.r.send(c.w, c.req, c.shaped(a))
	return outRefused
}

// refuseResult is refuse for what verification found. A source none of whose
// secrets is valid now is offline, and one whose keys can't be had is busy.
func (c *call) refuseResult(res *verify.Result, a *answer) outcome {
	c.note(&Refusal{Reason: string(res.Reason), Detail: res.Detail, Skew: res.Skew, HasSkew: res.HasSkew})
	switch res.Reason {
	case verify.ReasonNoSecret:
		c.offline("no secret is valid now")
		return c.busy(outOffline, retryOffline)
	case verify.ReasonKeyUnavailable:
		// Nothing is known about the request; the provider has it still.
		return c.busy(outOverloaded, retryLater)
	}
	c.r.send(c.w, c.req, c.shaped(a))
	return outRefused
}

// note counts a refusal, keeps it in the ring, and logs it once in a while.
func (c *call) note(f *Refusal) {
	t := c.src.st.refused[f.Reason]
	t.inc()
	f.At, f.Source = c.start, c.src.name
	f.Remote = remoteOf(c.gen, c.req)
	f.Method, f.Path = clip(c.req.Method, maxShownMethod), clip(c.req.URL.EscapedPath(), maxShownPath)
	f.Header = c.src.redacted(c.req.Header)
	f.BodyLength = int64(len(c.body))
	if c.whole {
		f.BodySHA256 = event.HashOf(c.body).String()
	}
	switch {
	case !c.src.keepBody:
		f.BodyOmitted = len(c.body) > 0
	case cap(c.body) <= maxKeptBody:
		f.Body = c.body
	default:
		f.Body = slices.Clone(c.body[:min(len(c.body), maxKeptBody)])
	}
	c.r.rings.add(f)
	if held, ok := t.log.speak(c.start); ok {
		c.r.log.Warn("request refused", "event", "ingest.refused", "source", f.Source, "reason", f.Reason,
			"detail", f.Detail, "remote_ip", f.Remote, "body_bytes", f.BodyLength, "refusal", f.ID, "held_back", held)
	}
}

// noteUnknown is note for requests of no source: only the line is kept.
func (r *Receiver) noteUnknown(req *http.Request, gen *generation) {
	now := r.cfg.Now()
	t := r.unknown.refused[reasonUnknownSource]
	t.inc()
	f := &Refusal{
		At: now, Reason: reasonUnknownSource, Remote: remoteOf(gen, req),
		Method: clip(req.Method, maxShownMethod), Path: clip(req.URL.EscapedPath(), maxShownPath),
	}
	r.rings.add(f)
	if held, ok := t.log.speak(now); ok {
		r.log.Warn("no source has this path", "event", "ingest.unknown_source", "path", f.Path,
			"remote_ip", f.Remote, "held_back", held)
	}
}

func remoteOf(gen *generation, req *http.Request) string {
	a := gen.clientAddr(req.RemoteAddr, req.Header["X-Forwarded-For"])
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// clip copies at most n bytes of s, so that a refusal does not hold on to the
// header block it came from.
func clip(s string, n int) string {
	return string([]byte(s[:min(len(s), n)]))
}

// redacted is the header of a refused request: names, and values where they
// are known to be no credential.
func (c *compiled) redacted(h http.Header) []event.Field {
	names := make([]string, 0, min(len(h), maxShownLines))
	for name := range h {
		if len(names) == maxShownLines {
			break
		}
		names = append(names, name)
	}
	slices.Sort(names)
	out := make([]event.Field, 0, len(names))
	for _, name := range names {
		for _, v := range h[name] {
			if len(out) == maxShownLines {
				return out
			}
			if !c.show[name] {
				v = "[" + strconv.Itoa(len(v)) + " bytes]"
			}
			out = append(out, event.Field{Name: clip(name, maxShownValue), Value: clip(v, maxShownValue)})
		}
	}
	return out
}
