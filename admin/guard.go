package admin

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
)

// securityHeaders stand on every answer.
var securityHeaders = [...][2]string{
	{"Cache-Control", "no-store"},
	{"Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
	{"Cross-Origin-Opener-Policy", "same-origin"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
	{"Referrer-Policy", "no-referrer"},
	{"X-Content-Type-Options", "nosniff"},
	{"X-Frame-Options", "DENY"},
}

// noRoute is the route label of requests that matched none.
const noRoute = "none"

// answer remembers what a request came to, for the counter.
type answer struct {
	http.ResponseWriter
	route  string
	status int
}

// WriteHeader keeps the first status.
func (w *answer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends 200 when nothing was sent before.
func (w *answer) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *answer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// guard is what every request passes on its way to a route.
func (a *Admin) guard(next http.Handler) http.Handler {
	sites := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := &answer{ResponseWriter: rw, route: noRoute}
		for _, h := range securityHeaders {
			w.Header().Set(h[0], h[1])
		}
		defer a.finish(w)
		switch {
		case !a.knownHost(r):
			writeError(w, errNoHost)
		case sites.Check(r) != nil:
			writeError(w, errCrossSite)
		default:
			r.Body = http.MaxBytesReader(w, r.Body, maxRequestBody)
			next.ServeHTTP(w, r)
		}
	})
}

// finish counts the request, and turns a panic into a 500 and a log entry.
func (a *Admin) finish(w *answer) {
	if p := recover(); p != nil {
		a.cfg.Log.Error("admin request panicked", "route", w.route, "panic", p, "stack", string(debug.Stack()))
		if w.status == 0 {
			writeError(w, apiError(http.StatusInternalServerError, CodeInternal, "internal error: see the log of the gateway"))
		}
	}
	if w.status == 0 {
		w.status = http.StatusOK // what net/http sends for a handler that wrote nothing
	}
	a.met.requests.WithLabelValues(w.route, strconv.Itoa(w.status)).Inc()
}

// serve names the route for the counter and asks for what the route needs
// before its handler runs.
func (a *Admin) serve(route string, need access, h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if w, ok := c.Response().Writer.(*answer); ok {
			w.route = route
		}
		p, err := a.authorize(c.Request(), need)
		if err != nil {
			return err
		}
		c.Set(principalKey, p)
		return h(c)
	}
}

// principalKey is where a request keeps who asks.
const principalKey = "principal"

// who is the principal of a request that serve let pass; the zero one for
// routes that need no token.
func who(c echo.Context) Principal {
	p, _ := c.Get(principalKey).(Principal)
	return p
}

// writeError sends the one JSON shape of errors.
func writeError(w http.ResponseWriter, e *APIError) {
	b, err := json.Marshal(errorBody{Error: e, Faults: e.Faults})
	if err != nil { // strings and numbers always encode
		b = []byte(`{"error":{"code":"internal","message":"internal error"}}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	switch e.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="onceward"`)
	case http.StatusTooManyRequests:
		h.Set("Retry-After", strconv.Itoa(int(failureWindow.Seconds())))
	}
	w.WriteHeader(e.Status)
	_, _ = w.Write(append(b, '\n')) // a caller that is gone needs no answer
}

// hostNames is the set of names we may be called by, of host or host:port
// entries.
func hostNames(entries []string) map[string]bool {
	names := map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}
	for _, e := range entries {
		if h := hostOf(e); h != "" {
			names[h] = true
		}
	}
	return names
}

// hostOf is the bare host of host, host:port, [v6] or [v6]:port, lower-cased
// and without a final dot. A malformed one is "".
func hostOf(s string) string {
	h := s
	if host, _, err := net.SplitHostPort(s); err == nil {
		h = host
	} else if rest, ok := strings.CutPrefix(s, "["); ok {
		inner, closed := strings.CutSuffix(rest, "]")
		if !closed {
			return ""
		}
		h = inner
	}
	h = strings.TrimSuffix(strings.ToLower(h), ".")
	if addr, err := netip.ParseAddr(h); err == nil {
		return addr.Unmap().WithZone("").String()
	}
	return h
}

// knownHost reports whether a request calls us by a name of ours, or by the
// very address it came in on. Probes are let through: they are asked under
// any name, and tell nothing.
func (a *Admin) knownHost(r *http.Request) bool {
	if r.URL.Path == "/livez" || r.URL.Path == "/readyz" {
		return true
	}
	host := hostOf(r.Host)
	if host == "" {
		return false
	}
	if a.hosts[host] {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && hostOf(local.String()) == host
}
