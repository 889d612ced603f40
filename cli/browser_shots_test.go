//go:build browser

package cli

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/onceward/onceward/admin"
)

// findFaults looks for what a sighted reader would complain of: a page wider
// than the window, text below AA contrast, targets too small, controls
// without a name. It returns one line for each.
const findFaults = `(() => {
  const out = [];
  const doc = document.documentElement;
  if (doc.scrollWidth > window.innerWidth) {
    const wide = [...document.querySelectorAll("main *")].filter(e => !e.closest(".wrap, .code, svg, .vh") && e.getBoundingClientRect().right > window.innerWidth + 1).slice(0, 3);
    out.push("wider than the window: " + doc.scrollWidth + " " + wide.map(e => e.outerHTML.slice(0, 120)).join(" | "));
  }
  const rgb = s => { const m = s.match(/[\d.]+/g).map(Number); return s.startsWith("color(") ? [m[0]*255, m[1]*255, m[2]*255, m.length > 3 ? m[3] : 1] : [m[0], m[1], m[2], m.length > 3 ? m[3] : 1]; };
  const lum = c => { const f = c.slice(0, 3).map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
  const ratio = (a, b) => { const [x, y] = [lum(a), lum(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const back = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] > 0.99) return c; } return [255, 255, 255]; };
  const low = new Map();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    const e = n.parentElement;
    if (!n.data.trim() || !e.checkVisibility() || e.closest("script, style, noscript, title")) continue;
    const svg = e.closest("svg");
    const r = ratio(rgb(svg ? getComputedStyle(e).fill : getComputedStyle(e).color), back(svg ? svg.parentElement : e));
    if (r < 4.5) low.set((e.className.baseVal ?? e.className) + "|" + e.tagName, r.toFixed(2) + " " + n.data.trim().slice(0, 30));
  }
  for (const [k, v] of low) out.push("contrast of " + k + ": " + v);
  for (const e of document.querySelectorAll("input:not([type=hidden]), select, button, textarea")) {
    if (!e.checkVisibility()) continue;
    if (!(e.labels && e.labels.length) && !e.textContent.trim() && !e.getAttribute("aria-label")) out.push("no label: " + e.outerHTML.slice(0, 100));
    const b = e.closest("label") && e.type === "checkbox" ? e.closest("label").getBoundingClientRect() : e.getBoundingClientRect();
    if (b.height < 24) out.push("low target: " + b.height + " " + e.outerHTML.slice(0, 100));
  }
  if (document.querySelectorAll("h1").length !== 1) out.push(document.querySelectorAll("h1").length + " h1");
  const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
  for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) out.push("id twice: " + id);
  for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby]"))
    for (const id of ((e.getAttribute("aria-labelledby") || "") + " " + (e.getAttribute("aria-describedby") || "")).trim().split(/\s+/))
      if (!document.getElementById(id)) out.push("label that is not there: " + id);
  return out;
})()`

// look opens a page in every width and colour scheme, fails on what
// findFaults finds, and keeps a picture of each in $ONCEWARD_SHOTS.
func (s *site) look(ctx context.Context, name, path string) {
	s.t.Helper()
	dir := os.Getenv("ONCEWARD_SHOTS")
	for _, width := range []int64{1280, 400} {
		for _, scheme := range []string{"light", "dark"} {
			call(s, ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 800, DeviceScaleFactor: 1})
			call(s, ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			if path != "" {
				s.open(ctx, path)
			}
			for _, f := range get(s, ctx, chromedp.Evaluate[[]string](findFaults)) {
				s.t.Errorf("%s at %d, %s: %s", name, width, scheme, f)
			}
			if dir == "" {
				continue
			}
			png := get(s, ctx, chromedp.FullScreenshot(100))
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)), png, 0o644); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// sendSome makes a gateway with a bit of everything, and returns the ref of a
// delivered, a dead and an open event.
func (s *site) sendSome() {
	for i := range 30 {
		typ := []string{"invoice.paid", "customer.subscription.trial_will_end", "charge.refunded"}[i%3]
		s.stripeEvent(fmt.Sprintf("evt_1SYkQ2Lw8vB3nZpR4tUc%04d", i), typ, fmt.Sprintf("cus_Rt9Wm2KxQv%03d", i%4))
	}
	s.stripeEvent("evt_1SYkQ2Lw8vB3nZpR4tUc0003", "invoice.paid", "cus_Rt9Wm2KxQv003")  // a repeat
	s.stripeEvent("evt_1SYkQ2Lw8vB3nZpR4tUc0003", "invoice.paid", "cus_other_customer") // a conflict
	for i := range 5 {
		s.send("github", fmt.Sprintf("efcabe05-7d60-11f1-c124-a0a7a2e6cf%02x", i), "push", fmt.Sprintf(`{"ref":"refs/heads/main","n":%d}`, i))
	}
	s.send("kept-for-later", "", "", `{"hello":"world"}`)
	s.settle("crm")
	s.settle("billing")
	s.answer("crm", 422, `{"error":"unknown customer"}`)
	for i := range 7 {
		s.stripeEvent(fmt.Sprintf("evt_1SYdead000000000000000%02d", i), "customer.updated", "cus_dead")
	}
	s.settle("crm")
	s.answer("billing", 503, "<html><body><h1>503 Service Unavailable</h1></body></html>")
	s.stripeEvent("evt_1SYpending000000000000001", "invoice.payment_failed", "cus_open")
	for range 5 {
		s.send("github", "efcabe05-bad", "push", `{"ref":"x"}`, func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("ab", 32)) })
	}
	s.send("stripe", "evt_old", "invoice.paid", `{"id":"evt_old"}`, func(r *http.Request) { r.Header.Del("Stripe-Signature") })
	resp, err := http.Get(s.ingest + "/in/wp-login.php")
	if err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
}

