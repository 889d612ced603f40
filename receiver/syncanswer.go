package receiver

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/onceward/onceward/dedupe"
)

const headerExpires = "Onceward-Key-Expires"

// writeTime is how long a caller may take to read an answer.
const writeTime = 60 * time.Second

// giveStored answers with the stored answer of a key. Chunks are read as they
// are written out; one that can't be read cuts the connection, so that nobody
// takes a part for the whole.
func (c *call) giveStored(k *dedupe.SyncKey, replayed bool) outcome {
	a := &k.Answer
	var chunk []byte
	if a.Chunks() > 0 { // the first one before the status line
		var err error
		if chunk, err = c.r.cfg.Keys.SyncChunk(c.req.Context(), k, 0); err != nil {
			return c.notAdmitted(err)
		}
	}
	h := c.w.Header()
	for _, f := range a.Header {
		h.Add(f.Name, f.Value)
	}
	c.withoutSniffing(h)
	h.Set(headerExpires, k.Expires.UTC().Format(http.TimeFormat))
	out := outAccepted
	if replayed {
		out = outRepeat
		h["Idempotent-Replayed"] = headerReplayed
		c.r.replays.add(k.Key)
		c.src.st.hits.Inc()
	}
	if bodyAllowed(a.Status) {
		h["Content-Length"] = []string{strconv.FormatInt(a.Length, 10)}
	}
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(writeTime))
	c.w.WriteHeader(a.Status)
	if !bodyAllowed(a.Status) {
		return out
	}
	if a.Chunks() == 0 {
		_, _ = c.w.Write(a.Body)
		return out
	}
	c.writeChunks(k, chunk)
	return out
}

// writeChunks writes a body chunk by chunk; the first is at hand.
func (c *call) writeChunks(k *dedupe.SyncKey, chunk []byte) {
	for n := 0; ; {
		if _, err := c.w.Write(chunk); err != nil {
			return // the caller has gone
		}
		if n++; n == k.Answer.Chunks() {
			return
		}
		_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(writeTime))
		var err error
		if chunk, err = c.r.cfg.Keys.SyncChunk(c.req.Context(), k, n); err != nil {
			c.complain("stored answer can't be read", err)
			panic(http.ErrAbortHandler)
		}
	}
}

// withoutSniffing keeps net/http from guessing a content type that the target
// did not send, and browsers from guessing another.
func (c *call) withoutSniffing(h http.Header) {
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil
	}
	h["X-Content-Type-Options"] = headerNoSniff
	if len(c.req.TransferEncoding) > 0 || c.r.draining.Load() {
		h["Connection"] = headerClose
	}
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// passOn forwards a request that takes no part in deduplication, once, and
// passes the answer as it comes. It ends when the caller leaves.
func (c *call) passOn(out outcome) outcome {
	resp, err := c.r.cfg.Outbound.Call(c.req.Context(), c.src.sync.Target, &Outgoing{
		Method: c.req.Method, Path: c.suffix, Query: c.req.URL.RawQuery, Header: c.passing(), Body: c.body,
		Source: c.src.name, Trace: c.trace().ctx.String(), ReceivedAt: c.start,
	})
	var ce *CallError
	switch {
	case err != nil && errors.As(err, &ce) && !ce.Sent:
		c.r.send(c.w, c.req, &problemReach)
		return outUnreachable
	case err != nil:
		if c.req.Context().Err() != nil {
			return outGone
		}
		c.r.send(c.w, c.req, &problemNoAnswer)
		return outUnreachable
	}
	defer resp.Body.Close()
	if isEventStream(resp.Header.Get("Content-Type")) {
		c.r.send(c.w, c.req, &problemStream)
		return out
	}
	h := c.w.Header()
	for _, f := range (&job{src: c.src}).back(resp) {
		h.Add(f.Name, f.Value)
	}
	c.withoutSniffing(h)
	if resp.ContentLength >= 0 && bodyAllowed(resp.StatusCode) {
		h["Content-Length"] = []string{strconv.FormatInt(resp.ContentLength, 10)}
	}
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(c.r.cfg.Outbound.CallTimeout(c.src.sync.Target) + writeTime))
	c.w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(c.w, resp.Body); err != nil {
		panic(http.ErrAbortHandler) // a part must not look like the whole
	}
	return out
}
