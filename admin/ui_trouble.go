package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
)

// trouble is one thing that needs a person: what is so since when, what is
// lost by when, and where to act.
type trouble struct {
	Word  string // its state, as everywhere
	Level string // bad or warn
	Title string
	Text  string
	Short string // for the line on other pages
	Due   string // what happens if nobody acts
	DueAt time.Time
	Since time.Time
	Href  string
	Act   string
}

// refusingShare is from which share of refused requests on a source counts as
// refusing, once there are refusingLeast of them in ten minutes.
const (
	refusingShare = 0.5
	refusingLeast = 3
	failingLeast  = 3 // failures in a row
)

// longestPause is how long a pause stops the clock of giving up.
const longestPause = 14 * 24 * time.Hour

// troubles is everything that needs a person, the worst and most urgent first.
func (v *view) troubles() []trouble {
	var out []trouble
	out = append(out, v.gatewayTroubles()...)
	out = append(out, v.fleetTroubles()...)
	for i := range v.snap.sources {
		out = append(out, v.sourceTroubles(&v.snap.sources[i])...)
	}
	for i := range v.snap.targets {
		out = append(out, v.targetTroubles(&v.snap.targets[i])...)
	}
	slices.SortStableFunc(out, func(x, y trouble) int {
		return cmp.Or(cmp.Compare(x.Level, y.Level), dueOrder(x.DueAt).Compare(dueOrder(y.DueAt)))
	})
	return out
}

// dueOrder sorts what has no deadline last.
func dueOrder(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(1<<40, 0)
	}
	return t
}

func (v *view) gatewayTroubles() []trouble {
	var out []trouble
	st := &v.snap.stats
	if st.ReadOnly {
		out = append(out, trouble{Word: "read-only", Level: "bad", Title: "Nothing is accepted: the disk is almost full",
			Text:  fmt.Sprintf("%s are left and %s are held in reserve; providers get 503 and send again. Reading and delivering go on.", bytesOf(st.FreeBytes), bytesOf(st.Reserve)),
			Short: "nothing is accepted", Due: "until there is room", Href: "/config", Act: "See config"})
	}
	if v.snap.problem != nil && !st.ReadOnly {
		out = append(out, trouble{Word: "not ready", Level: "bad", Title: "The gateway is not ready", Text: shown(v.snap.problem.Error()) + ".",
			Short: "gateway", Href: "/config", Act: "See config"})
	}
	if !v.setup.FailedAt.IsZero() {
		faults := 0
		for _, f := range v.setup.Faults {
			if !f.Warning {
				faults++
			}
		}
		out = append(out, trouble{Word: "not loaded", Level: "warn", Title: "The config on disk was not loaded",
			Text:  fmt.Sprintf("It has %s; the one loaded before is still running.", count(max(faults, 1), "fault")),
			Short: "config", Since: v.setup.FailedAt, Due: "until it is corrected", Href: "/config", Act: "See faults"})
	}
	if n := st.Keys.Unknown; n > 0 {
		x := trouble{Word: "unknown", Level: "bad", Title: count(n, "key") + " of unknown outcome",
			Text: "Their requests may have been executed; repeats are held off until somebody says so.", Short: count(n, "key"),
			Since: st.Keys.Oldest, Due: "until settled", Href: "/keys?state=unknown", Act: "Settle"}
		out = append(out, x)
	}
	if st.ClockHold {
		out = append(out, trouble{Word: "clock held", Level: "warn", Title: "The clock ran far ahead", Text: "Expiry waits an hour, so that a wrong clock deletes nothing.",
			Short: "clock", Href: "/", Act: "Refresh"})
	}
	if l := v.a.cfg.Audit; l != nil {
		if t := l.Trouble(); t != nil {
			out = append(out, trouble{Word: "not signed", Level: "warn", Title: "The audit log can't be signed",
				Text:  capital(shown(t.Err.Error())) + ". Events go on as ever and acts are recorded, but what is newer can't be proved. " + auditRemedy,
				Short: "audit log", Since: t.Since, Href: "/audit", Act: "Open audit"})
		}
	}
	for _, c := range st.Concerns {
		out = append(out, concern(c))
	}
	return out
}

