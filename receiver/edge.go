package receiver

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// The paths that are ours beside the sources.
const (
	livePath  = "/livez"
	readyPath = "/readyz"
)

// newEdge routes one generation. Echo is asked for the route and for nothing
// else: neither its binding nor its idea of scheme, address or errors is
// used, and no echo.Context leaves this file.
func (r *Receiver) newEdge(gen *generation) http.Handler {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = echo.ExtractIPDirect()
	e.HTTPErrorHandler = func(_ error, c echo.Context) {
		r.serveUnknown(c.Response().Writer, c.Request(), gen)
	}
	for path, health := range map[string]http.HandlerFunc{livePath: r.serveLive, readyPath: r.serveReady} {
		e.GET(path, adapt(health))
		e.HEAD(path, adapt(health))
		e.RouteNotFound(path, adapt(r.serveHealthMethod))
	}
	for path, c := range gen.byPath {
		h := adapt(func(w http.ResponseWriter, req *http.Request) { r.serveSource(w, req, gen, c) })
		for _, method := range c.allowed {
			e.Add(method, path, h)
		}
		// Every other method is refused by the same handler, which counts it.
		e.RouteNotFound(path, h)
		if c.sync != nil && path == c.path { // what follows is the target's path
			for _, method := range c.allowed {
				e.Add(method, path+"/*", h)
			}
			e.RouteNotFound(path+"/*", h)
		}
	}
	return e
}

// adapt hands on what net/http gave, past Echo's own writer.
func adapt(h http.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h(c.Response().Writer, c.Request())
		return nil
	}
}
