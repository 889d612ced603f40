package receiver

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// budget bounds the body bytes held by all requests together.
type budget struct {
	max  int64
	used atomic.Int64
}

// take reserves n bytes, or nothing when they are not there.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.max && edgeLimits {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// How reading a body may end.
var (
	errBodyTooLarge = errors.New("body is larger than the limit")
	errBodyTimeout  = errors.New("body came too slowly")
	errBodyBroken   = errors.New("body ended early or is not framed as it should be")
	errBusy         = errors.New("too many body bytes in flight")
)

// firstStep is what an unproven sender gets reserved. Larger bodies earn
// their memory by sending: else a few thousand senders that declare much and
// send nothing would use the whole budget up.
const firstStep = 4 << 10

// readBody reads the whole body. held is what it took from the budget, also
// when it fails; the caller gives it back when nothing needs the body any
// more. The limit counts bytes read, whatever length was declared.
func (r *Receiver) readBody(req *http.Request, limit int64) (body []byte, held int64, err error) {
	want := req.ContentLength // -1 when not declared
	if want > limit {
		return nil, 0, errBodyTooLarge
	}
	size := int64(firstStep)
	if want >= 0 {
		size = min(size, want)
	}
	for {
		if !r.budget.take(size) {
			return nil, held, errBusy
		}
		held += size
		grown := make([]byte, len(body), size)
		copy(grown, body)
		r.budget.give(int64(cap(body)))
		held -= int64(cap(body))
		body = grown
		done, err := fill(req.Body, &body)
		switch {
		case err != nil:
			return nil, held, err
		case int64(len(body)) > limit:
			return nil, held, errBodyTooLarge
		case done && want >= 0 && int64(len(body)) != want:
			return nil, held, errBodyBroken
		case done, int64(len(body)) == want:
			return body, held, nil
		}
		size *= 4
		if want >= 0 {
			size = min(size, want)
		} else {
			size = min(size, limit+1)
		}
	}
}

// fill reads until buf is full or the body ends; done says that it ended.
func fill(src io.Reader, buf *[]byte) (done bool, err error) {
	for len(*buf) < cap(*buf) {
		n, err := src.Read((*buf)[len(*buf):cap(*buf)])
		*buf = (*buf)[:len(*buf)+n]
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, classifyRead(err)
		}
	}
	return false, nil
}

// How much of a refused body is read to its end, and for how long.
const (
	restBytes = 1 << 20
	restTime  = 5 * time.Second
)

// readRest reads what is still to come of a body that is refused and keeps
// nothing of it, unless that is too much or takes too long. A sender that is
// still writing when its connection is closed may never read why: what comes
// after the close has the kernel throw the answer away.
func (c *call) readRest() {
	if c.req.ContentLength > restBytes || http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(restTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c.req.Body, restBytes) // what fails is answered all the same
}

func classifyRead(err error) error {
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return errBodyTimeout
	}
	return errBodyBroken
}