// auditRemedy is what to do about an audit log that is not whole.
const auditRemedy = "“onceward audit verify” names the record that is wrong; a backup from before has it."

// concern is what the ledger says that needs a person.
func concern(c dedupe.Concern) trouble {
	t := trouble{Word: "database", Level: "warn", Title: strings.TrimSuffix(c.Text, "."), Text: c.Do, Short: "database", Href: "/", Act: "Refresh"}
	if c.Name == "held" {
		t.Word, t.Short, t.Due, t.Href, t.Act = "held", "deliveries", "until somebody ends the hold", "/events?status=pending", "Look through"
	}
	return t
}

func (v *view) sourceTroubles(s *Source) []trouble {
	href := "/sources?name=" + s.Name
	if s.Offline != "" {
		return []trouble{{Word: "offline", Level: "bad", Title: "Source " + s.Name + " takes nothing", Text: capital(shown(s.Offline)) + "; its requests get 503.",
			Short: "source " + s.Name, Due: "until it has its secret", Href: href, Act: "Open source"}}
	}
	refused, all := v.recent(s.Name)
	if refused < refusingLeast || float64(refused) < refusingShare*float64(all) {
		return nil
	}
	since := v.refusedSince(s)
	t := trouble{Word: "refusing", Level: "bad", Title: "Source " + s.Name + " refuses most of what arrives",
		Text:  fmt.Sprintf("%s of %s in the last 10 min: %s.", grouped(int64(refused)), grouped(int64(all)), v.mainReason(s.Name)),
		Short: "source " + s.Name, Since: since, Href: "/refusals?source=" + s.Name, Act: "Explain"}
	if r := v.setup.source(s.Name); r.Retries > 0 && !since.IsZero() {
		t.Due, t.DueAt = "until then "+cmp.Or(r.Title, "the provider")+" can send the first again", since.Add(r.Retries)
	}
	return []trouble{t}
}

// recent is what a source refused in the last ten minutes, and all that it
// judged.
func (v *view) recent(source string) (refused, all uint64) {
	h := v.a.history
	refused = h.sum("onceward_ingest_refused_total", source, "", 10)
	all = refused
	for _, o := range []string{"accepted", "repeat", "conflict", "handshake"} {
		all += h.sum("onceward_ingest_requests_total", source, o, 10)
	}
	return refused, all
}

// refusedSince is the first refusal after the last accepted event that is
// still remembered.
func (v *view) refusedSince(s *Source) time.Time {
	var first time.Time
	for _, r := range v.a.cfg.Receiver.Refusals(RefusalQuery{Source: s.Name, Since: s.LastAccepted, Limit: 1000}) {
		first = r.At
	}
	return first
}

// mainReason is why a source refuses most.
func (v *view) mainReason(source string) string {
	best, most := "", uint64(0)
	for reason := range v.a.history.totals("onceward_ingest_refused_total", source) {
		if n := v.a.history.sum("onceward_ingest_refused_total", source, reason, 10); n > most || n == most && reason < best {
			best, most = reason, n
		}
	}
	return words(best)
}

