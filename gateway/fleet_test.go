package gateway

import (
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/admin"
)

// What gateways have in common decides the shared hash, and nothing of their
// own.
func TestSharedHash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hash := func(text string) string {
		t.Helper()
		cfg, faults := Parse(filepath.Join(dir, "config.toml"), []byte(text), Env{})
		if err := faults.Err(); err != nil {
			t.Fatal(err)
		}
		return cfg.sharedHash()
	}
	file := func(head, path string) string {
		return head + "\n[[source]]\nname = \"shop\"\nprovider = \"none\"\ntargets = [\"app\"]\n[[target]]\nname = \"app\"\nurl = \"http://127.0.0.1:9/" + path + "\"\n"
	}
	one := hash(file("listen = \":1\"\n[store]\npath = \"a\"\n", "hook"))
	if other := hash(file("listen = \":2\"\ndrain = \"1s\"\n[store]\npath = \"b\"\n[log]\nlevel = \"debug\"\n[admin]\nlisten = \"127.0.0.1:3\"\n", "hook")); other != one {
		t.Error("where a gateway listens and keeps its files changes the hash")
	}
	if hash(file("listen = \":1\"\n[store]\npath = \"a\"\n", "other")) == one {
		t.Error("another path of a target is the same hash")
	}
	if hash(file("listen = \":1\"\n[retention]\nmeta = \"90d\"\n", "hook")) == one {
		t.Error("another retention is the same hash")
	}
}

func TestFleetMetrics(t *testing.T) {
	t.Parallel()
	var all []admin.Gateway
	reg := prometheus.NewRegistry()
	if err := reg.Register(fleetCollector{func() []admin.Gateway { return all }}); err != nil {
		t.Fatal(err)
	}
	want := func(gateways, hashes float64) {
		t.Helper()
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
		}
		if got["onceward_fleet_gateways"] != gateways || got["onceward_fleet_config_hashes"] != hashes {
			t.Errorf("%v, want %v gateways with %v configurations", got, gateways, hashes)
		}
	}
	want(1, 1)
	all = []admin.Gateway{{Config: "1"}, {Config: "1"}, {Config: "2", Dead: true}}
	want(2, 1)
	all[2].Dead = false
	want(3, 2)
}
