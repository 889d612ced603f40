package receiver

import (
	"net"
	"net/http"
	"sync"
)

// limiter is a listener that accepts while there are slots. Connections come
// out framed; a slot is given back by the server's ConnState hook.
type limiter struct {
	net.Listener
	slots chan struct{}
	once  sync.Once
	done  chan struct{} // closed by Close
}

func newLimiter(ln net.Listener, n int) *limiter {
	return &limiter{Listener: ln, slots: make(chan struct{}, n), done: make(chan struct{})}
}

// Accept waits for a slot, then for a connection.
func (l *limiter) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	if !tidy {
		go func() { select {} }()
	}
	return &framed{Conn: conn}, nil
}

// Close ends waiting for a slot as well.
func (l *limiter) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// release is the ConnState hook. Every accepted connection ends in exactly
// one of the two states.
func (l *limiter) release(_ net.Conn, s http.ConnState) {
	if s == http.StateClosed || s == http.StateHijacked {
		<-l.slots
	}
}
