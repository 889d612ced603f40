package admin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
)

//go:embed web
var web embed.FS

// pagePolicy is the content security policy of the pages: nothing but our own
// files, nothing inline, no frame.
const pagePolicy = "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ui holds what all pages are made of. It is read-only after newUI.
type ui struct {
	pages  map[string]*template.Template
	assets map[string]asset  // by path
	names  map[string]string // of assets, with their hash
}

// asset is one file that pages link to. Its path changes with its content, so
// that it can be cached for good.
type asset struct {
	body []byte
	kind string
}

var assetKinds = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// loadUI reads the embedded files, once for the process.
var loadUI = sync.OnceValues(newUI)

func newUI() (*ui, error) {
	u := &ui{pages: map[string]*template.Template{}, assets: map[string]asset{}, names: map[string]string{}}
	files, err := fs.ReadDir(web, "web/static")
	if err != nil {
		return nil, fmt.Errorf("read static files: %w", err)
	}
	for _, f := range files {
		kind, ok := assetKinds[path.Ext(f.Name())]
		if !ok {
			continue
		}
		b, err := web.ReadFile("web/static/" + f.Name())
		if err != nil {
			return nil, fmt.Errorf("read static file: %w", err)
		}
		sum := sha256.Sum256(b)
		name := "/static/" + hex.EncodeToString(sum[:6]) + "/" + f.Name()
		u.assets[name], u.names[f.Name()] = asset{b, kind}, name
	}
	base, err := template.New("base").Funcs(u.funcs()).ParseFS(web, "web/pages/base.html", "web/pages/parts.html")
	if err != nil {
		return nil, fmt.Errorf("read pages: %w", err)
	}
	all, err := fs.Glob(web, "web/pages/*.html")
	if err != nil {
		return nil, fmt.Errorf("read pages: %w", err)
	}
	for _, file := range all {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name == "base" || name == "parts" {
			continue
		}
		t, err := base.Clone()
		if err == nil {
			t, err = t.ParseFS(web, file)
		}
		if err != nil {
			return nil, fmt.Errorf("read page %s: %w", name, err)
		}
		u.pages[name] = t
	}
	return u, nil
}

func (u *ui) funcs() template.FuncMap {
	return template.FuncMap{
		"asset": func(name string) string { return u.names[name] },
		"show":  shown, "lines": shownLines, "id": idTag, "brief": brief, "listid": listID, "fields": listFields, "words": words, "outcome": outcomeWord,
		"n": func(v any) template.HTML { return number(asInt(v)) }, "bytes": bytesOf, "span": span, "secs": seconds,
		"count": func(v any, noun string) string { return count(asInt(v), noun) },
		"exact": exact, "clock": clockOf, "state": stateClass, "path": url.PathEscape, "join": strings.Join, "dict": dict,
		"breaker": breakerWords, "actwhat": actWhat, "keyclass": keyClass,
		"left": func(s audit.Standing) template.HTML { return number(int64(s.Next - s.Signed)) },
	}
}

func asInt(v any) int64 {
	switch n := v.(type) {
	case int:
		return int64(n)
	case int64:
		return n
	case uint64:
		return int64(n)
	case uint32:
		return int64(n)
	}
	return 0
}

// dict is a map of names and values, for parts of pages that need several.
func dict(kv ...any) (map[string]any, error) {
	if len(kv)%2 != 0 {
		return nil, errors.New("dict: a name without a value")
	}
	out := make(map[string]any, len(kv)/2)
	for i := 0; i < len(kv); i += 2 {
		name, ok := kv[i].(string)
		if !ok {
			return nil, errors.New("dict: a name is no string")
		}
		out[name] = kv[i+1]
	}
	return out, nil
}

// frame is what every page shows around its own part.
type frame struct {
	Title   string
	Nav     string // the page's entry in the navigation
	Build   Build
	Who     Principal
	Now     time.Time
	Trouble []trouble
	Counts  navCounts
	Audited bool // the gateway keeps a log
	Data    any  // the page's own part
}

// When is a time as seen from the page's now.
func (f *frame) When(t time.Time) template.HTML { return when(t, f.Now) }

