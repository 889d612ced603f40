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
	tokenOnly    access = iota // a token of the role admin; the zero value is the strict one
	asOperator                 // a token of the role operator or above
	asViewer                   // any token
	localOrToken               // any token, unless the peer is this machine
	open                       // nothing
	byPullToken                // the token of the pulled target that the path names; the route asks itself
)

// role is the least role that an access needs; 0 for none.
func (n access) role() Role {
	switch n {
	case asOperator:
		return RoleOperator
	case asViewer, localOrToken:
		return RoleViewer
	case open:
		return 0
	}
	return RoleAdmin
}

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

// errRole is the refusal of a caller whose role is too low.
func errRole(p Principal, need Role) error {
	return apiError(http.StatusForbidden, CodeForbidden, "this needs the role %s: the token %q has the role %s", need, p.Name, p.Role)
}

// authorize says who asks, or why the request may not pass.
func (a *Admin) authorize(r *http.Request, need access) (Principal, error) {
	peer := peerOf(r)
	if need == open || need == localOrToken && isLocal(r, peer) {
		return Principal{}, nil
	}
	got, ok := r.Header["Authorization"]
	if !ok {
		a.met.authFailures.WithLabelValues(authMissing).Inc()
		a.failedFrom(peer, authMissing)
		return Principal{}, errUnauthorized
	}
	token, ok := bearer(got)
	reason := authWrong
	if !ok {
		token, reason = "", authMalformed // nobody's token is empty
	}
	p, err := a.login(r, token, reason, a.holder)
	if err != nil {
		return p, err
	}
	if !p.may(need.role()) {
		a.forbidden(p, need.role())
		return p, errRole(p, need.role())
	}
	return p, nil
}

// login finds the holder of a token. Failures count against the address, for
// the reason given; an address with too many is not looked at.
func (a *Admin) login(r *http.Request, token, reason string, holder func([sha256.Size]byte) (Principal, bool)) (Principal, error) {
	peer, now := peerOf(r), a.cfg.Now()
	if a.logins.limited(peer, now) {
		a.met.authFailures.WithLabelValues(authLimited).Inc()
		a.failedFrom(peer, authLimited)
		a.holdBack(r)
		return Principal{}, errLimited
	}
	if p, ok := holder(HashToken(token)); ok {
		return p, nil
	}
	a.met.authFailures.WithLabelValues(reason).Inc()
	a.failedFrom(peer, reason)
	switch a.logins.failed(peer, now) {
	case 1:
		a.cfg.Log.Warn("admin login failed", "remote_ip", peer, "reason", reason)
	case maxFailures:
		a.cfg.Log.Warn("admin logins from this address are refused for a minute", "remote_ip", peer)
	}
	return Principal{}, errUnauthorized
}

// holder is whose token has this hash. Every token is compared, each in
// constant time; none has the hash of the empty token.
func (a *Admin) holder(sum [sha256.Size]byte) (Principal, bool) {
	var p Principal
	for _, t := range *a.tokens.Load() {
		if subtle.ConstantTimeCompare(sum[:], t.Hash[:]) == 1 {
			p = Principal{t.Name, t.Role}
		}
	}
	return p, p.Role != 0
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
