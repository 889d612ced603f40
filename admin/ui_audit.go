package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
)

// operatorKinds are the acts that the account shows first: what people did.
const operatorKinds = "operated,configured,replayed,cancelled,settled"

type auditData struct {
	None   bool // the gateway keeps no log
	Kind   string
	Actor  string
	Target string
	Since  string
	To     string // only older ones
	Ref    string // only of this event
	Check  checkData
	Kinds  []string
	// Several is the chosen kind in words when it is more than one.
	Several string
	Acts    []audit.LogAct
	Logs    []audit.Standing
	Keys    []string
	Signed  bool   // a checkpoint was made just now
	Broken  string // what of the logs can't be read
	Remedy  string
	Wrong   string
	Older   string
	Newest  string
	Filter  bool
}

func (a *Admin) auditPage(v *view) error { return v.audit(v.c.QueryParams(), false) }

// auditSignForm makes a checkpoint of all that is recorded now.
func (a *Admin) auditSignForm(v *view) error {
	unrecorded(v.c) // that would be something new to sign
	if a.cfg.Audit == nil {
		return errNoAudit
	}
	if _, err := a.cfg.Audit.CheckpointAll(v.c.Request().Context()); err != nil {
		return err
	}
	return v.audit(url.Values{}, true)
}

func (v *view) audit(p url.Values, signed bool) error {
	l := v.a.cfg.Audit
	d := auditData{None: l == nil, Kind: field(p, "kind"), Actor: field(p, "actor"), Target: field(p, "target"), Since: field(p, "since"), To: field(p, "to"), Ref: field(p, "ref"), Signed: signed}
	if d.None {
		return v.render(http.StatusOK, "audit", "Audit", "/audit", d)
	}
	for k := dedupe.ActKind(1); k.String() != "" && !strings.Contains(k.String(), "("); k++ {
		d.Kinds = append(d.Kinds, k.String())
	}
	if strings.Contains(d.Kind, ",") {
		d.Several = strings.ReplaceAll(d.Kind, ",", ", ")
	}
	q := url.Values{}
	for name, val := range map[string]string{"kind": d.Kind, "actor": d.Actor, "target": d.Target, "since": d.Since, "to": d.To, "ref": d.Ref} {
		if val != "" {
			q.Set(name, val)
			d.Filter = true
		}
	}
	self := q.Encode()
	if d.Kind == "" {
		q.Set("kind", operatorKinds)
	} else if d.Kind == "all" {
		q.Del("kind")
	}
	if c := field(p, "cursor"); c != "" {
		q.Set("cursor", c)
		d.Newest = "/audit?" + self
	}
	d.Check = v.check()
	var err error
	if d.Logs, err = l.Standings(v.c.Request().Context()); err != nil && !d.broken(err) {
		return err
	}
	if d.Keys, err = l.PublicKeys(v.c.Request().Context()); err != nil {
		return err
	}
	status, err := v.acts(&d, q, self)
	if err != nil && !d.broken(err) {
		return err
	}
	if t := l.Trouble(); t != nil && d.Broken == "" {
		d.broken(t.Err)
	}
	return v.render(status, "audit", "Audit", "/audit", d)
}

// broken notes what can't be read, so that the page shows the rest; it is false of
// an error that is no damage.
func (d *auditData) broken(err error) bool {
	if !errors.Is(err, dedupe.ErrDamaged) {
		return false
	}
	d.Broken, d.Remedy = capital(err.Error()), auditRemedy
	return true
}

func (v *view) acts(d *auditData, p url.Values, self string) (int, error) {
	q, err := audit.ParseActQuery(p, v.now)
	var page dedupe.Page[audit.LogAct]
	if err == nil {
		q.Limit = pageSize
		page, err = v.a.cfg.Audit.List(v.c.Request().Context(), q)
	}
	var inv *audit.InvalidError
	switch {
	case errors.As(err, &inv):
		d.Wrong = inv.Problem
		return http.StatusBadRequest, nil
	case err != nil:
		return http.StatusOK, err
	}
	d.Acts = page.Items
	if page.Next != "" {
		next, _ := url.ParseQuery(self) // what Encode wrote
		next.Set("cursor", page.Next)
		d.Older = "/audit?" + next.Encode()
	}
	return http.StatusOK, nil
}

type proofData struct {
	Event
	Receipt audit.Receipt
}

// proofPage shows what a receipt of an event says. The checkpoint it ends in
// is made for it.
func (a *Admin) proofPage(v *view) error {
	ev, r, err := a.prove(v)
	if err != nil {
		return err
	}
	return v.render(http.StatusOK, "proof", "Proof", "/events", proofData{ev, r})
}

// receiptFile gives the receipt out as a file.
func (a *Admin) receiptFile(v *view) error {
	ev, r, err := a.prove(v)
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	v.c.Response().Header().Set("Content-Disposition", `attachment; filename="`+ev.Ref.String()+`.json"`)
	return v.c.Blob(http.StatusOK, "application/json", append(b, '\n'))
}

func (a *Admin) prove(v *view) (Event, audit.Receipt, error) {
	if a.cfg.Audit == nil {
		return Event{}, audit.Receipt{}, errNoAudit
	}
	ref, err := v.ref("")
	if err != nil {
		return Event{}, audit.Receipt{}, err
	}
	ev, err := a.cfg.Account.Get(v.c.Request().Context(), ref)
	if err != nil {
		return ev, audit.Receipt{}, err
	}
	r, err := a.cfg.Audit.Prove(v.c.Request().Context(), ref)
	return ev, r, err
}

// actWhat is what an act was about, in a few words.
func actWhat(x audit.LogAct) string {
	var out []string
	if x.Outcome != "" {
		out = append(out, words(x.Outcome))
	}
	if x.Target != "" {
		out = append(out, "target "+x.Target)
	}
	if x.Source != "" {
		out = append(out, "source "+x.Source)
	}
	if x.Count > 1 {
		out = append(out, grouped(int64(x.Count))+" times")
	}
	if x.Detail != "" && !slices.Contains(out, x.Detail) {
		out = append(out, x.Detail)
	}
	return briefly(strings.Join(out, ", "), 4*briefRunes) // the rest is in the export
}
