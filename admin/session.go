package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
	"time"
)

const (
	// sessionCookie carries its prefix so that no other host and no plain
	// connection can set it. Browsers count loopback as secure.
	sessionCookie   = "__Host-onceward"
	sessionLife     = 8 * time.Hour
	maxSessions     = 1024
	sessionIDLength = 32
)

// sessions are the browsers that are signed in. They live in memory: a
// restart signs everybody out.
type sessions struct {
	// mu guards open; held only for bookkeeping, never across I/O.
	mu   sync.Mutex
	open map[[sha256.Size]byte]session // by the hash of the cookie's value
}

type session struct {
	token [sha256.Size]byte // hash of the token it was opened with
	until time.Time
}

func newSessions() *sessions { return &sessions{open: map[[sha256.Size]byte]session{}} }

// add opens a session and returns the cookie's value. Beyond maxSessions the
// one that ends first is closed.
func (s *sessions) add(token [sha256.Size]byte, now time.Time) string {
	b := make([]byte, sessionIDLength)
	_, _ = rand.Read(b) // never fails
	id := base64.RawURLEncoding.EncodeToString(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.open) >= maxSessions {
		var first [sha256.Size]byte
		var until time.Time
		for k, v := range s.open {
			if until.IsZero() || v.until.Before(until) {
				first, until = k, v.until
			}
		}
		delete(s.open, first)
	}
	s.open[HashToken(id)] = session{token, now.Add(sessionLife)}
	return id
}

// token is the hash of the token that a cookie's value stands for, false when
// it stands for none or is over.
func (s *sessions) token(id string, now time.Time) ([sha256.Size]byte, bool) {
	key := HashToken(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.open[key]
	if ok && !now.Before(v.until) {
		delete(s.open, key)
		ok = false
	}
	return v.token, ok
}

// drop ends a session.
func (s *sessions) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, HashToken(id))
}

// setCookie gives the browser its session, or with "" takes it away.
func setCookie(w http.ResponseWriter, id string) {
	c := &http.Cookie{
		Name: sessionCookie, Value: id, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		MaxAge: int(sessionLife.Seconds()),
	}
	if id == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// visitor is who a browser is signed in as: its session is alive and its
// token still in force.
func (a *Admin) visitor(r *http.Request) (Principal, bool) {
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return Principal{}, false
	}
	sum, ok := a.sessions.token(c.Value, a.cfg.Now())
	if !ok {
		return Principal{}, false
	}
	return a.holder(sum)
}
