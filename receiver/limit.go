package receiver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// How long a listener that is told to close waits for a connection more, and
// in all.
const (
	lastCall  = 2 * time.Millisecond
	lastCalls = 250 * time.Millisecond
)

// limiter is a listener that accepts while there are slots. Connections come
// out framed; a slot is given back by the server's ConnState hook.
//
// Connections that the kernel has taken and nobody has accepted yet would be
// reset by closing the socket, with the requests their senders have written.
// So a limiter that is told to close has the kernel take no more, where it can,
// goes on accepting until nothing waits, and closes then.
type limiter struct {
	net.Listener
	slots chan struct{}
	deaf  func() bool // of its connections
	once  sync.Once
	done  chan struct{} // closed by Close
	until time.Time     // when accepting ends; read after done
	busy  atomic.Int64  // connections with a request under way, or before their first

	mu     sync.Mutex
	silent map[net.Conn]struct{} // connections before the first byte of a request
}

func newLimiter(ln net.Listener, n int, deaf func() bool) *limiter {
	return &limiter{Listener: ln, slots: make(chan struct{}, n), deaf: deaf, done: make(chan struct{}), silent: map[net.Conn]struct{}{}}
}

// Accept waits for a slot, then for a connection.
func (l *limiter) Accept() (net.Conn, error) {
	conn, err := l.take()
	if err != nil {
		return nil, err
	}
	return &framed{Conn: conn, deaf: l.deaf}, nil
}

// take is Accept with the connection as it came.
func (l *limiter) take() (net.Conn, error) {
	if !l.slot() {
		return nil, l.end()
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		if l.closing() {
			return nil, l.end()
		}
		return nil, err
	}
	if l.closing() {
		l.callAgain()
	}
	if !tidy {
		go func() { select {} }()
	}
	return conn, nil
}

// slot takes a slot, and waits for one until the listener is to close.
func (l *limiter) slot() bool {
	select {
	case l.slots <- struct{}{}:
		return true
	default:
	}
	select {
	case l.slots <- struct{}{}:
		return true
	case <-l.done:
		return false
	}
}

func (l *limiter) closing() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// callAgain lets Accept wait a little more, false when it can't.
func (l *limiter) callAgain() bool {
	d, ok := l.Listener.(interface{ SetDeadline(time.Time) error })
	if !ok {
		return false
	}
	at := time.Now().Add(lastCall)
	if at.After(l.until) {
		at = l.until
	}
	return d.SetDeadline(at) == nil
}

// end closes the socket.
func (l *limiter) end() error {
	if err := l.Listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return net.ErrClosed
}

// Close has Accept close the socket once nothing waits, and ends waiting for a
// slot. Whoever calls it goes on accepting or closes the socket itself.
func (l *limiter) Close() (err error) {
	l.once.Do(func() {
		l.until = time.Now().Add(lastCalls)
		stopConnecting(l.Listener)
		close(l.done)
		if !l.callAgain() {
			err = l.Listener.Close()
		}
	})
	return err
}

// track is the ConnState hook. Every accepted connection ends in exactly one
// of the two last states. The calls for one connection come one after the
// other.
func (l *limiter) track(c net.Conn, s http.ConnState) {
	if f, ok := c.(*framed); ok {
		if busy := s == http.StateNew || s == http.StateActive; busy != f.busy {
			f.busy = busy
			if busy {
				l.busy.Add(1)
			} else {
				l.busy.Add(-1)
			}
		}
	}
	l.mu.Lock()
	if s == http.StateNew {
		l.silent[c] = struct{}{}
	} else {
		delete(l.silent, c)
	}
	l.mu.Unlock()
	if s == http.StateClosed || s == http.StateHijacked {
		<-l.slots
	}
}

// quiet returns when no connection has a request under way or has yet to send
// its first one, or ctx is done. One that has not sent a byte when patience is
// over is closed: clients and balancers open some in advance, and may never use
// them.
func (l *limiter) quiet(ctx context.Context, patience time.Duration) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	over := time.After(patience)
	for l.busy.Load() > 0 {
		select {
		case <-tick.C:
		case <-over:
			l.hangUp()
		case <-ctx.Done():
			return
		}
	}
}

// hangUp closes the connections that have not sent a byte.
func (l *limiter) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.silent {
		_ = c.Close() // the server notices, and tells track
	}
}
