package admin

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
)

type keysData struct {
	State   string
	Source  string
	Caller  string
	ID      string
	States  []string
	Sources []string
	Keys    []Key
	Wrong   string
	Older   string
	Newest  string
	Filter  bool
}

func (a *Admin) keysPage(v *view) error {
	p := v.c.QueryParams()
	d := keysData{State: field(p, "state"), Source: field(p, "source"), Caller: field(p, "caller"), ID: field(p, "id")}
	for s := dedupe.KeyState(1); ; s++ {
		if known, ok := dedupe.ParseKeyState(s.String()); !ok || known != s {
			break
		}
		d.States = append(d.States, s.String())
	}
	for i := range v.snap.sources {
		d.Sources = append(d.Sources, v.snap.sources[i].Name)
	}
	f := dedupe.KeyFilter{Source: d.Source, Caller: d.Caller, ID: d.ID, Open: d.State == "" && d.ID == ""}
	status := http.StatusOK
	if d.State != "" && d.State != "all" {
		var ok bool
		if f.State, ok = dedupe.ParseKeyState(d.State); !ok {
			d.Wrong, status = "no key is ever "+d.State, http.StatusBadRequest
		}
	}
	self := url.Values{}
	for name, val := range map[string]string{"state": d.State, "source": d.Source, "caller": d.Caller, "id": d.ID} {
		if val != "" {
			self.Set(name, val)
			d.Filter = true
		}
	}
	cursor := field(p, "cursor")
	if cursor != "" {
		d.Newest = "/keys?" + self.Encode()
	}
	if d.Wrong == "" {
		page, err := a.cfg.Account.ListSyncKeys(v.c.Request().Context(), f, cursor, pageSize)
		if err != nil {
			return err
		}
		d.Keys = page.Items
		if page.Next != "" {
			self.Set("cursor", page.Next)
			d.Older = "/keys?" + self.Encode()
		}
	}
	return v.render(status, "keys", "Keys", "/keys", d)
}

type keyData struct {
	Key
	As     string
	Code   string
	Body   string
	Reason string
	Wrong  string
}

// Open reports whether the key still waits for a conclusion.
func (d keyData) Open() bool { return d.State.Open() }

// Unknown reports whether a person has to say what became of it.
func (d keyData) Unknown() bool { return d.State == dedupe.KeyUnknown }

func (a *Admin) keyPage(v *view) error {
	return a.showKey(v, http.StatusOK, v.c.QueryParam("ref"), keyData{As: SettleDone, Code: "200"})
}

func (a *Admin) showKey(v *view, status int, ref string, d keyData) error {
	k, err := a.cfg.Account.SyncKey(v.c.Request().Context(), audit.KeyName{ID: ref})
	if err != nil {
		return err
	}
	d.Key = k
	return v.render(status, "key", "Key", "/keys", d)
}

// settleForm concludes a key of unknown outcome, for a reason.
func (a *Admin) settleForm(v *view) error {
	p, err := v.c.FormParams()
	if err != nil {
		return apiError(http.StatusBadRequest, CodeInvalid, "the form cannot be read")
	}
	ref := field(p, "ref")
	d := keyData{As: field(p, "as"), Code: field(p, "status"), Body: p.Get("body"), Reason: field(p, "reason")}
	by, wrong := v.reasonOf(p)
	status := 0
	switch {
	case d.As != SettleDone && d.As != SettleRetry:
		wrong = "Say whether it was executed."
	case d.As == SettleDone:
		if status, err = strconv.Atoi(d.Code); err != nil || status < 200 || status > 599 {
			wrong = "The status that repeats get is a number from 200 to 599."
		}
	}
	if wrong != "" {
		d.Wrong = wrong
		return a.showKey(v, http.StatusBadRequest, ref, d)
	}
	about(v.c, map[string]string{"key": ref, "as": d.As})
	s := audit.Settlement{KeyName: audit.KeyName{ID: ref}, Done: d.As == SettleDone, By: by}
	if token, err := strconv.ParseUint(p.Get("token"), 10, 64); err == nil {
		s.Token = token // what the page showed: a key that moved on since is left alone
	}
	if s.Done {
		s.Status, s.Body = status, []byte(d.Body)
	}
	k, err := a.cfg.Account.Settle(v.c.Request().Context(), s)
	if err != nil {
		return err
	}
	a.cfg.Log.Info("key settled", "source", k.Source, "caller", k.Caller, "as", d.As, "actor", by.Actor, "reason", by.Reason, "remote_ip", peerOf(v.c.Request()))
	return seeOther(v.c, "/keys/one?ref="+url.QueryEscape(k.Ref))
}

// keyClass is the shape and colour of a key's state.
func keyClass(s dedupe.KeyState) string {
	switch s {
	case dedupe.KeyUnknown:
		return "bad"
	case dedupe.KeyInFlight:
		return "flight"
	case dedupe.KeyAnswered, dedupe.KeySettled:
		return "ok"
	}
	return "off"
}
