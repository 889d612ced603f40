package admin

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// tab is one view of an event's body.
type tab struct {
	Name, Text string
	On         bool
	N          int
}

// dlvData is one delivery with its attempts, newest first.
type dlvData struct {
	Delivery
	Word, Note string
	Latest     []Attempt // the newest, and those unlike it
	Earlier    []Attempt // folded
	Same       bool      // the folded ones ended as the newest did
}

type eventData struct {
	Event
	Say        template.HTML
	Timeline   template.HTML
	Deliveries []dlvData
	Checks     []checkItem
	Tabs       []tab
	View       string
	Lines      []string // of the body's text
	Text       string   // of the hex view
	Cut        string   // what of the body is shown, "" for all
	BodyNote   string   // why no body is shown
	BodyLevel  string
	Kind       string
	Curl       string
	Received   string
	KeptUntil  time.Time
	WindowEnd  time.Time
	Setup      *SourceSetup
	OpenCount  int
	Held       bool // an attempt is held back, or was
	Closed     int
	Arrivals   []arrival // under its ID after the first, newest first
	Before     uint64    // how many of those are not listed
	Recorded   string    // where the account lists them all
}

// checkItem is one line of a verification report.
type checkItem struct {
	Class, Word, Text, Sub string
}

// ref is the event that a page's path names, of one source or with "" of any.
func (v *view) ref(source string) (event.Ref, error) {
	id, err := pathParam(v.c, "id")
	if err != nil {
		return event.Ref{}, err
	}
	return v.a.resolve(v.c, id, source)
}

func (a *Admin) eventPage(v *view) error {
	ctx := v.c.Request().Context()
	ref, err := v.ref(v.c.QueryParam("source"))
	if err != nil {
		return err
	}
	det, err := a.cfg.Account.Detail(ctx, ref)
	if err != nil {
		return err
	}
	det.Attempted = forRole(v.who, det.Attempted)
	d := eventData{Event: det.Event, Setup: v.setup.source(det.Source)}
	d.Deliveries = v.dlvs(&det)
	for _, dl := range det.Deliveries {
		if dl.State.Open() {
			d.OpenCount++
		} else {
			d.Closed++
		}
	}
	d.Say = v.say(&det)
	tl := v.timelineOf(&det)
	d.Held = slices.ContainsFunc(tl.lanes, func(l lane) bool { return len(l.held) > 0 })
	d.Timeline = tl.svg()
	d.Checks = v.checks(&det.Event)
	d.Received = receivedWords(&det.Event)
	if d.Setup.KeepBodies > 0 {
		d.KeptUntil = det.ReceivedAt.Add(d.Setup.KeepBodies)
	}
	if d.Setup.Window > 0 {
		d.WindowEnd = det.ReceivedAt.Add(d.Setup.Window)
	}
	a.arrivals(v, &d)
	if err := a.bodyViews(v, &d); err != nil {
		return err
	}
	if v.who.may(RoleOperator) {
		d.Curl = v.curl(&det.Event)
	}
	title := cmp.Or(shown(det.Type), "event without a type")
	return v.render(http.StatusOK, "event", title, "/events", d)
}

// say is what is so of an event, in a sentence.
func (v *view) say(d *Detail) template.HTML {
	if len(d.Deliveries) == 0 {
		return template.HTML(`<span class="s off">unrouted</span> ` + template.HTMLEscapeString(unroutedWords(d.Unrouted)))
	}
	var b strings.Builder
	esc := template.HTMLEscapeString
	for i, g := range stateGroups(d.Deliveries) {
		if i > 0 {
			b.WriteString(", ")
		}
		to := "for"
		if g.State == event.Delivered.String() {
			to = "to"
		}
		fmt.Fprintf(&b, `<span class="s %s">%s</span> %s <b class="b">%s</b>`, stateClass(g.State), g.State, to, esc(shown(g.Targets)))
	}
	b.WriteString(".")
	if n := d.Repeats + d.Conflicts; n > 0 {
		fmt.Fprintf(&b, " It arrived %s; each target gets it once.", times(1+n))
	}
	return template.HTML(b.String())
}

// unroutedWords is why an event went to nobody.
func unroutedWords(why event.Unrouted) string {
	switch why {
	case event.UnroutedNoMatch:
		return "No route of its source took it."
	case event.UnroutedFilterError:
		return "No route of its source took it, and a condition of one had no result."
	}
	return "Its source sends to no target: it is kept, and can be replayed to one later."
}

func times(n uint64) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return grouped(int64(n)) + " times"
}

func receivedWords(ev *Event) string { return "Received " + times(1+ev.Repeats+ev.Conflicts) }

