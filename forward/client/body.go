package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
)

// hidden is Header as net/http's transport doesn't look for it. On the wire
// names have no case.
var hidden = strings.ToLower(Header)

// body is where the attempts of one operation have their bytes from.
type body struct {
	length int64
	get    func() (io.ReadCloser, error) // nil when the bytes can be had once only
	once   io.ReadCloser                 // the caller's own, until it is used or closed
	sent   *counted                      // of the present attempt

	// connected says that the present attempt had a connection.
	connected atomic.Bool
}

// open takes over req's body: it is closed in the end, whatever happens.
func (t *Transport) open(req *http.Request) (*body, error) {
	b := &body{length: req.ContentLength, once: req.Body, get: req.GetBody}
	if req.Body == nil || req.Body == http.NoBody {
		b.length, b.once, b.get = 0, nil, nil
		return b, nil
	}
	if len(req.Trailer) > 0 {
		b.get = nil // its values are there once the bytes are read, and only once
		return b, nil
	}
	if b.get != nil && b.length != 0 || b.length > t.cfg.MaxBody {
		return b, nil
	}
	held, err := io.ReadAll(io.LimitReader(req.Body, t.cfg.MaxBody+1))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read request body: %w", err), req.Body.Close())
	}
	if int64(len(held)) > t.cfg.MaxBody {
		b.get = nil
		b.once = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(held), req.Body), req.Body}
		return b, nil
	}
	if b.length > 0 && b.length != int64(len(held)) {
		err := fmt.Errorf("request body has %d bytes, ContentLength says %d", len(held), b.length)
		return nil, errors.Join(err, req.Body.Close())
	}
	b.length = int64(len(held))
	b.get = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(held)), nil }
	return b, nil
}

// close closes the caller's body if no attempt took it.
func (b *body) close() {
	if b.once != nil {
		_ = b.once.Close()
		b.once = nil
	}
}

// again reports whether the bytes can be had again, and those of the last
// attempt were not at fault.
func (b *body) again() bool {
	return b.length == 0 && b.get == nil && b.sent == nil || b.get != nil && !b.sent.failed(b.length)
}

// take is the bytes of one attempt, nil for none.
func (b *body) take() (io.ReadCloser, error) {
	b.sent = nil
	var r io.ReadCloser
	switch {
	case b.get != nil && b.length == 0:
		return nil, nil
	case b.get != nil:
		var err error
		if r, err = b.get(); err != nil {
			b.get = nil
			return nil, fmt.Errorf("get request body again: %w", err)
		}
	case b.once != nil:
		r, b.once = b.once, nil
	default:
		return nil, nil
	}
	b.sent = &counted{ReadCloser: r}
	return b.sent, nil
}

// request is one attempt's own copy of req, made so that net/http's transport
// doesn't send it twice: its bytes can't be had again by the transport, and
// where there are none, the key doesn't look like one to it and a second
// connection ends the attempt before anything is written there.
func (b *body) request(ctx context.Context, cancel context.CancelCauseFunc, req *http.Request, key string) (*http.Request, error) {
	bytes, err := b.take()
	if err != nil {
		return nil, err
	}
	b.connected.Store(false)
	empty := bytes == nil
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if b.connected.Swap(true) && empty {
			cancel(errResend)
		}
	}})
	out := req.Clone(ctx)
	out.GetBody, out.ContentLength, out.Body, out.Trailer = nil, b.length, bytes, req.Trailer
	if out.Header == nil {
		out.Header = http.Header{}
	}
	if empty {
		out.Body = http.NoBody
		out.Header.Del(Header)
		out.Header[hidden] = []string{key}
	} else {
		out.Header.Set(Header, key)
	}
	return out, nil
}

// shown is a request of ours as an answer names it, its key spelt as usual.
func shown(out *http.Request, key string) *http.Request {
	if _, is := out.Header[hidden]; !is {
		return out
	}
	plain := *out
	plain.Header = out.Header.Clone()
	delete(plain.Header, hidden)
	plain.Header.Set(Header, key)
	return &plain
}

// counted is a body that remembers how its reading went.
type counted struct {
	io.ReadCloser
	n      atomic.Int64
	broken atomic.Bool // reading failed
	ended  atomic.Bool
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	switch {
	case err == io.EOF:
		c.ended.Store(true)
	case err != nil:
		c.broken.Store(true)
	}
	return n, err
}

// failed reports that reading the body failed, or that it has not the length
// that was said.
func (c *counted) failed(length int64) bool {
	if c == nil {
		return false
	}
	n := c.n.Load()
	return c.broken.Load() || length > 0 && (n > length || c.ended.Load() && n != length)
}
