package gateway

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestAlertsNameMetrics: what the shipped rules and the dashboard ask for is
// there in a running gateway, and each rule has a case in which it fires.
func TestAlertsNameMetrics(t *testing.T) {
	t.Parallel()
	url, _ := listener(t, func(hit) int { return http.StatusBadRequest })
	r := run(t, base(t.TempDir())+"[[source]]\nname = \"shop\"\nprovider = \"none\"\ntargets = [\"app\"]\n"+target(url), Options{})
	ingest, addr := r.Addr()
	resp, err := r.client.Post("http://"+ingest+"/in/shop", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	var page []byte
	eventually(t, func() bool { // a target has numbers once it had a delivery
		resp, err := r.client.Get("http://" + addr + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		page, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		return err == nil && strings.Contains(string(page), `onceward_dead_letters{target="app"} 1`)
	})
	there := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(string(page), -1) {
		there[m[1]], there[m[1]+"_bucket"] = true, true
	}
	named := regexp.MustCompile(`onceward_[a-z_]+`)
	for _, file := range []string{"onceward.rules.yml", "onceward.dashboard.json"} {
		text, err := os.ReadFile("../docs/alerts/" + file)
		if err != nil {
			t.Fatal(err)
		}
		names := named.FindAllString(string(text), -1)
		if len(names) < 10 {
			t.Errorf("%s names %d metrics", file, len(names))
		}
		for _, n := range names {
			if !there[n] {
				t.Errorf("%s asks for %s, which a gateway doesn't have", file, n)
			}
		}
	}
	rules, err := os.ReadFile("../docs/alerts/onceward.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	cases, err := os.ReadFile("../docs/alerts/onceward.rules.test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		if !strings.Contains(string(cases), "name: "+m[1]+" fires") || !strings.Contains(string(cases), "name: "+m[1]+" is silent") {
			t.Errorf("no case has %s fire and be silent", m[1])
		}
	}
}
