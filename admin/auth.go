package admin

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"
)

// access says what a route asks of its caller.
type access uint8

const (
	tokenOnly    access = iota // the bearer token; the zero value is the strict one
	localOrToken               // the token, unless the peer is this machine
	open                       // nothing
)

// HashToken is the form in which a token is kept and compared.
func HashToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

// maxTokenFile bounds what is read of a token file.
const maxTokenFile = 4 << 10

// ReadToken reads a bearer token from a file: its text, less one line end.
// An empty file, white space in the token, or anything beyond one line is an
// error, which never holds what was read.
func ReadToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	b = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
	if len(b) == 0 || len(b) > maxTokenFile || bytes.ContainsFunc(b, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("read token: %s does not hold one line of visible characters", path)
	}
	return string(b), nil
}

// Reasons why a login failed: the label of the counter.
const (
	authMissing   = "missing"   // no Authorization header
	authMalformed = "malformed" // not one bearer token
	authWrong     = "wrong"     // another token
	authLimited   = "limited"   // not looked at: too many wrong ones before
)

func authReasons() []string { return []string{authMissing, authMalformed, authWrong, authLimited} }

var errUnauthorized = apiError(http.StatusUnauthorized, CodeUnauthorized,
	"a valid bearer token is needed: its file is named when the gateway starts")

var errLimited = apiError(http.StatusTooManyRequests, CodeLimited, "too many wrong tokens from this address: wait a minute")

// authorize lets a request pass or says why not.
func (a *Admin) authorize(r *http.Request, need access) error {
	peer := peerOf(r)
	if need == open || need == localOrToken && isLocal(r, peer) {
		return nil
	}
	got, ok := r.Header["Authorization"]
	if !ok {
		a.met.authFailures.WithLabelValues(authMissing).Inc()
		return errUnauthorized
	}
	now := a.cfg.Now()
	if a.logins.limited(peer, now) {
		a.met.authFailures.WithLabelValues(authLimited).Inc()
		a.holdBack(r)
		return errLimited
	}
	token, ok := bearer(got)
	if ok {
		sum := HashToken(token)
		if subtle.ConstantTimeCompare(sum[:], a.token[:]) == 1 {
			return nil
		}
	}
	reason := authWrong
	if !ok {
		reason = authMalformed
	}
	a.met.authFailures.WithLabelValues(reason).Inc()
	switch a.logins.failed(peer, now) {
	case 1:
		a.cfg.Log.Warn("admin login failed", "remote_ip", peer, "reason", reason)
	case maxFailures:
		a.cfg.Log.Warn("admin logins from this address are refused for a minute", "remote_ip", peer)
	}
	return errUnauthorized
}

// bearer takes the token out of the one Authorization header.
func bearer(values []string) (string, bool) {
	if len(values) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	return token, ok && strings.EqualFold(scheme, "bearer") && token != ""
}

// holdBack delays an answer by a constant time, or until the caller is gone.
func (a *Admin) holdBack(r *http.Request) {
	if a.cfg.FailDelay < 0 {
		return
	}
	t := time.NewTimer(a.cfg.FailDelay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done():
	}
}

// peerOf is the address of the other end of the connection, never one from a
// header. It is the zero Addr when there is none.
func peerOf(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

// isLocal reports whether this machine itself asks, and not a proxy on it
// for someone else.
func isLocal(r *http.Request, peer netip.Addr) bool {
	for _, h := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if _, ok := r.Header[h]; ok {
			return false
		}
	}
	return peer.IsLoopback()
}

// errNoHost is the refusal of a request that calls us by a name not ours.
var errNoHost = apiError(http.StatusMisdirectedRequest, CodeHost,
	"this listener is not known by that host name: use its address, or name it in admin.hosts")

// errCrossSite is the refusal of a state-changing request of another site.
var errCrossSite = apiError(http.StatusForbidden, CodeForbidden, "refused: the request comes from another web site")