// dlvs are an event's deliveries with their attempts, the worst first.
func (v *view) dlvs(d *Detail) []dlvData {
	var out []dlvData
	for _, dl := range d.Deliveries {
		x := dlvData{Delivery: dl, Word: dl.State.String()}
		var at []Attempt
		for _, a := range d.Attempted {
			if a.Target == dl.Target {
				at = append(at, a)
			}
		}
		slices.Reverse(at)
		x.Latest, x.Earlier, x.Same = fold(at)
		x.Note = v.dlvNote(&dl, at, d.ReceivedAt)
		out = append(out, x)
	}
	order := map[event.State]int{event.Dead: 0, event.Pending: 1, event.Leased: 2, event.Cancelled: 3, event.Delivered: 4}
	slices.SortStableFunc(out, func(x, y dlvData) int { return cmp.Compare(order[x.State], order[y.State]) })
	return out
}

// fold keeps the newest attempts in sight: up to three, or only the first of
// a run that all ended alike.
func fold(at []Attempt) (latest, earlier []Attempt, same bool) {
	if len(at) <= 3 {
		return at, nil, false
	}
	same = true
	for _, a := range at[1:] {
		same = same && a.Outcome == at[0].Outcome && a.Status == at[0].Status
	}
	if same {
		return at[:1], at[1:], true
	}
	return at[:3], at[3:], false
}

func (v *view) dlvNote(dl *Delivery, at []Attempt, received time.Time) string {
	parts := []string{count(len(at), "attempt")}
	if len(at) == 0 {
		parts[0] = "no attempt yet"
	}
	switch {
	case dl.State == event.Delivered && len(at) > 0:
		end := at[0].StartedAt.Add(time.Duration(at[0].Duration * float64(time.Second)))
		parts = append(parts, span(max(0, end.Sub(received)).Round(time.Millisecond))+" after receipt")
	case dl.State.Open():
		if !dl.DueAt.IsZero() && dl.DueAt.After(v.now) {
			parts = append(parts, "next in "+span(dl.DueAt.Sub(v.now).Round(time.Second)))
		}
		if give := v.setup.target(dl.Target).GiveUp; give > 0 {
			parts = append(parts, "dead on "+dl.OpenedAt.Add(give).UTC().Format("2 Jan 15:04"))
		}
	case dl.State == event.Dead:
		parts = append(parts, "given up "+dl.UpdatedAt.UTC().Format("2 Jan 15:04:05"))
	}
	if dl.Generation > 0 {
		parts = append(parts, "replayed "+times(uint64(dl.Generation)))
	}
	return strings.Join(parts, ", ")
}

// timelineOf is every receipt and attempt of an event, to scale.
func (v *view) timelineOf(d *Detail) timeline {
	tl := timeline{from: d.ReceivedAt, now: v.now}
	in := lane{name: d.Source, note: "sent it " + times(1+d.Repeats+d.Conflicts)}
	in.marks = append(in.marks, mark{at: d.ReceivedAt, kind: "in", title: "received"})
	if !d.RepeatedAt.IsZero() {
		m := mark{at: d.RepeatedAt, kind: "again", title: "last repeat"}
		if d.Conflicts > 0 {
			m.kind, m.title = "diff", "last repeat or conflict"
		}
		in.marks = append(in.marks, m)
	}
	tl.lanes = append(tl.lanes, in)
	for _, dl := range d.Deliveries {
		tl.lanes = append(tl.lanes, v.laneOf(d, &dl))
	}
	return tl
}

func (v *view) laneOf(d *Detail, dl *Delivery) lane {
	l := lane{name: dl.Target, hot: dl.State == event.Dead}
	n := 0
	end := d.ReceivedAt
	for _, at := range d.Attempted {
		if at.Target != dl.Target {
			continue
		}
		n++
		m := mark{at: at.StartedAt, until: at.StartedAt.Add(time.Duration(at.Duration * float64(time.Second))), kind: "fail",
			title: fmt.Sprintf("attempt %d: %s after %s", at.Number, outcomeWord(string(at.Outcome)), seconds(at.Duration))}
		if at.Outcome.Success() {
			m.kind = "ok"
		}
		end = m.until
		l.marks = append(l.marks, m)
	}
	switch {
	case dl.State.Open():
		l.note = fmt.Sprintf("%s after %s", dl.State, count(n, "attempt"))
		l.hot = n >= failingLeast
		end = v.now
		l.held = v.heldBack(dl.Target, d.ReceivedAt)
		if dl.DueAt.After(v.now) && dl.DueAt.Sub(v.now) < 2*v.now.Sub(d.ReceivedAt)+time.Minute {
			l.marks = append(l.marks, mark{at: dl.DueAt, kind: "next", title: "next attempt"})
		}
	case dl.State == event.Delivered:
		l.note = fmt.Sprintf("delivered at attempt %d", max(n, 1))
	default:
		l.note = fmt.Sprintf("%s after %s", dl.State, count(n, "attempt"))
	}
	l.waits = append(l.waits, [2]time.Time{d.ReceivedAt, end})
	return l
}

