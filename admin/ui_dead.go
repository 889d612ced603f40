package admin

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/event"
)

// deadGroup is dead deliveries of one target that ended alike.
type deadGroup struct {
	Target      string
	Why         string
	Types       []string
	N           int
	First, Last time.Time
	Href        string
}

type deadData struct {
	Damaged []event.Ref // between the rows, unreadable
	Target  string
	Total   int64
	Groups  []deadGroup
	Rows    []Delivery
	Looked  int  // how many the groups are made of
	All     bool // which is all of them
	Older   string
	Newest  string
	Targets []string
	Wrong   string
	Replay  string
}

// deadSample is how many dead deliveries the groups are made of, at most.
const deadSample = 2000

func (a *Admin) deadPage(v *view) error {
	p := v.c.QueryParams()
	d := deadData{Target: field(p, "target")}
	for i := range v.snap.targets {
		t := &v.snap.targets[i]
		if t.Dead > 0 {
			d.Targets = append(d.Targets, t.Name)
		}
		if d.Target == "" || d.Target == t.Name {
			d.Total += t.Dead
		}
	}
	args := Filter{State: "dead", Target: d.Target}
	q, err := args.Query(audit.KindDeliveries, v.now)
	if err != nil {
		return err
	}
	q.Cursor, q.Limit, q.Budget, q.PastDamage = field(p, "cursor"), pageSize, pageBudget, true
	page, err := a.cfg.Account.Deliveries(v.c.Request().Context(), q)
	var inv *audit.InvalidError
	if errors.As(err, &inv) {
		d.Wrong = inv.Problem
	} else if err != nil {
		return err
	}
	d.Rows, d.Damaged = page.Items, page.Damaged
	self := url.Values{}
	if d.Target != "" {
		self.Set("target", d.Target)
	}
	if q.Cursor != "" {
		d.Newest = "/dead?" + self.Encode()
	}
	if page.Next != "" {
		self.Set("cursor", page.Next)
		d.Older = "/dead?" + self.Encode()
	}
	d.Replay = "/replay?" + (url.Values{"state": {"dead"}, "target": {d.Target}}).Encode()
	if err := v.groupDead(&d, args); err != nil {
		return err
	}
	return v.render(http.StatusOK, "dead", "Dead letters", "/dead", d)
}

// groupDead folds the newest dead deliveries by target and cause.
func (v *view) groupDead(d *deadData, args Filter) error {
	q, err := args.Query(audit.KindDeliveries, v.now)
	if err != nil {
		return err
	}
	q.Limit, q.Budget, q.PastDamage = audit.MaxLimit, pageBudget/4, true
	groups := map[[2]string]*deadGroup{}
	for d.Looked < deadSample {
		page, err := v.a.cfg.Account.Deliveries(v.c.Request().Context(), q)
		if err != nil {
			return err
		}
		for i := range page.Items {
			addDead(groups, &page.Items[i])
		}
		d.Looked += len(page.Items)
		q.Cursor = page.Next
		if page.Next == "" {
			d.All = true
			break
		}
		if len(page.Items) == 0 {
			break
		}
	}
	for _, g := range groups {
		d.Groups = append(d.Groups, *g)
	}
	slices.SortFunc(d.Groups, func(x, y deadGroup) int {
		return cmp.Or(cmp.Compare(y.N, x.N), cmp.Compare(x.Target, y.Target), cmp.Compare(x.Why, y.Why))
	})
	return nil
}

func addDead(groups map[[2]string]*deadGroup, dl *Delivery) {
	why := deadWhy(dl)
	key := [2]string{dl.Target, why}
	g := groups[key]
	if g == nil {
		g = &deadGroup{Target: dl.Target, Why: why, Last: dl.UpdatedAt, First: dl.UpdatedAt}
		g.Href = "/replay?" + url.Values{"state": {"dead"}, "target": {dl.Target}}.Encode()
		groups[key] = g
	}
	g.N++
	if dl.UpdatedAt.Before(g.First) {
		g.First = dl.UpdatedAt
	}
	if dl.UpdatedAt.After(g.Last) {
		g.Last = dl.UpdatedAt
	}
	if len(g.Types) < 4 && !slices.Contains(g.Types, dl.Type) {
		g.Types = append(g.Types, dl.Type)
	}
}

// deadWhy is the last thing that went wrong with a delivery.
func deadWhy(dl *Delivery) string {
	switch {
	case dl.LastStatus != 0:
		return "answered " + strconv.Itoa(dl.LastStatus)
	case dl.LastError != "":
		return outcomeWord(dl.LastError)
	}
	return "given up"
}
