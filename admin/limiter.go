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
// addresses, the latest, at the same small cost for each.
type limiter struct {
	// mu guards both maps; held only for bookkeeping, never across I/O.
	mu sync.Mutex
	// young takes every change. Once it holds half of maxAddresses it becomes
	// old, and what was old is forgotten.
	young, old map[netip.Prefix]failures
}

type failures struct {
	since time.Time
	n     int
}

func newLimiter() *limiter { return &limiter{young: make(map[netip.Prefix]failures)} }

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
	f := l.find(network(addr))
	return f.n >= maxFailures && !f.over(now)
}

// failed counts one more and returns how many there are in this window.
func (l *limiter) failed(addr netip.Addr, now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := network(addr)
	f := l.find(key)
	if f.n == 0 || f.over(now) {
		f = failures{since: now}
	}
	f.n++
	if _, ok := l.young[key]; !ok && len(l.young) >= maxAddresses/2 {
		l.old, l.young = l.young, make(map[netip.Prefix]failures)
	}
	l.young[key] = f
	return f.n
}

// find is what is remembered of an address. The caller holds mu.
func (l *limiter) find(key netip.Prefix) failures {
	if f, ok := l.young[key]; ok {
		return f
	}
	return l.old[key]
}

// over reports whether the window has ended. A clock set back ends it too:
// nobody stays locked out by it.
func (f failures) over(now time.Time) bool {
	age := now.Sub(f.since)
	return age >= failureWindow || age < 0
}
