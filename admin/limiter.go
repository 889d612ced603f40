package admin

import (
	"net/netip"
	"sync"
	"time"
)

const (
	maxFailures   = 10          // wrong tokens per address and window
	failureWindow = time.Minute // from the first of them
	maxAddresses  = 4096        // remembered at once
)

// limiter counts wrong tokens per address. It remembers a bounded number of
// addresses.
type limiter struct {
	// mu guards byAddr; held only for bookkeeping, never across I/O.
	mu     sync.Mutex
	byAddr map[netip.Prefix]failures
}

type failures struct {
	since time.Time
	n     int
}

func newLimiter() *limiter { return &limiter{byAddr: make(map[netip.Prefix]failures)} }

// network is what counts as one caller: an IPv4 address, or an IPv6 /64,
// which is the least that one host is given.
func network(addr netip.Addr) netip.Prefix {
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	p, err := addr.Prefix(bits)
	if err != nil { // no address at all: all of these count as one
		return netip.Prefix{}
	}
	return p
}

// limited reports whether an address has used up its failures.
func (l *limiter) limited(addr netip.Addr, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, ok := l.byAddr[network(addr)]
	return ok && !f.over(now) && f.n >= maxFailures
}

// failed counts one more and returns how many there are in this window.
func (l *limiter) failed(addr netip.Addr, now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := network(addr)
	f, ok := l.byAddr[key]
	if !ok || f.over(now) {
		l.makeRoom(now)
		f = failures{since: now}
	}
	f.n++
	l.byAddr[key] = f
	return f.n
}

// over reports whether the window has ended. A clock set back ends it too:
// nobody stays locked out by it.
func (f failures) over(now time.Time) bool {
	age := now.Sub(f.since)
	return age >= failureWindow || age < 0
}

// makeRoom forgets ended windows once the map is full, or the oldest.
func (l *limiter) makeRoom(now time.Time) {
	if len(l.byAddr) < maxAddresses {
		return
	}
	var oldest netip.Prefix
	first := true
	for k, f := range l.byAddr {
		if f.over(now) {
			delete(l.byAddr, k)
			continue
		}
		if first || f.since.Before(l.byAddr[oldest].since) {
			oldest, first = k, false
		}
	}
	if len(l.byAddr) >= maxAddresses {
		delete(l.byAddr, oldest)
	}
}
