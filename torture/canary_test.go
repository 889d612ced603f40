//go:build torture

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// canaries are texts that no output may hold, by what they are.
type canaries map[string]string

// forms are the ways a text may have been written: as it is, encoded, escaped,
// and the larger part of it, as a cut one would be.
func forms(s string) map[string]string {
	quoted, _ := json.Marshal(s)
	return map[string]string{
		"itself":         s,
		"its first half": s[:max(12, len(s)/2)],
		"its last half":  s[len(s)-max(12, len(s)/2):],
		"base64":         strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(s)), "="),
		"base64url":      strings.TrimRight(base64.URLEncoding.EncodeToString([]byte(s)), "="),
		"hexadecimal":    hex.EncodeToString([]byte(s)),
		"query escaping": url.QueryEscape(s),
		"JSON":           string(quoted[1 : len(quoted)-1]),
		"Go bytes":       strings.Trim(fmt.Sprint([]byte(s)), "[]"),
	}
}

// find lists where in outputs a canary is.
func (c canaries) find(outputs map[string][]byte) (found []string) {
	for what, secret := range c {
		for form, text := range forms(secret) {
			for where, out := range outputs {
				if bytes.Contains(out, []byte(text)) {
					found = append(found, fmt.Sprintf("%s (%s) in %s", what, form, where))
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

// canaryRun is a gateway all of whose secrets are canaries.
type canaryRun struct {
	*edge
	secrets canaries
	targets *edgeTarget
	out     map[string][]byte
	whole   map[string][]byte // outputs with events as a target gets them, signatures included

	collector, service *listener
	addrs              map[*listener]string
}

// environ sets a variable of every process of the run.
func (c *canaryRun) environ(name, value string) { c.p.Env = append(c.p.Env, name+"="+value) }

// command is a run of the gateway's binary.
func (c *canaryRun) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.p.Binary, args...)
	cmd.Env = append(os.Environ(), c.p.Env...)
	return cmd
}

func newCanaryRun(t *testing.T, tags string) *canaryRun {
	e := newEdge(t, tags, "", "")
	c := &canaryRun{edge: e, targets: e.target(), out: map[string][]byte{}, whole: map[string][]byte{}, addrs: map[*listener]string{}, secrets: canaries{
		"secret of an HMAC source":             "cnry-hmac-8f1d02b7c6a94e55",
		"secret of the source before rotation": "cnry-olds-51b7730de1f24c06",
		"secret from a file":                   "whsec_" + base64.StdEncoding.EncodeToString([]byte("cnry-file-0a7be1f05d5942ab")),
		"secret from the environment":          "cnry-envv-77c0f31b2aa84d19",
		"token of a bearer source":             "cnry-bear-2d9e5bb0c4f14f7a",
		"password of a basic source":           "cnry-pass-c17a90be3f6d4e82",
		"token in a query":                     "cnry-quer-ab40d2e96c7f4b13",
		"header of a target":                   "cnry-head-6e0d8f2c91b34da5",
		"signing secret of a target":           "whsec_" + base64.StdEncoding.EncodeToString([]byte("cnry-sign-3c5f7a9be8d04b61")),
		"path of a target":                     "cnry-path-d4f60a1b8c9e4723",
		"query of a target":                    "cnry-urlq-95be2c07fa614d38",
		"Authorization of a stranger":          "cnry-auth-1f8a6d3c07be4259",
		"Cookie of a sender":                   "cnry-cook-e2b5904d7c6f4a81",
		"forged signature":                     "cnry-forg-0b3d7f6a5c2e4918",
		"wrong admin token":                    "cnry-wadm-7a1c4e9d0f6b4235",
		"cookie of an answer":                  "cnry-setc-4b7e0d9a2c6f4183",
	}}
	must(t, os.WriteFile(filepath.Join(e.dir, "file.secret"), []byte(c.secrets["secret from a file"]), 0o600))
	c.environ("CANARY_ENV", c.secrets["secret from the environment"])
	s := c.secrets
	e.gh.Secret = s["secret of an HMAC source"]
	parts := fmt.Sprintf(`[[source]]
name = "gh"
provider = "github"
secrets = [%q, %q]
targets = ["t", "dead"]
[[source]]
name = "std"
provider = "standard_webhooks"
secrets = ["${file:file.secret}"]
targets = ["t"]
[[source]]
name = "env"
provider = "stripe"
secrets = ["${env:CANARY_ENV}"]
targets = ["t"]
[[source]]
name = "keyed"
provider = "idempotency-key"
auth = "bearer"
secrets = [{ caller = "shop", value = %q }]
targets = ["t"]
[[source]]
name = "based"
provider = "idempotency-key"
auth = "basic"
secrets = [{ caller = "shop", value = %q }]
targets = ["t"]
[[target]]
name = "t"
url = "http://%s/%s?%s=1"
headers = { Authorization = "Bearer %s" }
signing_secrets = [%q]
timeout = "5s"
[[target]]
name = "dead"
url = "http://127.0.0.1:1/%s"
initial = "50ms"
timeout = "1s"
`, s["secret of an HMAC source"], s["secret of the source before rotation"], s["token of a bearer source"],
		"shop:"+s["password of a basic source"], c.targets.addr, s["path of a target"], s["query of a target"],
		s["header of a target"], s["signing secret of a target"], s["path of a target"])
	general, ways := c.ways()
	text := strings.Replace(e.text("drain = \"2s\"\n"+general, parts+ways), `level = "info"`, `level = "debug"`, 1)
	must(t, os.WriteFile(e.p.Config, []byte(text), 0o600))
	return c
}

// post sends a request and keeps what was answered.
func (c *canaryRun) post(name, path string, header map[string]string, body string) int {
	c.t.Helper()
	req, err := http.NewRequest(http.MethodPost, c.url(path), strings.NewReader(body))
	must(c.t, err)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		c.out["answer to "+name] = []byte(err.Error())
		return 0
	}
	c.keepAnswer("answer to "+name, resp)
	return resp.StatusCode
}

func (c *canaryRun) keepAnswer(name string, resp *http.Response) []byte {
	defer resp.Body.Close()
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n", resp.Status)
	resp.Header.Write(&b)
	head := b.Len()
	io.Copy(&b, io.LimitReader(resp.Body, 4<<20))
	c.out[name] = b.Bytes()
	return b.Bytes()[head:]
}

// traffic is authentic and forged requests of every source.
func (c *canaryRun) traffic() {
	c.t.Helper()
	s := c.secrets
	stray := map[string]string{"Authorization": "Bearer " + s["Authorization of a stranger"], "Cookie": "session=" + s["Cookie of a sender"]}
	for i := range 5 {
		body := fmt.Sprintf(`{"id":"evt_canary_%d","type":"invoice.paid","n":%d}`, i, i)
		send := func(source, provider, secret string) {
			h := http.Header{}
			m := Message{Source: &Source{Name: source, Provider: provider, Secret: secret}, Run: "canary", Number: i}
			must(c.t, m.Sign(h, []byte(body), time.Now().Unix()))
			flat := map[string]string{}
			for k := range h {
				flat[k] = h.Get(k)
				if strings.Contains(strings.ToLower(k), "signature") {
					_, value, _ := cutLast(strings.ReplaceAll(h.Get(k), ",", "="), "=")
					if len(value) > 20 {
						c.secrets[fmt.Sprintf("signature %d of source %s", i, source)] = value
					}
				}
			}
			for k, v := range stray {
				flat[k] = v
			}
			if got := c.post(fmt.Sprint(source, " ", i), "/in/"+source, flat, body); got != http.StatusOK {
				c.t.Errorf("source %s answered %d: %s", source, got, c.out[fmt.Sprint("answer to ", source, " ", i)])
			}
		}
		send("gh", GitHub, s["secret of an HMAC source"])
		send("std", Standard, s["secret from a file"])
		send("env", Stripe, s["secret from the environment"])
		key := map[string]string{"Idempotency-Key": fmt.Sprint("k", i), "Cookie": stray["Cookie"]}
		key["Authorization"] = "Bearer " + s["token of a bearer source"]
		c.post(fmt.Sprint("keyed ", i), "/in/keyed", key, body)
		key["Authorization"] = "Basic " + base64.StdEncoding.EncodeToString([]byte("shop:"+s["password of a basic source"]))
		c.post(fmt.Sprint("based ", i), "/in/based", key, body)
	}
	for source, header := range map[string]string{"gh": "X-Hub-Signature-256", "std": "Webhook-Signature", "env": "Stripe-Signature"} {
		c.post("forged "+source, "/in/"+source+"?token="+s["token in a query"], map[string]string{
			header: "sha256=" + s["forged signature"], "Authorization": stray["Authorization"], "Cookie": stray["Cookie"],
			"Webhook-Id": "x", "Webhook-Timestamp": fmt.Sprint(time.Now().Unix()),
		}, `{"id":"forged"}`)
	}
	c.post("unknown path", "/in/nothing?token="+s["token in a query"], stray, "{}")
	c.post("stranger's token", "/in/keyed", map[string]string{"Authorization": stray["Authorization"], "Idempotency-Key": "a"}, "{}")
	c.post("no length", "/in/gh", map[string]string{"Content-Encoding": "gzip", "Authorization": stray["Authorization"]}, "{}")
	must(c.t, poll(within(c.t, 20*time.Second), 50*time.Millisecond, func() (bool, error) { return c.targets.count() >= 10, nil }))
}

var commandLine = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*)  +\S`)

// commands lists every command that has no commands of its own.
func (c *canaryRun) commands(path ...string) (leaves [][]string) {
	out, _ := c.command(c.t.Context(), append(slices.Clone(path), "--help")...).CombinedOutput()
	c.out[strings.Join(path, " ")+" --help"] = out
	_, after, nested := strings.Cut(string(out), "[command]")
	_, after, _ = strings.Cut(after, ":\n")
	after, _, _ = strings.Cut(":\n"+after, "\nFlags:")
	if !nested {
		return [][]string{path}
	}
	for _, m := range commandLine.FindAllStringSubmatch(after, -1) {
		if m[1] != "help" && m[1] != "onceward" && len(path) < 3 {
			leaves = append(leaves, c.commands(append(slices.Clone(path), m[1])...)...)
		}
	}
	return append(leaves, path)
}

// aside are commands that are run elsewhere, go on for ever, or whose purpose
// is to print a new secret.
var aside = []string{"", "serve", "demo", "admin token new"}

// commandsRun runs every command, with arguments and without.
func (c *canaryRun) commandsRun() int {
	ref := c.account()[0].Ref
	n := 0
	for _, path := range c.commands() {
		name := strings.Join(path, " ")
		if slices.Contains(aside, name) {
			continue
		}
		for _, args := range [][]string{{}, {"-o", "json"}, {ref}, {ref, "-o", "json"}, {"gh"}, {"t"}, {"t", "--yes"}, {"dead", "-o", "json"}, {"--print"}, {"--strict"}, {"--explain"}, {"--all"}} {
			n++
			ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
			cmd := c.command(ctx, append(append(slices.Clone(path), args...), "--config", c.p.Config)...)
			cmd.Dir = c.t.TempDir()
			cmd.Stdin = strings.NewReader("")
			out, _ := cmd.CombinedOutput() // however it ends
			cancel()
			c.out[name+" "+strings.Join(args, " ")] = out
		}
	}
	return n
}

var link = regexp.MustCompile(`(?:href|src|action|hx-get)="(/[^"#]*)"`)

// pages asks for every page and API route that can be found from the first
// ones, with the token, without and with a wrong one.
func (c *canaryRun) pages() int {
	token, err := os.ReadFile(filepath.Join(c.dir, "admin.token"))
	must(c.t, err)
	c.secrets["admin token"] = strings.TrimSpace(string(token))
	ref := c.account()[0].Ref
	todo := []string{"/", "/metrics", "/livez", "/readyz", "/login", "/ui/", "/nothing?token=" + c.secrets["token in a query"]}
	for _, p := range []string{"events", "events/" + ref, "events/" + ref + "/body", "events/" + ref + "/attempts", "events/nothing", "deliveries", "sources",
		"targets", "targets/t", "refusals", "status", "health", "version", "replays", "audit", "keys", "config", "events?limit=nonsense", "deadletters"} {
		todo = append(todo, "/api/v1/"+p)
	}
	seen := map[string]bool{}
	for len(todo) > 0 && len(seen) < 400 {
		path := todo[0]
		todo = todo[1:]
		if seen[path] {
			continue
		}
		seen[path] = true
		for _, m := range link.FindAllSubmatch(c.get(path, "", "Bearer "+c.secrets["admin token"]), -1) {
			todo = append(todo, strings.ReplaceAll(string(m[1]), "&amp;", "&"))
		}
	}
	// Failed logins are few by design, so they come last.
	for _, path := range []string{"/", "/api/v1/events", "/metrics", "/api/v1/events/" + ref + "/body"} {
		c.get(path, " as nobody", "")
		c.get(path, " with a wrong token", "Bearer "+c.secrets["wrong admin token"])
	}
	return len(seen)
}

// get asks the operator's listener for a path and keeps what it answered.
func (c *canaryRun) get(path, who, auth string) []byte {
	req, err := http.NewRequest(http.MethodGet, "http://"+c.p.Admin+path, nil)
	must(c.t, err)
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	resp, err := c.http.Transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil // one that streams
	}
	return c.keepAnswer("GET "+path+who, resp)
}

