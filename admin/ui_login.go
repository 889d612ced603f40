package admin

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/onceward/onceward/dedupe"
)

// loginData is what the page that asks for a token shows.
type loginData struct {
	Next  string // where to go on
	Wrong string // what was wrong with the last try
	// NotKept says that the browser dropped the session at once.
	NotKept bool
	// Bounce makes the browser ask again by itself: a link from elsewhere comes
	// without the cookie, which is not sent across sites.
	Bounce bool
}

func (a *Admin) loginTo(c echo.Context, status int, d loginData) error {
	f := &frame{Title: "Sign in", Build: a.cfg.Build, Now: a.cfg.Now().UTC(), Data: d}
	return a.ui.write(c, status, "login", f)
}

// localPath is a path of ours to go on to; anything else is the first page.
func localPath(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(s, "/") ||
		strings.HasPrefix(s, "//") || strings.ContainsAny(s, "\\\r\n\t") || strings.HasPrefix(u.Path, "/login") {
		return "/"
	}
	return s
}

func (a *Admin) loginPage(c echo.Context) error {
	return a.loginTo(c, http.StatusOK, loginData{Next: localPath(c.QueryParam("next"))})
}

// strangerPage is for one who is not signed in. Programs and forms get an
// error; a reader gets the form.
func (a *Admin) strangerPage(c echo.Context) error {
	r := c.Request()
	if r.Method != http.MethodGet || r.Header.Get("HX-Request") != "" {
		return a.failPage(c, apiError(http.StatusUnauthorized, CodeUnauthorized, "you are signed out: sign in and do it again"))
	}
	d := loginData{Next: localPath(r.URL.RequestURI())}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		d.Bounce = true
	}
	return a.loginTo(c, http.StatusUnauthorized, d)
}

// loginForm takes a token and opens a session. The token is compared as
// everywhere, and failures count against the address.
func (a *Admin) loginForm(c echo.Context) error {
	r := c.Request()
	token := strings.TrimSpace(r.PostFormValue("token"))
	next := localPath(r.PostFormValue("next"))
	if token == "" {
		return a.loginTo(c, http.StatusBadRequest, loginData{Next: next, Wrong: "Paste the token: it is one line of a file that the gateway named when it started."})
	}
	p, err := a.login(r, token, authWrong, a.holder)
	switch {
	case errors.Is(err, errLimited):
		c.Response().Header().Set("Retry-After", "60")
		return a.loginTo(c, http.StatusTooManyRequests, loginData{Next: next, Wrong: "Too many wrong tokens from this address: wait a minute."})
	case err != nil:
		return a.loginTo(c, http.StatusUnauthorized, loginData{Next: next, Wrong: "No token of this gateway is this one."})
	}
	setCookie(c.Response(), a.sessions.add(HashToken(token), a.cfg.Now()))
	if a.cfg.Record != nil {
		a.record(r.Context(), &dedupe.Act{Kind: dedupe.ActOperated, Outcome: "login", Status: http.StatusSeeOther, Time: a.cfg.Now(),
			Detail: "a browser from " + peerOf(r).String(), By: dedupe.By{Actor: p.Name}})
	}
	a.cfg.Log.Info("signed in", "actor", p.Name, "role", p.Role.String(), "remote_ip", peerOf(r))
	return seeOther(c, "/login/kept?next="+url.QueryEscape(next))
}

// loginKept is where a new session first shows: a browser that did not keep
// its cookie is told so, in place of being asked for the token again.
func (a *Admin) loginKept(c echo.Context) error {
	next := localPath(c.QueryParam("next"))
	if _, ok := a.visitor(c.Request()); !ok {
		return a.loginTo(c, http.StatusUnauthorized, loginData{Next: next, NotKept: true})
	}
	return seeOther(c, next)
}

func (a *Admin) logout(c echo.Context) error {
	if cookie, err := c.Request().Cookie(sessionCookie); err == nil {
		a.sessions.drop(cookie.Value)
	}
	setCookie(c.Response(), "")
	return seeOther(c, "/login")
}

// seeOther sends the browser to a path of ours with a GET.
func seeOther(c echo.Context, path string) error {
	c.Response().Header().Set("Location", path)
	return c.NoContent(http.StatusSeeOther)
}
