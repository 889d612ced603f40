package admin

import (
	"errors"
	"html/template"
	"net/http"
	"time"

	"github.com/onceward/onceward/audit"
)

// checkData is the newest verification of the account, as the page Audit shows
// it.
type checkData struct {
	audit.Verification
	Bar    template.HTML
	Left   string // how long it still takes, "" where nobody knows
	Pruned bool   // what is gone by retention was not there to be verified
}

// Asked reports whether anybody asked for one.
func (c checkData) Asked() bool { return !c.StartedAt.IsZero() }

// Good reports whether it found everything as it was recorded.
func (c checkData) Good() bool {
	return !c.EndedAt.IsZero() && c.Err == nil && len(c.Report.Faults) == 0
}

func (v *view) check() checkData {
	if v.a.cfg.Audit == nil {
		return checkData{}
	}
	c := checkData{Verification: v.a.cfg.Audit.Verifying()}
	if done := min(c.Acts, c.Total); c.Running() && done > 0 {
		part := float64(done) / float64(c.Total)
		c.Bar = bar(100 * part)
		c.Left = span(time.Duration(float64(v.now.Sub(c.StartedAt)) * (1 - part) / part).Round(time.Second))
	}
	for _, l := range c.Report.Logs {
		c.Pruned = c.Pruned || l.From > 0
	}
	return c
}

// auditVerifyForm has the account verified, in the background.
func (a *Admin) auditVerifyForm(v *view) error {
	if a.cfg.Audit == nil {
		return errNoAudit
	}
	switch err := a.cfg.Audit.AskVerify(v.who.Name); {
	case errors.Is(err, audit.ErrVerifying):
		return apiError(http.StatusConflict, CodeBusy, "the account is being verified already")
	case errors.Is(err, audit.ErrNoKey):
		return apiError(http.StatusBadRequest, CodeInvalid, "this gateway has no key to verify its account with")
	case err != nil:
		return err
	}
	a.cfg.Log.Info("verification of the account asked for", "actor", v.who.Name, "remote_ip", peerOf(v.c.Request()))
	return seeOther(v.c, "/audit#verify")
}

// auditStopForm ends a verification.
func (a *Admin) auditStopForm(v *view) error {
	if a.cfg.Audit == nil {
		return errNoAudit
	}
	a.cfg.Audit.StopVerify()
	return seeOther(v.c, "/audit#verify")
}

// verifyingPart is the verification alone, for the page that looks again by itself.
func (a *Admin) verifyingPart(v *view) error {
	v.c.Response().Header().Set("Content-Security-Policy", pagePolicy)
	return a.ui.part(v.c, "audit", "verifying", &frame{Who: v.who, Now: v.now.UTC(), Data: auditData{Check: v.check()}})
}