// heldBack is when attempts at a target were held back since a moment: while
// it was paused, and while its breaker was open.
func (v *view) heldBack(target string, since time.Time) (out [][2]time.Time) {
	i := slices.IndexFunc(v.snap.targets, func(t Target) bool { return t.Name == target })
	if i < 0 {
		return nil
	}
	t := &v.snap.targets[i]
	from := time.Time{}
	add := func(until time.Time) {
		if !from.IsZero() && until.After(since) {
			out = append(out, [2]time.Time{later(from, since), until})
		}
		from = time.Time{}
	}
	for _, turn := range t.Breaker.History {
		switch {
		case turn.State == "open" && from.IsZero():
			from = turn.At
		case turn.State == "closed":
			add(turn.At)
		}
	}
	add(v.now)
	if t.Paused {
		from = t.PausedAt
		add(v.now)
	}
	return out
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// checks is the report of the event's verification.
func (v *view) checks(ev *Event) []checkItem {
	s := v.setup.source(ev.Source)
	out := []checkItem{{"ok", "authentic", cmp.Or(s.Title, ev.Provider) + sentence(", ", s.Signed), ""}}
	if ev.Provider == "none" {
		out[0] = checkItem{"off", "unsigned", "this source takes requests that prove nothing", ""}
	}
	if ev.Secret != "" {
		out = append(out, checkItem{"ok", "secret", "label " + shown(ev.Secret) + " matched", ""})
	}
	out = append(out, checkItem{"ok", "bytes", count(ev.BodyBytes, "byte") + " read", "SHA-256 " + ev.BodySHA256.String()})
	switch {
	case ev.ID == "":
		out = append(out, checkItem{"warn", "event ID", "none was sent", "a repeat is recognised by its body, as far as the source's settings say"})
	default:
		out = append(out, checkItem{"ok", "event ID", shown(ev.ID), ""})
	}
	for _, f := range ev.Flags {
		if text := flagWords[f]; text != "" {
			class := "off"
			if f == "conflict" || f == "guard" {
				class = "warn"
			}
			out = append(out, checkItem{class, words(f), text, ""})
		}
	}
	return out
}

var flagWords = map[string]string{
	"conflict":  "the same ID had come with another body; this is a distinct event",
	"guard":     "the same signed bytes had come under another ID",
	"test":      "sent by trigger or a test, not by the provider",
	"id_hashed": "the ID was too long or held control characters; its hash stands for it",
	"undeduped": "there is nothing to recognise a repeat by",
	"batch":     "a batch that is forwarded whole",
}

func sentence(before, s string) string {
	if s == "" {
		return ""
	}
	return before + s
}

// bodyViews fills in the chosen view of the body.
func (a *Admin) bodyViews(v *view, d *eventData) error {
	d.View = v.c.QueryParam("view")
	if !slices.Contains([]string{"pretty", "raw", "hex", "headers"}, d.View) {
		d.View = "pretty"
	}
	for _, t := range []tab{{Name: "pretty", Text: "Pretty"}, {Name: "raw", Text: "Raw"}, {Name: "hex", Text: "Hex"}, {Name: "headers", Text: "Headers", N: len(d.Header)}} {
		t.On = t.Name == d.View
		d.Tabs = append(d.Tabs, t)
	}
	d.Kind = bytesOf(d.BodyBytes)
	if d.View == "headers" {
		return nil
	}
	if !v.who.may(RoleOperator) {
		d.BodyLevel, d.BodyNote = "no bodies", "Your role is viewer: you see hashes, sizes and states. Bodies need the role operator."
		return nil
	}
	covered := a.cfg.Account.Redaction(d.Source) != nil
	if covered && d.View != "pretty" && !v.who.may(RoleAdmin) {
		d.BodyLevel, d.BodyNote = "redacted", "Fields of this source's bodies are redacted: raw bytes need the role admin. The pretty view shows the rest."
		return nil
	}
	b, err := a.shownBody(v, d)
	switch {
	case errors.Is(err, audit.ErrHidden):
		d.BodyLevel, d.BodyNote = "redacted", "Fields of this source's bodies are redacted, and this body is not JSON: it needs the role admin."
		return nil
	case errors.Is(err, dedupe.ErrPruned):
		d.BodyLevel, d.BodyNote = "body gone", "Retention took this body, or its source keeps none after delivery. Its hash, headers and attempts remain; it cannot be replayed from here."
		return nil
	case errors.Is(err, dedupe.ErrDamaged):
		a.cfg.Log.Error("body of an event is damaged", "event", d.Ref, "error", err)
		d.BodyLevel, d.BodyNote = "damaged", "The stored bytes do not match their hash. They are not shown, and will not be sent. onceward ledger check says what else is damaged."
		return nil
	case err != nil:
		return err
	}
	d.Kind += ", " + bodyKind(b)
	d.showBody(b)
	return nil
}

// shownBody is the body for the chosen view. Fields are redacted in the pretty
// view for everyone; an admin sees what is no JSON all the same.
func (a *Admin) shownBody(v *view, d *eventData) ([]byte, error) {
	ctx := v.c.Request().Context()
	if d.View != "pretty" {
		return a.cfg.Account.Body(ctx, d.Ref)
	}
	b, _, err := a.cfg.Account.Redacted(ctx, d.Ref)
	if errors.Is(err, audit.ErrHidden) && v.who.may(RoleAdmin) {
		return a.cfg.Account.Body(ctx, d.Ref)
	}
	return b, err
}

func (d *eventData) showBody(b []byte) {
	limit := maxShownBody
	if d.View == "hex" {
		limit = maxShownHex
	}
	part := b
	if len(b) > limit {
		part = cutUTF8(b, limit)
		d.Cut = fmt.Sprintf("The first %s of %s.", bytesOf(int64(len(part))), bytesOf(int64(len(b))))
	}
	switch d.View {
	case "hex":
		d.Text = hexDump(part)
		return
	case "raw":
		d.Lines = strings.Split(shownLines(string(part)), "\n")
	default:
		text := audit.MaskBody(part)
		pretty, ok := indentJSON(text)
		if !ok && !strings.ContainsAny(text, " \n<") && strings.Contains(text, "=") {
			pretty = formLines(text)
		}
		d.Lines = strings.Split(shownLines(pretty), "\n")
	}
}

// curl is a command that sends the event as the first target gets it, without
// its secrets.
func (v *view) curl(ev *Event) string {
	url, target := "http://127.0.0.1:9000", ""
	for _, dl := range ev.Deliveries {
		for i := range v.snap.targets {
			if v.snap.targets[i].Name == dl.Target && v.snap.targets[i].URL != "" && target == "" {
				url, target = v.snap.targets[i].URL, dl.Target
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "onceward events body %s |\n  curl -sS %s --data-binary @-", ev.Ref, shellQuote(url+"/"))
	if ev.Method != "" && ev.Method != http.MethodPost {
		fmt.Fprintf(&b, " -X %s", shellQuote(ev.Method))
	}
	header := func(name, value string) {
		if value != "" && value != audit.Masked {
			fmt.Fprintf(&b, " \\\n    -H %s", shellQuote(name+": "+value))
		}
	}
	for _, h := range ev.Header {
		if strings.EqualFold(h.Name, "Content-Type") {
			header(h.Name, h.Value)
		}
	}
	header("Idempotency-Key", ev.Key)
	header("Onceward-Event", ev.Ref.String())
	header("Onceward-Source", ev.Source)
	header("Onceward-Event-Id", ev.ID)
	header("Onceward-Event-Type", ev.Type)
	return b.String()
}

// shellQuote makes one word of a shell out of any text. Control characters,
// which no header can hold, are shown as what they are.
func shellQuote(s string) string {
	s = shown(s)
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// cancelData asks whether to close open deliveries.
type cancelData struct {
	Event
	Target string
	Reason string
	Wrong  string
	Open   []string
}

func (a *Admin) cancelPage(v *view) error { return a.askCancel(v, http.StatusOK, "", "") }

func (a *Admin) askCancel(v *view, status int, reason, wrong string) error {
	ref, err := v.ref("")
	if err != nil {
		return err
	}
	ev, err := a.cfg.Account.Get(v.c.Request().Context(), ref)
	if err != nil {
		return err
	}
	d := cancelData{Event: ev, Target: v.c.FormValue("target"), Reason: reason, Wrong: wrong}
	for _, dl := range ev.Deliveries {
		if dl.State.Open() && (d.Target == "" || d.Target == dl.Target) {
			d.Open = append(d.Open, dl.Target)
		}
	}
	return v.render(status, "cancel", "Cancel deliveries", "/events", d)
}

func (a *Admin) cancelForm(v *view) error {
	reason := strings.TrimSpace(v.c.FormValue("reason"))
	if reason == "" {
		return a.askCancel(v, http.StatusBadRequest, "", "Say in a few words why; the next person will read it.")
	}
	ref, err := v.ref("")
	if err != nil {
		return err
	}
	target := v.c.FormValue("target")
	n, err := a.cfg.Account.Cancel(v.c.Request().Context(), ref, target, dedupe.By{Actor: v.who.Name, Reason: reason})
	if err != nil {
		return err
	}
	a.cfg.Log.Info("deliveries cancelled", "event", ref, "target", target, "deliveries", n, "actor", v.who.Name, "reason", reason,
		"remote_ip", peerOf(v.c.Request()))
	return seeOther(v.c, "/events/"+ref.String())
}