// faults makes the gateway complain: bad configurations, a panic where the
// build has one, and the dump of all goroutines, with which it ends.
func (c *canaryRun) faults() {
	good, err := os.ReadFile(c.p.Config)
	must(c.t, err)
	for name, text := range map[string]string{
		"bad TOML":         string(good) + "\n[[source\n",
		"unknown key":      strings.Replace(string(good), "signing_secrets", "signing_secret", 1),
		"a key's type":     strings.Replace(string(good), `timeout = "5s"`, "timeout = 5", 1),
		"a bad URL":        strings.Replace(string(good), "http://"+c.targets.addr, "http://%zz@"+c.targets.addr, 1),
		"a missing target": strings.Replace(string(good), `targets = ["t", "dead"]`, `targets = ["tt"]`, 1),
		"a header's name":  strings.Replace(string(good), "Authorization =", `"Host" =`, 1),
	} {
		must(c.t, os.WriteFile(c.p.Config, []byte(text), 0o600))
		must(c.t, c.p.cmd.Process.Signal(syscall.SIGHUP))
		for _, args := range [][]string{{"check"}, {"check", "--print"}, {"check", "-o", "json"}, {"reload"}, {"serve"}} {
			ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
			out, _ := c.command(ctx, append(args, "--config", c.p.Config)...).CombinedOutput()
			cancel()
			c.out[name+": "+strings.Join(args, " ")] = out
		}
	}
	must(c.t, os.WriteFile(c.p.Config, good, 0o600))
	c.post("panic", "/in/gh", map[string]string{
		"Onceward-Panic": "1", "Authorization": "Bearer " + c.secrets["Authorization of a stranger"], "X-Hub-Signature-256": "sha256=" + c.secrets["forged signature"],
	}, "{}")
	must(c.t, c.p.cmd.Process.Signal(syscall.SIGQUIT))
	select {
	case <-c.p.done:
	case <-time.After(2 * time.Minute):
		c.t.Error("a gateway that was asked for its goroutines did not end")
	}
	c.p.cmd = nil
	log, err := os.ReadFile(c.p.Log)
	must(c.t, err)
	if !bytes.Contains(log, []byte("goroutine ")) || !bytes.Contains(log, []byte("SIGQUIT")) {
		c.t.Error("the log holds no dump of goroutines")
	}
	if !bytes.Contains(log, []byte("ingest.panic")) {
		c.t.Error("the log holds no panic")
	}
	c.out["the log"] = log
}

