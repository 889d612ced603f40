package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/admin"
)

// scrape is a page of metrics: the value of each of the gateway's own series.
type scrape map[string]string

var seriesLine = regexp.MustCompile(`(?m)^(onceward_[a-z_]+(?:\{[^\n]*\})?) (\S+)$`)

func (r *running) scrape(t *testing.T) scrape {
	t.Helper()
	_, addr := r.Addr()
	resp, err := r.client.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("metrics: %d %v", resp.StatusCode, err)
	}
	out := scrape{}
	for _, m := range seriesLine.FindAllStringSubmatch(string(page), -1) {
		out[m[1]] = m[2]
	}
	return out
}

// number is the value of a series, -1 where it isn't there.
func (s scrape) number(series string) float64 {
	f, err := strconv.ParseFloat(s[series], 64)
	if err != nil {
		return -1
	}
	return f
}

// rule is one of the shipped rules.
type rule struct {
	expr, severity, summary string
	hold                    int // minutes
}

func shippedRules(t *testing.T) map[string]rule {
	t.Helper()
	text, err := os.ReadFile("../docs/alerts/onceward.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]rule{}
	for _, m := range regexp.MustCompile(`- alert: (\w+)\s+expr: '(.+)'\s+for: (\w+)\s+labels: \{ severity: (\w+) \}\s+annotations:\s+summary: '(.+)'`).FindAllStringSubmatch(string(text), -1) {
		hold, err := time.ParseDuration(m[3])
		if err != nil {
			t.Fatal(err)
		}
		out[m[1]] = rule{m[2], m[4], strings.ReplaceAll(m[5], "''", "'"), int(hold.Minutes())}
	}
	if want := strings.Count(string(text), "- alert:"); len(out) != want || want == 0 {
		t.Fatalf("%d of %d rules are understood", len(out), want)
	}
	return out
}

// fault is a rule, a gateway's metrics before it got into the state the rule is
// for, those in it, a minute apart, and the labels by which the alert names it.
type fault struct {
	alert  string
	before scrape
	after  []scrape
	labels map[string]string
}

// healthyMinutes is how long a fault's case is without it.
const healthyMinutes = 10

// promCase is one case of promtool's: the series as scraped, first those before
// the fault, and the alert expected, which is none in the control.
func (f fault) promCase(r rule, control bool) map[string]any {
	eval := healthyMinutes + max(len(f.after)-1, r.hold+1)
	names := regexp.MustCompile(`onceward_[a-z_]+`).FindAllString(r.expr, -1)
	all := map[string]bool{}
	for _, s := range append([]scrape{f.before}, f.after...) {
		for series := range s {
			if name, _, _ := strings.Cut(series, "{"); slices.Contains(names, name) {
				all[series] = true
			}
		}
	}
	var input []map[string]string
	for series := range all {
		var values []string
		for minute := range eval + 1 {
			at := f.before
			if n := minute - healthyMinutes; n >= 0 && !control {
				at = f.after[min(n, len(f.after)-1)]
			}
			v, ok := at[series]
			if !ok {
				v = "_"
			}
			values = append(values, v)
		}
		input = append(input, map[string]string{"series": series, "values": strings.Join(values, " ")})
	}
	want := []any{}
	if !control {
		labels, summary := map[string]string{"severity": r.severity}, r.summary
		for name, v := range f.labels {
			labels[name] = v
			summary = strings.ReplaceAll(summary, "{{ $labels."+name+" }}", v)
		}
		want = append(want, map[string]any{"exp_labels": labels, "exp_annotations": map[string]string{"summary": summary}})
	}
	return map[string]any{
		"name": fmt.Sprintf("%s, control %v", f.alert, control), "interval": "1m", "input_series": input,
		"alert_rule_test": []any{map[string]any{"eval_time": fmt.Sprintf("%dm", eval), "alertname": f.alert, "exp_alerts": want}},
	}
}

// promtool has rules judge cases and returns what it says.
func promtool(t *testing.T, cases []any) (string, error) {
	t.Helper()
	rules, err := filepath.Abs("../docs/alerts/onceward.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(map[string]any{"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": cases}, "", " ") // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "scraped.test.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", file).CombinedOutput()
	return string(out), err
}

// Rules that no state of a gateway brought about here can make fire: one is about
// a gateway that has no metrics, one about a fault in its code. That of gateways
// that differ needs several on one database: docs/alerts has its cases.
var unfired = []string{"OncewardDown", "OncewardPanics", "OncewardFleetDiffers"}

// TestAlertsFire brings a real gateway into the state of each shipped rule and
// has Prometheus evaluate the rules over what its metrics then were. Before it, the
// rule is silent.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("no promtool here; the tests of every change have it")
	}
	rules := shippedRules(t)
	faults := append(liveFaults(t), storeFaults(t)...)
	var fire, silent []any
	met := slices.Clone(unfired)
	for _, f := range faults {
		r, ok := rules[f.alert]
		if !ok {
			t.Fatalf("there is no rule %s", f.alert)
		}
		met = append(met, f.alert)
		fire, silent = append(fire, f.promCase(r, false)), append(silent, f.promCase(r, true))
	}
	for name := range rules {
		if !slices.Contains(met, name) {
			t.Errorf("no gateway was brought into the state of %s", name)
		}
	}
	if out, err := promtool(t, fire); err != nil {
		t.Errorf("in the faulty state: %v\n%s", err, out)
	}
	if out, err := promtool(t, silent); err != nil {
		t.Errorf("before the fault: %v\n%s", err, out)
	}
	// What is expected of the fault is not there without it: promtool can say no.
	c := fire[0].(map[string]any)
	c["input_series"] = []any{}
	if _, err := promtool(t, []any{c}); err == nil {
		t.Errorf("%v: passes without any series", c["name"])
	}
}

