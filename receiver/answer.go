package receiver

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

// answer is an HTTP answer ready to be sent any number of times. Its header
// values are shared between requests and never changed.
type answer struct {
	status      int
	contentType []string // nil for none
	header      []headerLine
	body        []byte
}

type headerLine struct {
	name   string // canonical
	values []string
}

const (
	typeJSON = "application/json"
	typeText = "text/plain; charset=utf-8"
)

// Header values that are the same on every answer.
var (
	headerJSON     = []string{typeJSON}
	headerText     = []string{typeText}
	headerNoSniff  = []string{"nosniff"}
	headerClose    = []string{"close"}
	headerReplayed = []string{"true"}
)

// How long a provider is asked to wait, in seconds.
const (
	retrySoon    = 5  // overload passes
	retryLater   = 30 // the ledger needs help
	retryOffline = 60 // the configuration does
)

// The answers that are the same for every source. Read-only.
var (
	answerUnknown   = fixed(http.StatusNotFound, "not found")
	answerMethod    = fixed(http.StatusMethodNotAllowed, "method not allowed")
	answerEncoding  = fixed(http.StatusUnsupportedMediaType, "content encoding not supported")
	answerTooLarge  = fixed(http.StatusRequestEntityTooLarge, "body too large")
	answerSlow      = fixed(http.StatusRequestTimeout, "body too slow")
	answerBroken    = fixed(http.StatusBadRequest, "body incomplete")
	answerMalformed = fixed(http.StatusBadRequest, "body malformed")
	answerNoID      = fixed(http.StatusBadRequest, "no event id")
	answerElements  = fixed(http.StatusRequestEntityTooLarge, "too many events in one request")
	answerConflict  = fixed(http.StatusUnprocessableEntity, "key already used with another body")
	answerFault     = fixed(http.StatusInternalServerError, "internal error")
	answerRefused   = fixed(http.StatusUnauthorized, "not authentic").
			with("Www-Authenticate", `Webhook realm="onceward"`)
	answerLive     = answer{status: http.StatusOK, contentType: headerText, body: []byte("ok\n")}
	answerNotReady = answer{status: http.StatusServiceUnavailable, contentType: headerText, body: []byte("not ready\n")}
)

func fixed(status int, problem string) answer {
	return answer{status: status, contentType: headerJSON, body: []byte(`{"error":"` + problem + `"}`)}
}

func (a answer) with(name, value string) answer {
	a.header = append(a.header[:len(a.header):len(a.header)], headerLine{name, []string{value}})
	return a
}

// newAnswer prepares what a row or a handshake says, with status where it
// says none. Text that names no type is plain text and never anything a
// browser would run.
func newAnswer(v verify.Answer, status int) answer {
	a := answer{status: firstOf(v.Status, status), body: v.Body}
	for name, value := range v.Header {
		a = a.with(http.CanonicalHeaderKey(name), value)
	}
	switch {
	case v.ContentType != "":
		a.contentType = []string{v.ContentType}
	case len(v.Body) > 0:
		a.contentType = headerText
	}
	return a
}

func (c *compiled) compileAnswers() {
	given := c.row.Answer
	if !c.src.Answer.IsZero() {
		given = c.src.Answer
	}
	if !given.IsZero() {
		c.answer = newAnswer(given, http.StatusOK)
		c.stored = event.Answer{Status: c.answer.status, Body: given.Body}
		if ct := c.answer.contentType; ct != nil {
			c.stored.ContentType = ct[0]
		}
	}
	c.refusal = answerRefused
	if c.row.Refusal != nil {
		c.refusal = newAnswer(*c.row.Refusal, http.StatusUnauthorized)
	}
	c.overload = firstOf(c.row.OverloadStatus, http.StatusServiceUnavailable)
	c.notAllowed = answerMethod.with("Allow", c.allow)
}

// send writes the answer. Connections on which more bytes of this request may
// come, or come in a framing that others may read differently, end with it.
func (r *Receiver) send(w http.ResponseWriter, req *http.Request, a *answer) {
	h := w.Header()
	for i := range a.header {
		h[a.header[i].name] = a.header[i].values
	}
	if a.contentType != nil {
		h["Content-Type"] = a.contentType
	}
	h["X-Content-Type-Options"] = headerNoSniff
	if mustClose(a.status) || len(req.TransferEncoding) > 0 || !req.ProtoAtLeast(1, 1) || r.draining.Load() {
		h["Connection"] = headerClose
	}
	w.WriteHeader(a.status)
	if len(a.body) > 0 && a.status != http.StatusNoContent && a.status != http.StatusNotModified {
		// The sender may have gone; there is nobody left to tell.
		_, _ = w.Write(a.body)
	}
}

func mustClose(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestTimeout ||
		status == http.StatusRequestEntityTooLarge
}

// busy asks the sender to come back.
func (c *call) busy(out outcome, seconds int) outcome {
	a := fixed(c.src.overload, "try again later").with("Retry-After", strconv.Itoa(seconds))
	c.r.send(c.w, c.req, c.shaped(&a))
	return out
}

// giveBack sets the headers that the provider wants to see again.
func (c *call) giveBack() {
	for name, value := range c.echo {
		c.w.Header().Set(name, value)
	}
}

// answerOne tells the sender of a single event what became of it. A repeat is
// told what the first was told.
func (c *call) answerOne(out *dedupe.Outcome, replayed bool) {
	c.giveBack()
	given, a := c.src.stored, c.src.answer
	if replayed {
		given = out.Answer
		a.status, a.body, a.contentType = given.Status, given.Body, nil
		if given.ContentType != "" {
			a.contentType = []string{given.ContentType}
		}
		c.w.Header()["Idempotent-Replayed"] = headerReplayed
	}
	if given.IsZero() {
		a = answer{status: http.StatusOK, contentType: headerJSON}
		a.body = appendAccepted(make([]byte, 0, 96+len(out.ID)), out.ID, out.Ref)
	}
	c.r.send(c.w, c.req, &a)
}

// maxListed bounds the refs in the answer to a batch.
const maxListed = 100

// answerBatch lists the refs of a batch in order: those of the first arrival,
// so that a batch sent again whole is answered with the same bytes.
func (c *call) answerBatch(outs []dedupe.Outcome, replayed bool) {
	c.giveBack()
	if replayed {
		c.w.Header()["Idempotent-Replayed"] = headerReplayed
	}
	a := c.src.answer
	if c.src.stored.IsZero() {
		body := append(make([]byte, 0, 64+29*min(len(outs), maxListed)), `{"status":"accepted","events":[`...)
		for i := range outs[:min(len(outs), maxListed)] {
			if i > 0 {
				body = append(body, ',')
			}
			body = append(append(append(body, '"'), outs[i].Ref.String()...), '"')
		}
		body = strconv.AppendInt(append(body, `],"count":`...), int64(len(outs)), 10)
		a = answer{status: http.StatusOK, contentType: headerJSON, body: append(body, '}')}
	}
	c.r.send(c.w, c.req, &a)
}

func appendAccepted(b []byte, id string, ref event.Ref) []byte {
	b = append(b, `{"status":"accepted","event_id":`...)
	b = appendJSON(b, id)
	b = append(b, `,"ref":"`...)
	b = append(b, ref.String()...)
	return append(b, `"}`...)
}

// appendJSON appends s as a JSON string.
func appendJSON(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			enc, err := json.Marshal(s)
			if err != nil { // not possible for a string
				return append(b, `""`...)
			}
			return append(b, enc...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