// Since is how long ago a time was.
func (f *frame) Since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := max(0, f.Now.Sub(t)).Round(time.Second)
	if d < time.Minute {
		return strconv.Itoa(int(d.Seconds())) + " s"
	}
	return span(d)
}

// Operator reports whether the reader may see bodies and act.
func (f *frame) Operator() bool { return f.Who.may(RoleOperator) }

// Admin reports whether the reader may do everything.
func (f *frame) Admin() bool { return f.Who.may(RoleAdmin) }

// navCounts stand beside the entries of the navigation; 0 shows nothing.
type navCounts struct {
	Refused uint64 // in the last ten minutes, of sources that refuse
	Dead    int64
	Failing int
	Unknown int64 // keys of unknown outcome
}

// view is one request for a page: what the ledger and the parts say now.
type view struct {
	a     *Admin
	c     echo.Context
	who   Principal
	now   time.Time
	setup Setup
	snap  snapshot
}

// newView takes the state that all pages show.
func (a *Admin) newView(c echo.Context) (*view, error) {
	v := &view{a: a, c: c, who: who(c), now: a.cfg.Now()}
	a.history.observe(v.now)
	st, err := a.cfg.Account.Stats(c.Request().Context())
	if err != nil {
		return nil, err
	}
	if a.cfg.Setup != nil {
		v.setup = a.cfg.Setup()
	}
	v.snap = snapshot{stats: st, sources: a.sources(), targets: a.targets(st), problem: a.cfg.Ready(), gateways: a.gateways()}
	return v, nil
}

// snapshot is the state of all parts at one moment.
type snapshot struct {
	stats    dedupe.Stats
	sources  []Source
	targets  []Target
	problem  error // why it is not ready
	gateways []Gateway
}

// render writes a page.
func (v *view) render(status int, page, title, nav string, data any) error {
	f := &frame{
		Title: title, Nav: nav, Build: v.a.cfg.Build, Who: v.who, Now: v.now.UTC(), Data: data, Audited: v.a.cfg.Audit != nil,
		Trouble: v.troubles(), Counts: v.counts(),
	}
	return v.a.ui.write(v.c, status, page, f)
}

// write renders whole before it sends: a page is never cut by an error.
func (u *ui) write(c echo.Context, status int, page string, f *frame) error {
	t := u.pages[page]
	if t == nil {
		return fmt.Errorf("no page %q", page)
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, "base", f); err != nil {
		return fmt.Errorf("render %s: %w", page, err)
	}
	h := c.Response().Header()
	h.Set("Content-Security-Policy", pagePolicy)
	return c.Blob(status, "text/html; charset=utf-8", b.Bytes())
}

// part writes a piece of a page, for those that are updated in place.
func (u *ui) part(c echo.Context, page, name string, data any) error {
	var b bytes.Buffer
	if err := u.pages[page].ExecuteTemplate(&b, name, data); err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	return c.Blob(http.StatusOK, "text/html; charset=utf-8", b.Bytes())
}

// page makes a handler of a page: errors become pages too.
func (a *Admin) page(h func(*view) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		v, err := a.newView(c)
		if err == nil {
			err = h(v)
		}
		if err == nil || c.Response().Committed {
			return err
		}
		return a.failPage(c, err)
	}
}

// failPage shows an error as a page, with what to do about it.
func (a *Admin) failPage(c echo.Context, err error) error {
	api := asAPIError(err)
	if api.Status >= http.StatusInternalServerError {
		a.cfg.Log.Error("admin page failed", "route", c.Path(), "code", api.Code, "error", err)
	}
	f := &frame{Title: errorTitle(api), Build: a.cfg.Build, Who: who(c), Now: a.cfg.Now().UTC(), Data: api}
	if werr := a.ui.write(c, api.Status, "error", f); werr != nil {
		return errors.Join(err, werr)
	}
	return nil
}

func errorTitle(e *APIError) string {
	switch e.Code {
	case CodeNotFound:
		return "Not found"
	case CodePruned:
		return "Gone by retention"
	case CodeForbidden:
		return "Not allowed"
	case CodeDamaged:
		return "Damaged"
	case CodeAmbiguous:
		return "Several events"
	case CodeInvalid:
		return "That does not work"
	case CodeStore:
		return "The ledger cannot answer now"
	}
	return "Something went wrong"
}

