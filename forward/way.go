package forward

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
)

// maxSocket is the longest path of a unix socket.
const maxSocket = 107

// Way is how a target is reached, where that is not a direct connection.
type Way struct {
	// Socket is the path of a unix socket that speaks HTTP; the target's URL
	// is then http and says host, path and query of the requests. The egress
	// guard has nothing to say about it.
	Socket string
	// Proxy is an HTTP proxy, http or https. The environment's are ignored.
	// The egress guard and Target.Allow then judge the proxy's address: who
	// looks the target's name up is the proxy.
	Proxy *url.URL
}

func (t Target) checkWay() error {
	var errs []error
	if s := t.Way.Socket; s != "" {
		switch {
		case len(s) > maxSocket:
			errs = append(errs, fmt.Errorf("socket: its path is longer than %d bytes", maxSocket))
		case t.URL != nil && t.URL.Scheme != "http":
			errs = append(errs, errors.New("socket: speaks http only"))
		case t.Way.Proxy != nil || len(t.Allow) > 0:
			errs = append(errs, errors.New("socket: has no address; a proxy or an allow list means nothing to it"))
		}
	}
	if p := t.Way.Proxy; p != nil && (p.Scheme != "http" && p.Scheme != "https" || p.Hostname() == "" || p.Opaque != "") {
		errs = append(errs, errors.New("proxy: want an http or https URL"))
	}
	return errors.Join(errs...)
}

// standard reports whether requests go through Go's transport and not through
// plain.
func (t *Target) standard() bool { return t.URL.Scheme == "https" || t.Way.Proxy != nil }

// Site is what may be said of where a target is: for some, the path is the
// credential.
func (t *Target) Site() string {
	if t.Pull {
		return "pull"
	}
	if t.Way.Socket != "" {
		return "unix:" + t.Way.Socket
	}
	return t.URL.Scheme + "://" + t.URL.Host
}

// clientTLS is the configuration of TLS connections: the target's, never below
// TLS 1.2, with resumption.
func (t *Target) clientTLS() *tls.Config {
	c := &tls.Config{}
	if t.TLS != nil {
		c = t.TLS.Clone()
	}
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	if c.ClientSessionCache == nil {
		c.ClientSessionCache = tls.NewLRUClientSessionCache(min(t.Concurrency, 64))
	}
	return c
}

// secrets are the texts that no account may hold: a target may send back what
// it was sent. Short ones would hide half of an answer.
func (t *Target) secrets() [][]byte {
	var out [][]byte
	for _, v := range t.Headers {
		for _, text := range parts(string(v)) {
			if len(text) >= minRedacted {
				out = append(out, []byte(text))
			}
		}
	}
	slices.SortFunc(out, func(a, b []byte) int { return len(b) - len(a) })
	return out
}
