package admin

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// tokens are the colours of the stylesheet, by scheme: dark has those of light that
// it doesn't change.
func tokens(t *testing.T, css string) map[string]map[string]string {
	t.Helper()
	one := regexp.MustCompile(`--([a-z0-9-]+): *(#[0-9a-fA-F]{6});`)
	light, rest, ok := strings.Cut(css, "@media (prefers-color-scheme: dark)")
	dark, _, ok2 := strings.Cut(rest, "@media")
	if !ok || !ok2 {
		t.Fatal("the stylesheet has no dark colours")
	}
	out := map[string]map[string]string{"light": {}, "dark": {}}
	for _, m := range one.FindAllStringSubmatch(light, -1) {
		out["light"][m[1]], out["dark"][m[1]] = m[2], m[2]
	}
	for _, m := range one.FindAllStringSubmatch(dark, -1) {
		out["dark"][m[1]] = m[2]
	}
	return out
}

// contrast is the ratio of two colours by WCAG 2.
func contrast(a, b string) float64 {
	lum := func(c string) float64 {
		n, _ := strconv.ParseUint(c[1:], 16, 32) // the pattern is of such
		sum := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			v := float64(n>>(16-8*i)&0xff) / 255
			if v <= 0.04045 {
				v /= 12.92
			} else {
				v = math.Pow((v+0.055)/1.055, 2.4)
			}
			sum += weight * v
		}
		return sum
	}
	x, y := lum(a), lum(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// lowContrast lists the pairs of colours that stand on each other and are below
// AA: 4.5 for text, 3 for edges of controls and the shapes of charts and states.
func lowContrast(tokens map[string]map[string]string) (out []string) {
	const text, shape = 4.5, 3
	pairs := map[string]float64{"accent on accent-bg": text, "ink on accent-bg": text, "bad on bad-bg": text, "ink on bad-bg": text, "warn on warn-bg": text, "ink on warn-bg": text,
		"line-strong on bg": shape, "ok on bg": shape, "plot on bg": shape}
	for _, ink := range []string{"ink", "ink-2", "ink-3", "accent", "bad", "warn"} {
		for _, bg := range []string{"bg", "bg-side", "bg-hover"} {
			pairs[ink+" on "+bg] = text
		}
	}
	for scheme, colours := range tokens {
		for pair, least := range pairs {
			a, b, _ := strings.Cut(pair, " on ")
			if colours[a] == "" || colours[b] == "" {
				out = append(out, scheme+": no colour of "+pair)
			} else if r := contrast(colours[a], colours[b]); r < least {
				out = append(out, fmt.Sprintf("%s: %s is %.2f, want %.1f", scheme, pair, r, least))
			}
		}
	}
	return out
}

func TestContrast(t *testing.T) {
	t.Parallel()
	b, err := web.ReadFile("web/static/style.css")
	if err != nil {
		t.Fatal(err)
	}
	all := tokens(t, string(b))
	for _, fault := range lowContrast(all) {
		t.Error(fault)
	}
	if r := contrast("#000000", "#ffffff"); math.Abs(r-21) > 0.01 {
		t.Errorf("black on white is %v, want 21", r)
	}
	all["light"]["ink-3"] = "#9aa2ad" // the control
	if len(lowContrast(all)) == 0 {
		t.Error("grey on white passes")
	}
}

// motion lists what moves in a stylesheet, and focus that is taken from view.
func motion(css string) []string {
	return regexp.MustCompile(`(?i)[^{};]*\b(?:animation|transition|scroll-behavior|outline)(?:-[a-z]+)?\s*:\s*[^;}]*`).FindAllString(css, -1)
}

// Nothing on the pages moves, so that nothing has to be stopped for those who ask
// for less of it; and the focus always shows.
func TestNothingMoves(t *testing.T) {
	t.Parallel()
	b, err := web.ReadFile("web/static/style.css")
	if err != nil {
		t.Fatal(err)
	}
	faulty := func(css string) (out []string) {
		for _, m := range motion(css) {
			if name, value, _ := strings.Cut(strings.TrimSpace(m), ":"); !strings.HasPrefix(name, "outline") || strings.TrimSpace(value) == "none" || strings.TrimSpace(value) == "0" {
				out = append(out, m)
			}
		}
		return out
	}
	for _, m := range faulty(string(b)) {
		t.Errorf("style.css: %s", m)
	}
	for _, control := range []string{"a { transition: color 1s }", "a:focus { outline: none; }", "@keyframes x {} b { animation: x 1s }"} {
		if len(faulty(control)) == 0 {
			t.Errorf("%s passes", control)
		}
	}
}

// Pages leave the order of focus to the document, and every field of a form has a
// name: a label around it, one for it, or one of its own.
func TestFieldsAreNamed(t *testing.T) {
	t.Parallel()
	files, err := web.ReadDir("web/pages")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range files {
		b, err := web.ReadFile("web/pages/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		n, faults := unnamed(string(b))
		seen += n
		for _, fault := range faults {
			t.Errorf("%s: %s", f.Name(), fault)
		}
	}
	if seen < 20 {
		t.Errorf("%d fields were looked at", seen)
	}
	for _, control := range []string{`<input name="a">`, `<label for="b">B</label><select name="a"><option>1</option></select>`, `<a href="/" tabindex="3">x</a>`} {
		if _, faults := unnamed(control); len(faults) == 0 {
			t.Errorf("%s passes", control)
		}
	}
}

var (
	fieldTag  = regexp.MustCompile(`<(?:input|select|textarea)\b[^>]*>`)
	labelled  = regexp.MustCompile(`(?s)<label\b[^>]*>.*?</label>`)
	actions   = regexp.MustCompile(`{{[^}]*}}`)
	tabbed    = regexp.MustCompile(`tabindex="?[1-9]`)
	attribute = func(tag, name string) string {
		m := regexp.MustCompile(`\b` + name + `="([^"]*)"`).FindStringSubmatch(tag)
		if m == nil {
			return ""
		}
		return m[1]
	}
)

func unnamed(page string) (n int, faults []string) {
	page = actions.ReplaceAllString(page, "x")
	inside := map[string]bool{}
	for _, l := range labelled.FindAllString(page, -1) {
		for _, tag := range fieldTag.FindAllString(l, -1) {
			inside[tag] = true
		}
	}
	for _, tag := range fieldTag.FindAllString(page, -1) {
		if attribute(tag, "type") == "hidden" || strings.HasSuffix(tag, " hidden>") {
			continue
		}
		n++
		id := attribute(tag, "id")
		if !inside[tag] && attribute(tag, "aria-label") == "" && (id == "" || !strings.Contains(page, `for="`+id+`"`)) {
			faults = append(faults, "no label: "+tag)
		}
	}
	return n, append(faults, tabbed.FindAllString(page, -1)...)
}
