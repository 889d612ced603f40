package receiver

import (
	"context"
	"sync/atomic"

	"github.com/onceward/onceward/verify"
)

// maxWaiting bounds the requests of one source that are verified at once where
// that may mean to wait for keys.
const maxWaiting = 64

// waiting counts the requests of one source that may wait for keys, and what
// they hold meanwhile, so that a key server that doesn't answer can't use up
// what all sources share.
type waiting struct{ requests, bytes atomic.Int64 }

// enter takes a place, or nothing when there is none. One request always has
// a place, however large it is.
func (w *waiting) enter(size, most int64) bool {
	n, held := w.requests.Add(1), w.bytes.Add(size)
	if n > maxWaiting || held > most && n > 1 {
		w.leave(size)
		return false
	}
	return true
}

func (w *waiting) leave(size int64) {
	w.requests.Add(-1)
	w.bytes.Add(-size)
}

// verify has the request verified. Where keys may have to be fetched it waits
// no longer than the provider does; ok is false where too many wait already.
func (c *call) verify() (res verify.Result, ok bool) {
	req := &verify.Request{
		Method: c.req.Method, URL: c.publicURL(), RawQuery: c.req.URL.RawQuery,
		Header: c.req.Header, Body: c.body, Now: c.start,
	}
	if !c.src.fetches {
		return c.src.verifier.Verify(req), true
	}
	size := int64(cap(c.body))
	if !c.src.st.waiting.enter(size, c.r.budget.max/4) {
		return verify.Result{}, false
	}
	defer c.src.st.waiting.leave(size)
	ctx, cancel := context.WithTimeout(c.req.Context(), c.src.admission)
	defer cancel()
	return c.src.verifier.VerifyContext(ctx, req), true
}