// TestCanary makes every secret of a gateway a text of its own, has it do all
// it can, and looks for them in all it said.
func TestCanary(t *testing.T) {
	t.Parallel()
	res := &Result{Fault: "secrets in outputs", Cycles: 1}
	record(t, res)
	c := newCanaryRun(t, panicking)
	c.boot()
	c.traffic()
	c.waysTraffic()
	c.copies()
	runs := c.commandsRun()
	pages := c.pages()
	c.faults()
	c.heard()
	found := c.secrets.find(c.out)
	secrets := len(c.secrets)
	maps.DeleteFunc(c.secrets, func(what, _ string) bool { return strings.HasPrefix(what, "signature ") })
	found = append(found, c.secrets.find(c.whole)...)
	for _, f := range found[:min(len(found), 40)] {
		t.Error("found: " + f)
	}
	size := 0
	for _, out := range c.out {
		size += len(out)
	}
	if pages < 25 || runs < 200 || size < 200<<10 {
		t.Errorf("%d pages, %d runs of commands, %d bytes: that proves little", pages, runs, size)
	}
	res.Note = fmt.Sprintf("%d secrets in %d forms, looked for in %d outputs of %d KiB: %d found", secrets, len(forms("canary-canary")), len(c.out), size>>10, len(found))
	fmt.Println(res.Note)
}