// liveFaults are those of one gateway that goes on working.
func liveFaults(t *testing.T) []fault {
	t.Helper()
	var status atomic.Int64
	status.Store(http.StatusOK)
	app, _ := listener(t, func(hit) int { return int(status.Load()) })
	var ahead atomic.Int64
	path := filepath.Join(t.TempDir(), "c.toml")
	text := base(filepath.Join(filepath.Dir(path), "data")) + source("signed", "github", "${env:PLAIN}") +
		"[[source]]\nname = \"shop\"\nprovider = \"none\"\ntargets = [\"app\"]\n[[source]]\nname = \"deaf\"\nprovider = \"github\"\nsecrets = [\"${env:NOT_THERE}\"]\ntargets = []\n" +
		strings.Replace(target(app), "20ms", "1h", 1) + "[target.breaker]\nprobe = \"1h\"\nprobe_max = \"1h\"\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, faults := Load(path, testEnv)
	if faults.Failed() {
		t.Fatal(faults)
	}
	r := runConfig(t, cfg, Options{ConfigPath: path, Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	ingest, _ := r.Addr()
	post := func(source, body string) int {
		t.Helper()
		resp, err := r.client.Post("http://"+ingest+"/in/"+source, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	onApp := map[string]string{"target": "app"}
	var out []fault
	state := func(alert string, labels map[string]string, before scrape, after ...scrape) {
		out = append(out, fault{alert, before, after, labels})
	}
	until := func(series string, least float64) (s scrape) {
		t.Helper()
		eventually(t, func() bool { s = r.scrape(t); return s.number(series) >= least })
		return s
	}

	first := r.scrape(t)
	for range 10 {
		post("signed", "{}")
	}
	state("OncewardRefusing", map[string]string{"source": "signed"}, first, r.scrape(t))

	was := r.scrape(t)
	var unheard []scrape
	for range 8 {
		if got := post("deaf", "{}"); got != http.StatusServiceUnavailable {
			t.Fatalf("a source without its secret answers %d", got)
		}
		unheard = append(unheard, r.scrape(t))
	}
	state("OncewardOverloaded", map[string]string{"source": "deaf"}, was, unheard...)

	was = r.scrape(t)
	status.Store(http.StatusBadRequest)
	post("shop", `{"n":0}`)
	state("OncewardDeadLetters", onApp, was, until(`onceward_deliveries_total{result="dead",target="app"}`, 1))

	was = r.scrape(t)
	status.Store(http.StatusServiceUnavailable)
	for i := range 30 {
		post("shop", fmt.Sprintf(`{"n":%d}`, i+1))
	}
	state("OncewardBreakerOpen", onApp, was, until(`onceward_target_breaker_open{target="app"}`, 1))

	was = r.scrape(t)
	c := r.apiClient(t)
	if _, err := c.Pause(t.Context(), "app", "trying the alert"); err != nil {
		t.Fatal(err)
	}
	state("OncewardTargetPaused", onApp, was, until(`onceward_target_paused{target="app"}`, 1))

	was = r.scrape(t)
	ahead.Store(int64(20 * time.Minute))
	state("OncewardBacklogOld", onApp, was, r.scrape(t))

	was = r.scrape(t)
	if err := os.WriteFile(path, []byte(text+"[nothing]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reload(t.Context()); err == nil {
		t.Fatal("a faulty config was taken")
	}
	state("OncewardReloadFailed", nil, was, r.scrape(t))
	return out
}

// storeFaults are those of the ledger's disk and clock, each of a gateway that
// is started anew on one data directory.
func storeFaults(t *testing.T) (out []fault) {
	t.Helper()
	dir := t.TempDir()
	const shop = "[[source]]\nname = \"shop\"\nprovider = \"none\"\ntargets = []\n"
	start := func(reserve string, o Options) *running {
		return run(t, strings.Replace(base(dir), `reserve = "1MiB"`, "reserve = "+strconv.Quote(reserve), 1)+shop, o)
	}
	stop := func(r *running) {
		if err := r.stop(t); err != nil {
			t.Fatal(err)
		}
	}
	post := func(r *running, body string) (status int) {
		ingest, _ := r.Addr()
		resp, err := r.client.Post("http://"+ingest+"/in/shop", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	r := start("1MiB", Options{})
	const marker = "kYtFvVbaE6IpLHYNMq4XTTbsLlOd8h" // stands in a table as it is
	if got := post(r, strconv.Quote(marker)); got != http.StatusOK {
		t.Fatalf("first event: %d", got)
	}
	well := r.scrape(t)
	stop(r)

	free := int64(well.number("onceward_store_free_bytes"))
	r = start(fmt.Sprintf("%dKiB", free/4*3>>10), Options{})
	out = append(out, fault{"OncewardDiskLow", well, []scrape{r.scrape(t)}, nil})
	stop(r)

	r = start(fmt.Sprintf("%dKiB", free/3*4>>10), Options{}) // below half of it, acts would wait too
	full := r.scrape(t)
	out = append(out, fault{"OncewardReadOnly", well, []scrape{full}, nil})
	if got := post(r, "{}"); got != http.StatusServiceUnavailable {
		t.Fatalf("an event on a full disk: %d", got)
	}
	out = append(out, fault{"OncewardStoreErrors", full, []scrape{r.scrape(t)}, map[string]string{"kind": "disk_low", "op": "accept"}})
	stop(r)

	r = start("1MiB", Options{Now: func() time.Time { return time.Now().Add(2 * time.Hour) }})
	stop(r)
	r = start("1MiB", Options{}) // the same process in Prometheus's eyes, two hours earlier
	well = r.scrape(t)
	out = append(out, fault{"OncewardClockJumped", full, []scrape{well}, map[string]string{"direction": "back"}})

	damageTable(t, dir, []byte(marker))
	c := r.apiClient(t)
	page, err := c.Events(t.Context(), admin.Filter{}, "", 10)
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%d events: %v", len(page.Items), err)
	}
	if _, err := c.Body(t.Context(), page.Items[0].Ref.String(), "", io.Discard); err == nil {
		t.Fatal("a damaged body is given")
	}
	return append(out, fault{"OncewardStoreDamage", well, []scrape{r.scrape(t)}, nil})
}

// damageTable changes a byte of what stands on disk.
func damageTable(t *testing.T, dir string, what []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "ledger", "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	hits := 0
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(b, what)
		if at < 0 {
			continue
		}
		hits++
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{b[at] ^ 0x20}, int64(at)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if hits == 0 {
		t.Fatalf("the body stands in none of %d tables", len(files))
	}
}