func (v *view) targetTroubles(t *Target) []trouble {
	var out []trouble
	href := "/targets?name=" + t.Name
	open := t.Pending + t.Leased
	oldest := v.snap.stats.Targets[t.Name].Oldest
	deadline := func(x *trouble) {
		if give := v.setup.target(t.Name).GiveUp; give > 0 && !oldest.IsZero() {
			x.Due, x.DueAt = "first delivery goes dead", oldest.Add(give)
		}
	}
	switch {
	case t.Missing && open > 0:
		x := trouble{Word: "missing", Level: "bad", Title: "Target " + t.Name + " is configured no more",
			Text: count(open, "delivery") + " name it and wait for it.", Short: "target " + t.Name, Href: href, Act: "Open target"}
		out = append(out, x)
	case t.Paused && open > 0:
		x := trouble{Word: "paused", Level: "warn", Title: fmt.Sprintf("Target %s is paused, and %s", t.Name, waits(open)), Short: "target " + t.Name,
			Text: "Nothing is sent to it until it is resumed.", Since: t.PausedAt, Href: href, Act: "Open target"}
		if t.PauseReason != "" {
			x.Text = "“" + shown(t.PauseReason) + "”, says " + shown(cmp.Or(t.PausedBy, "somebody")) + ". " + x.Text
		} else if t.PausedBy != "" {
			x.Text = "By “" + shown(t.PausedBy) + "”. " + x.Text
		}
		if !t.PausedAt.IsZero() {
			x.Due, x.DueAt = "the time to give up runs again", t.PausedAt.Add(longestPause)
		}
		out = append(out, x)
	case v.failing(t):
		x := trouble{Word: "failing", Level: "bad", Title: "Target " + t.Name + " fails: " + v.mainOutcome(t.Name),
			Text: fmt.Sprintf("%s in a row; %s.", count(t.Failures, "failure"), waits(open)), Short: "target " + t.Name,
			Since: t.LastSuccess, Href: href, Act: "Open target"}
		if t.LastSuccess.IsZero() {
			x.Text = fmt.Sprintf("It has answered nothing well since the gateway started; %s.", waits(open))
		}
		if broken(t) && !t.Breaker.ProbeAt.IsZero() {
			x.Text += " The breaker is " + breakerWords(t.Breaker.State) + "; the next probe is at " + t.Breaker.ProbeAt.UTC().Format("15:04:05") + "."
		}
		deadline(&x)
		out = append(out, x)
	}
	if t.Dead > 0 {
		x := trouble{Word: "dead", Level: "bad", Title: fmt.Sprintf("%s to %s", count(t.Dead, "dead delivery"), t.Name),
			Text: "They are tried no more. Replay them once the target is right, or drop them.", Short: count(t.Dead, "delivery") + " to " + t.Name,
			Due: "can be replayed while bodies are kept", Href: "/dead?target=" + t.Name, Act: "Review"}
		out = append(out, x)
	}
	return out
}

func waits(n int64) string {
	if n == 1 {
		return "1 delivery waits"
	}
	return count(n, "delivery") + " wait"
}

// failing reports whether a target's last attempts failed and something waits.
func (v *view) failing(t *Target) bool {
	return !t.Paused && (t.Failures >= failingLeast && t.Pending+t.Leased > 0 || broken(t))
}

// broken reports whether a target's breaker holds attempts back.
func broken(t *Target) bool { return t.Breaker.State != "" && t.Breaker.State != "closed" }

// mainOutcome is how most attempts of a target failed lately.
func (v *view) mainOutcome(target string) string {
	best, most := "attempts fail", uint64(0)
	for o := range v.a.history.totals("onceward_delivery_attempts_total", target) {
		if n := v.a.history.sum("onceward_delivery_attempts_total", target, o, 60); o != "2xx" && n > most {
			best, most = outcomeWord(o), n
		}
	}
	if strings.HasSuffix(best, "xx") {
		best = "answers " + best
	}
	return best
}

func (v *view) counts() navCounts {
	n := navCounts{Unknown: v.snap.stats.Keys.Unknown}
	for i := range v.snap.sources {
		if refused, all := v.recent(v.snap.sources[i].Name); refused >= refusingLeast && float64(refused) >= refusingShare*float64(all) {
			n.Refused += refused
		}
	}
	for i := range v.snap.targets {
		n.Dead += v.snap.targets[i].Dead
		if v.failing(&v.snap.targets[i]) {
			n.Failing++
		}
	}
	return n
}

// capital is a sentence with a capital at its head.
func capital(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}
