package admin

import (
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The words and numbers of the pages. Whatever came from outside passes shown
// first: html/template keeps it from being markup, shown keeps it from
// rearranging the text around it.

// shown makes text from outside safe for one line: control characters,
// bidirectional and invisible formatting, line separators and broken UTF-8
// are written as visible escapes.
func shown(s string) string { return escapeText(s, false) }

// shownLines is shown for text of several lines: it keeps line feeds and tabs.
func shownLines(s string) string { return escapeText(s, true) }

func escapeText(s string, lines bool) string {
	clean := true
	for _, r := range s {
		if hidden(r, lines) || r == utf8.RuneError {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !hidden(r, lines):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

// hidden reports whether a rune would not show as itself.
func hidden(r rune, lines bool) bool {
	switch {
	case lines && (r == '\n' || r == '\t'):
		return false
	case r == 0x00ad, r == 0x034f, r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0: // fillers
		return true
	case r >= 0xe0000 && r <= 0xe0fff: // tags
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// number is 91,423; zero is grey.
func number[T int | int64 | uint64 | uint32](n T) template.HTML {
	if n == 0 {
		return `<span class="zero">0</span>`
	}
	return template.HTML(grouped(int64(n)))
}

// grouped writes thousands apart.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	neg := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(s, "-")
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if neg {
		return "-" + s
	}
	return s
}

// count is a number with its noun: 1 event, 2 events.
func count[T int | int64 | uint64 | uint32](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	switch {
	case strings.HasSuffix(noun, "delivery"):
		noun = strings.TrimSuffix(noun, "y") + "ie"
	case strings.HasSuffix(noun, "s"):
		noun += "e"
	}
	return grouped(int64(n)) + " " + noun + "s"
}

// rate is events per minute: 41.2, 0.04, 1,204.
func rate(perMinute float64) string {
	switch {
	case perMinute >= 1000:
		return grouped(int64(perMinute + 0.5))
	case perMinute >= 0.095 || perMinute == 0:
		return strconv.FormatFloat(perMinute, 'f', 1, 64)
	}
	return strconv.FormatFloat(perMinute, 'f', 2, 64)
}

// percent is 99.2 %; a whole that is empty has none.
func percent(part, whole uint64) string {
	if whole == 0 {
		return ""
	}
	p := 100 * float64(part) / float64(whole)
	if part < whole && p > 99.9 {
		p = 99.9 // never rounded up to all
	}
	return strconv.FormatFloat(p, 'f', 1, 64) + " %"
}

// bytesOf is 2,914 bytes, 18.4 GiB.
func bytesOf(n int64) string {
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	if n < 10<<10 {
		return count(n, "byte")
	}
	f := float64(n)
	u := ""
	for _, u = range units {
		f /= 1024
		if f < 1024 {
			break
		}
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " " + u
}

// span is a duration in two units at most: 184 ms, 5.00 s, 21 min 27 s,
// 12 d 4 h.
func span(d time.Duration) string {
	if d < 0 {
		d = -d
	}
	switch {
	case d == 0:
		return "0 s"
	case d < time.Millisecond:
		return strconv.FormatFloat(d.Seconds()*1000, 'f', 2, 64) + " ms"
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(d.Seconds()*1000, 'f', 1, 64) + " ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s"
	case d < time.Minute:
		return strconv.FormatInt(int64(d.Seconds()), 10) + " s"
	case d < time.Hour:
		return two(int64(d/time.Minute), "min", int64(d%time.Minute/time.Second), "s")
	case d < 48*time.Hour:
		return two(int64(d/time.Hour), "h", int64(d%time.Hour/time.Minute), "min")
	}
	return two(int64(d/(24*time.Hour)), "d", int64(d%(24*time.Hour)/time.Hour), "h")
}

// roughly is span in one unit, for where there is room for no more.
func roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		d = d.Round(24 * time.Hour)
	case d >= time.Hour:
		d = d.Round(time.Hour)
	case d >= time.Minute:
		d = d.Round(time.Minute)
	}
	return span(d)
}

func two(a int64, unitA string, b int64, unitB string) string {
	if b == 0 {
		return fmt.Sprintf("%d %s", a, unitA)
	}
	return fmt.Sprintf("%d %s %d %s", a, unitA, b, unitB)
}

// seconds is span of what the API gives as a float.
func seconds(s float64) string { return span(time.Duration(s * float64(time.Second))) }

// none is what stands where there is nothing to say.
const none template.HTML = `<span class="zero">–</span>`

// timeTag is a time as people read it here, with its exact value for machines.
func timeTag(t time.Time, layout string) template.HTML {
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format("2006-01-02T15:04:05.000Z") + `">` + t.Format(layout) + `</time>`)
}

// when is a time as seen from now: 02:14:07 today, Sat 14:20 this week, else
// 29 Nov 2026, 02:14:07.
func when(t, now time.Time) template.HTML {
	if t.IsZero() {
		return none
	}
	t, now = t.UTC(), now.UTC()
	day := func(x time.Time) time.Time { return x.Truncate(24 * time.Hour) }
	switch gap := day(now).Sub(day(t)); {
	case gap == 0:
		return timeTag(t, "15:04:05")
	case gap > 0 && gap < 6*24*time.Hour, gap < 0 && gap > -6*24*time.Hour:
		return timeTag(t, "Mon 15:04")
	}
	return timeTag(t, "2 Jan 2006, 15:04:05")
}

// exact is a time to the millisecond.
func exact(t time.Time) template.HTML {
	if t.IsZero() {
		return none
	}
	return timeTag(t, "2 Jan 2006, 15:04:05.000")
}

// clockOf is the time of day to the millisecond.
func clockOf(t time.Time) template.HTML { return timeTag(t, "15:04:05.000") }

// idTag is an ID in a narrow place: its head gives way, its last characters
// stay, and copying yields all of it.
func idTag(id string) template.HTML {
	id = shown(id)
	const tail = 6
	r := []rune(id)
	if len(r) <= 2*tail {
		return template.HTML(`<span class="m one nw">` + template.HTMLEscapeString(id) + `</span>`)
	}
	cut := len(r) - tail
	return template.HTML(`<span class="id one" title="` + template.HTMLEscapeString(id) + `"><span>` +
		template.HTMLEscapeString(string(r[:cut])) + `</span><span>` + template.HTMLEscapeString(string(r[cut:])) + `</span></span>`)
}

// briefRunes is how much of a text a row of a list shows: a list is read across, and
// has to stay small whatever senders put into their events. The whole text is on the
// page that the row leads to.
const briefRunes = 64

// brief is the begin of a text.
func brief(s string) string { return briefly(s, briefRunes) }

func briefly(s string, runes int) string {
	s = shown(s)
	if n := fit(s, runes); n < len(s) {
		return s[:n] + "…"
	}
	return s
}

// fit is how much of a text has room for that many runes. What markup has to write
// as five counts as five.
func fit(s string, runes int) int {
	for i, r := range s {
		runes--
		if strings.ContainsRune(`&<>"'`, r) {
			runes -= 4
		}
		if runes < 0 {
			return i
		}
	}
	return len(s)
}

// listID is an ID in a row: of a long one begin and end.
func listID(id string) template.HTML {
	const tail = 12
	id = shown(id)
	if n := fit(id, briefRunes); n < len(id) {
		r := []rune(id[n:])
		id = id[:fit(id, briefRunes-tail)] + "…" + string(r[max(0, len(r)-tail):])
	}
	return idTag(id)
}

// listFields are the indexed fields of an event as a row shows them; Href is the name
// of one that is a link to the events that have the same.
func listFields(index map[string]string) (out []link) {
	for i, name := range slices.Sorted(maps.Keys(index)) {
		v := index[name]
		switch {
		case i == 3:
			return append(out, link{Text: "and " + strconv.Itoa(len(index)-i) + " more"})
		case fit(v, briefRunes) < len(v):
			out = append(out, link{Text: brief(v)})
		default:
			out = append(out, link{Text: v, Href: name})
		}
	}
	return out
}

// words turns a name of a closed set into words: signature_mismatch is
// "signature mismatch".
func words(s string) string { return strings.ReplaceAll(s, "_", " ") }

// outcomeWord is an outcome of an attempt as people say it.
func outcomeWord(outcome string) string {
	switch outcome {
	case "connect_error":
		return "no connection"
	case "tls_error":
		return "TLS failed"
	case "dns_error":
		return "name not found"
	case "timeout":
		return "time-out"
	case "blocked":
		return "blocked by the egress guard"
	}
	return words(outcome)
}

// stateClass is the shape and colour of a state's word.
func stateClass(state string) string {
	switch state {
	case "delivered", "working":
		return "ok"
	case "pending":
		return "wait"
	case "leased":
		return "flight"
	case "dead", "failing", "refusing", "offline", "open":
		return "bad"
	case "paused":
		return "paused"
	case "half-open", "conflict", "draining":
		return "warn"
	}
	return "off"
}