// static answers a file by its path with its hash in it.
func (a *Admin) static(c echo.Context) error {
	f, ok := a.ui.assets[c.Request().URL.Path]
	if !ok {
		return apiError(http.StatusNotFound, CodeNotFound, "no such file")
	}
	c.Response().Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	return c.Blob(http.StatusOK, f.kind, f.body)
}

// pageRoutes is every page, with the least role that it takes.
func (a *Admin) pageRoutes() []route {
	const get, head, post = http.MethodGet, http.MethodHead, http.MethodPost
	read := func(path string, need access, h func(*view) error) route {
		return route{get, path, need, a.page(h)}
	}
	return []route{
		{get, "/login", open, a.loginPage},
		{post, "/login", open, a.loginForm},
		{get, "/login/kept", open, a.loginKept},
		{get, "/static/:hash/:name", open, a.static},
		{post, "/logout", asViewer, a.logout},
		read("/", asViewer, a.overviewPage),
		{head, "/", open, func(c echo.Context) error { return c.NoContent(http.StatusOK) }},
		read("/events", asViewer, a.eventsPage),
		read("/events/newer", asViewer, a.newerPart),
		read("/events/:id", asViewer, a.eventPage),
		{get, "/events/:id/raw", asOperator, a.getBody},
		read("/events/:id/proof", asViewer, a.proofPage),
		read("/events/:id/receipt", asViewer, a.receiptFile),
		read("/keys", asViewer, a.keysPage),
		read("/keys/one", asViewer, a.keyPage),
		{post, "/keys/settle", asOperator, a.page(a.settleForm)},
		read("/audit", asViewer, a.auditPage),
		{post, "/audit/sign", asOperator, a.page(a.auditSignForm)},
		read("/audit/verifying", asViewer, a.verifyingPart),
		{post, "/audit/verify", asOperator, a.page(a.auditVerifyForm)},
		{post, "/audit/verify/stop", asOperator, a.page(a.auditStopForm)},
		{get, "/audit/export", tokenOnly, a.exportAudit},
		read("/events/:id/cancel", asOperator, a.cancelPage),
		{post, "/events/:id/cancel", asOperator, a.page(a.cancelForm)},
		read("/refusals", asViewer, a.refusalsPage),
		read("/sources", asViewer, a.sourcesPage),
		read("/sources/test", asOperator, a.sourceTestPage),
		{post, "/sources/test", asOperator, a.page(a.sourceTestForm)},
		read("/targets", asViewer, a.targetsPage),
		read("/targets/act", asOperator, a.controlPage),
		{post, "/targets/act", asOperator, a.page(a.controlForm)},
		{post, "/targets/test", asOperator, a.page(a.targetTestForm)},
		read("/dead", asViewer, a.deadPage),
		read("/dead/drop", asOperator, a.dropPage),
		{post, "/dead/drop", asOperator, a.page(a.dropForm)},
		read("/replay", asOperator, a.replayPage),
		{post, "/replay", asOperator, a.page(a.replayForm)},
		read("/replays", asViewer, a.jobsPage),
		read("/replays/list", asViewer, a.jobsPart),
		{post, "/replays/cancel", asOperator, a.page(a.jobCancelForm)},
		read("/config", asViewer, a.configPage),
		{post, "/config/reload", tokenOnly, a.page(a.reloadForm)},
	}
}

// servePage is serve for pages: who asks is known by a cookie, and one who is
// not signed in is shown the way.
func (a *Admin) servePage(route string, need access, h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if w, ok := c.Response().Writer.(*answer); ok {
			w.route = route
		}
		if need == open {
			return h(c)
		}
		p, ok := a.visitor(c.Request())
		if !ok {
			return a.strangerPage(c)
		}
		c.Set(principalKey, p)
		if !p.may(need.role()) {
			a.forbidden(p, need.role())
			return a.failPage(c, errRole(p, need.role()))
		}
		return h(c)
	}
}
