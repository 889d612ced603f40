package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// route is one thing the listener answers. Its pattern is also its metric
// label.
type route struct {
	method, path string
	need         access
	handle       echo.HandlerFunc
}

const apiPrefix = "/api/v1"

// routes is everything the listener answers.
func (a *Admin) routes() []route {
	const get, head, post = http.MethodGet, http.MethodHead, http.MethodPost
	return []route{
		{get, "/livez", open, a.livez},
		{head, "/livez", open, a.livez},
		{get, "/readyz", open, a.readyz},
		{head, "/readyz", open, a.readyz},
		{get, "/metrics", localOrToken, a.metricsPage},
		{post, "/-/reload", tokenOnly, a.reload},

		{get, apiPrefix + "/events", asViewer, a.listEvents},
		{get, apiPrefix + "/events/:id", asViewer, a.getEvent},
		{get, apiPrefix + "/events/:id/body", asOperator, a.getBody},
		{get, apiPrefix + "/events/:id/attempts", asViewer, a.listAttempts},
		{post, apiPrefix + "/events/:id/cancel", asOperator, a.cancel},
		{get, apiPrefix + "/events/:id/proof", asViewer, a.proveEvent},
		{get, apiPrefix + "/audit", asViewer, a.listActs},
		{get, apiPrefix + "/audit/key", asViewer, a.auditKey},
		{get, apiPrefix + "/audit/export", tokenOnly, a.exportAudit},
		{post, apiPrefix + "/audit/checkpoint", asOperator, a.signAudit},
		{get, apiPrefix + "/tail", asViewer, a.tail},
		{get, apiPrefix + "/backup", tokenOnly, a.backup},
		{get, apiPrefix + "/deliveries", asViewer, a.listDeliveries},
		{post, apiPrefix + "/deliveries/:id/cancel", asOperator, a.cancelDelivery},
		{post, apiPrefix + "/deadletters/drop", asOperator, a.dropDead},
		{post, apiPrefix + "/replays", asOperator, a.replay},
		{get, apiPrefix + "/replays", asViewer, a.listJobs},
		{get, apiPrefix + "/replays/:id", asViewer, a.getJob},
		{post, apiPrefix + "/replays/:id/cancel", asOperator, a.cancelJob},
		{get, apiPrefix + "/transfers", asViewer, a.listTransfers},
		{get, apiPrefix + "/sources", asViewer, a.listSources},
		{get, apiPrefix + "/targets", asViewer, a.listTargets},
		{post, apiPrefix + "/targets/:name/test", asOperator, a.testTarget},
		{get, apiPrefix + "/targets/:name", asViewer, a.getTarget},
		{post, apiPrefix + "/targets/:name/pause", asOperator, a.pauseTarget},
		{post, apiPrefix + "/targets/:name/resume", asOperator, a.resumeTarget},
		{post, apiPrefix + "/targets/:name/drain", asOperator, a.drainTarget},
		{get, apiPrefix + "/refusals", asViewer, a.listRefusals},
		{get, apiPrefix + "/refusals/:id", asViewer, a.getRefusal},
		{get, apiPrefix + "/keys", asViewer, a.listKeys},
		{get, apiPrefix + "/keys/:id", asViewer, a.getKey},
		{post, apiPrefix + "/keys/:id/settle", asOperator, a.settleKey},
		{get, apiPrefix + "/status", asViewer, a.status},
		{get, apiPrefix + "/health", asViewer, a.health},
		{get, apiPrefix + "/version", asViewer, a.version},
		{post, apiPrefix + "/reload", tokenOnly, a.reload},
		{post, apiPrefix + "/-/reload", tokenOnly, a.reload},
		{post, apiPrefix + "/check", tokenOnly, a.check},
	}
}

// router routes to them and does nothing else: what every request passes is
// in guard, what a route needs in serve.
func (a *Admin) router() http.Handler {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = echo.ExtractIPDirect()
	e.HTTPErrorHandler = a.fail
	for _, r := range a.routes() {
		e.Add(r.method, r.path, a.serve(r.path, r.need, a.recorded(r, r.handle)))
	}
	for _, r := range a.pullRoutes() {
		e.Add(r.method, r.path, r.handle)
	}
	for _, r := range a.pageRoutes() {
		e.Add(r.method, r.path, a.servePage(r.path, r.need, a.recorded(r, r.handle)))
	}
	return e
}