// TestControlCanary plants each secret in each form into an output: the search
// must find every one.
func TestControlCanary(t *testing.T) {
	t.Parallel()
	secrets := canaries{"a token": "cnry-plnt-9c2e7a4d1f0b4863", "one with signs": "whsec_cnry+/plnt=\"9c2e\"&7a4d"}
	missed, n := 0, 0
	for what, secret := range secrets {
		for form, text := range forms(secret) {
			n++
			found := canaries{what: secret}.find(map[string][]byte{"a log": []byte("time=1 msg=\"x\" value=" + text + " rest")})
			if len(found) == 0 {
				missed++
				t.Errorf("%s planted as %s was not found", what, form)
			}
		}
	}
	noticed(t, "secrets planted in an output", 0, missed == 0, fmt.Sprintf("%d of %d found", n-missed, n))
}

// silent looks for the secrets of the suite's own sources in the logs that a
// run left in dir. Every test that has a directory ends with it.
func silent(t *testing.T, dir string) {
	t.Helper()
	own := canaries{"the secret of the edge tests": edgeSecret}
	for _, s := range Sources() {
		own["the secret of source "+s.Name] = s.Secret
	}
	if token, err := os.ReadFile(filepath.Join(dir, "admin.token")); err == nil {
		own["the admin token"] = strings.TrimSpace(string(token))
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	must(t, err)
	for _, path := range logs {
		text, err := os.ReadFile(path)
		must(t, err)
		for _, f := range own.find(map[string][]byte{path: text}) {
			t.Errorf("found: %s", f)
		}
	}
}