// refOf is the ref of the event with a provider's ID.
func (s *site) refOf(ctx context.Context, id string) string {
	s.t.Helper()
	s.open(ctx, "/events?q="+id)
	at := s.where(ctx)
	ref, ok := strings.CutPrefix(at, "/events/")
	if !ok {
		s.t.Fatalf("looking for %s led to %s: %s", id, at, s.text(ctx, "main"))
	}
	return ref
}

// TestBrowserLook looks at every page, with nothing and with a bit of
// everything in it.
func TestBrowserLook(t *testing.T) {
	s := openSite(t)
	ctx := s.browser()
	s.look(ctx, "login", "/login")
	s.login(ctx, "admin")
	pages := map[string]string{"overview": "/", "events": "/events", "refusals": "/refusals", "sources": "/sources", "targets": "/targets", "dead": "/dead",
		"config": "/config", "keys": "/keys", "replays": "/replays", "audit": "/audit", "audit-all": "/audit?kind=all", "replay": "/replay", "error": "/events/nothing"}
	for name, path := range pages {
		s.look(ctx, "empty-"+name, path)
	}
	s.sendSome()
	for name, path := range pages {
		s.look(ctx, "some-"+name, path)
	}
	once := s.refOf(ctx, "evt_1SYkQ2Lw8vB3nZpR4tUc0003")
	dead := s.refOf(ctx, "evt_1SYdead00000000000000003")
	open := s.refOf(ctx, "evt_1SYpending000000000000001")
	for name, path := range map[string]string{
		"event": "/events/" + once, "event-raw": "/events/" + once + "?view=raw", "event-hex": "/events/" + once + "?view=hex",
		"event-headers": "/events/" + once + "?view=headers", "event-dead": "/events/" + dead, "event-open": "/events/" + open,
		"replay-one": "/replay?id=" + dead, "replay-dead": "/replay?state=dead&target=crm", "cancel": "/events/" + open + "/cancel?target=billing",
		"events-none": "/events?type=no.such&since=1h", "events-bad": "/events?since=yesterday", "events-filter": "/events?status=dead",
		"target-billing": "/targets?name=billing", "source-shopify": "/sources?name=shopify",
		"proof": "/events/" + once + "/proof", "control": "/targets/act?name=billing&do=drain", "drop": "/dead/drop?target=crm", "source-test": "/sources/test?name=stripe", "source-stripe": "/sources?name=stripe",
		"audit-of-event": "/audit?kind=repeated%2Cconflicting&ref=" + once,
	} {
		s.look(ctx, name, path)
	}
	s.open(ctx, "/audit")
	s.press(ctx, `form[action="/audit/verify"] button`)
	s.becomes(ctx, "#verify", "as recorded")
	s.look(ctx, "audit-verified", "/audit")
	c, err := admin.NewClient(admin.ClientConfig{Addr: s.base, Token: s.tokens["operator"]})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.StartReplay(t.Context(), admin.ReplayRequest{Filter: admin.Filter{State: "dead", Target: "crm"}, Rate: "20/h", Reason: "crm knows the customers now"}); err != nil {
		t.Fatal(err)
	}
	s.look(ctx, "replays-running", "/replays")
	s.quiet()
}

// TestBrowserLarge looks at the pages of the ledger that ONCEWARD_LEDGER names, as
// the page benchmark of package admin leaves one there.
func TestBrowserLarge(t *testing.T) {
	if os.Getenv("ONCEWARD_LEDGER") == "" {
		t.Skip("ONCEWARD_LEDGER names no ledger to look at")
	}
	s := openSite(t)
	ctx := s.browser()
	s.login(ctx, "admin")
	one := s.refOf(ctx, "evt_1SYkQ2Lw8vB3nZpR00050000")
	for name, path := range map[string]string{
		"overview": "/", "events": "/events", "refusals": "/refusals", "sources": "/sources", "targets": "/targets", "dead": "/dead", "config": "/config",
		"keys": "/keys", "replays": "/replays", "audit": "/audit", "audit-all": "/audit?kind=all", "replay": "/replay", "replay-dead": "/replay?state=dead&target=billing",
		"event": "/events/" + one, "events-where": "/events?where=customer%3Dcus_4711", "events-none": "/events?type=no.such", "target": "/targets?name=billing",
		"proof": "/events/" + one + "/proof",
	} {
		s.look(ctx, "large-"+name, path)
	}
	s.quiet()
}
