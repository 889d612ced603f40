package gateway

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net/url"
	"strings"

	"github.com/onceward/onceward/forward"
)

// OutboundConfig is how a target is reached and what its requests look like.
type OutboundConfig struct {
	// Auth is the credential of every attempt. Default: none.
	Auth AuthConfig `toml:"auth,omitzero"`
	// TLS is for https. Default: the system's roots, TLS 1.2 or later, no
	// client certificate. Its files are read again on reload.
	TLS TLSConfig `toml:"tls,omitzero"`
	// Proxy is an http or https proxy. Default: none; the environment's are
	// ignored.
	Proxy string `toml:"proxy,omitzero"`
	// As is the form of the requests: "" as they came, or "cloudevents".
	As string `toml:"as,omitzero"`
	// Method replaces the event's: POST, PUT, PATCH or DELETE. Default: its own.
	Method string `toml:"method,omitzero"`
	// HeadersAllow, when there, names the sender's headers that pass beside
	// those that describe the body; HeadersDeny those that don't. Exact, or with
	// a * at the end.
	HeadersAllow []string `toml:"headers_allow,omitzero"`
	HeadersDeny  []string `toml:"headers_deny,omitzero"`

	material *tlsMaterial // of TLS, nil without or with a faulty one
	socket   string       // of a unix URL, as the process sees it
}

// AuthConfig is one credential: a bearer token, or user and password.
type AuthConfig struct {
	Bearer   SecretConfig `toml:"bearer,omitzero"`
	User     string       `toml:"user,omitzero"`
	Password SecretConfig `toml:"password,omitzero"`
}

// TLSConfig names files, relative to the configuration's directory.
type TLSConfig struct {
	// Cert and Key are a client certificate with its chain, and its key, in PEM.
	Cert string `toml:"cert,omitzero"`
	Key  string `toml:"key,omitzero"`
	// CA is the only authorities that are trusted, in PEM. Default: the
	// system's.
	CA string `toml:"ca,omitzero"`
	// ServerName is the name that the target's certificate must have. Default:
	// the URL's host.
	ServerName string `toml:"server_name,omitzero"`
	// MinVersion is "1.2" or "1.3". Default "1.2".
	MinVersion string `toml:"min_version,omitzero"`
}

// unixScheme begins the URL of a unix socket: unix:SOCKET, or unix:SOCKET:PATH.
const unixScheme = "unix:"

var (
	errURL  = errors.New("url can't be parsed") // the error of Parse would show it
	errUnix = errors.New("url is no unix:SOCKET:PATH")
)

// splitUnix takes the URL of a unix socket apart.
func splitUnix(text string) (socket string, u *url.URL, err error) {
	socket, path, ok := strings.Cut(strings.TrimPrefix(text, unixScheme), ":")
	if !ok {
		path = "/"
	}
	if socket == "" || strings.HasPrefix(socket, "//") || !strings.HasPrefix(path, "/") {
		return "", nil, errUnix
	}
	if u, err = url.Parse("http://localhost" + path); err != nil || u.Host != "localhost" || strings.Contains(path, "#") {
		return "", nil, errUnix
	}
	return socket, u, nil
}

// place is where the target is: a URL, and the path of a socket when it is
// behind one.
func (t *TargetConfig) place() (u *url.URL, socket string, err error) {
	if t.Pull {
		return nil, "", nil
	}
	if strings.HasPrefix(t.URL, unixScheme) {
		socket, u, err = splitUnix(t.URL)
		return u, socket, err
	}
	if u, err = url.Parse(t.URL); err != nil {
		return nil, "", errURL
	}
	return u, "", nil
}

// outbound fills in what OutboundConfig says, but for TLS. The configuration
// has no errors.
func (t *TargetConfig) outbound(out *forward.Target, socket string) {
	if socket != "" {
		out.Way.Socket = t.socket
	}
	if t.Proxy != "" {
		out.Way.Proxy, _ = url.Parse(t.Proxy) // it was checked
	}
	out.Shape = forward.Shape{
		CloudEvents: t.As == asCloudEvents, Method: t.Method, HeadersAllow: t.HeadersAllow, HeadersDeny: t.HeadersDeny,
	}
	if v := t.Auth.header(); v != "" {
		out.Headers["Authorization"] = forward.Secret(v)
	}
}

// label names the credential that is there.
func (a *AuthConfig) label() {
	for _, s := range []struct {
		secret *SecretConfig
		name   string
	}{{&a.Bearer, "bearer"}, {&a.Password, "password"}} {
		if s.secret.unset || !s.secret.Value.Empty() {
			s.secret.ID = s.name
		}
	}
}

// header is the value of Authorization, "" for none.
func (a *AuthConfig) header() string {
	if v := a.Bearer.Value.Reveal(); v != "" {
		return "Bearer " + v
	}
	if a.User != "" {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(a.User+":"+a.Password.Value.Reveal()))
	}
	return ""
}

// clientTLS is the TLS configuration of a target, nil for the default. As long
// as its files hold the same it is the same one, so that the target's
// connections outlive a reload.
func (gen *generation) clientTLS(t *TargetConfig, old *generation) *tls.Config {
	m := t.material
	if m == nil {
		return nil
	}
	if old != nil {
		if was, ok := old.cfg.Target(t.Name); ok && was.material != nil && was.material.digest == m.digest {
			t.material = was.material
			return was.material.config
		}
	}
	return m.config
}
