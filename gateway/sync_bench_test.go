package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkSync is the cost of a first call and of a replay beside a plain
// reverse proxy before the same target, at 1 and at 64 connections. The ratios
// are to the proxy of the same run, at p50 and p99. A first call is two synced
// commits; the disk decides what they cost.
func BenchmarkSync(b *testing.B) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"ch_1","amount":1000,"status":"succeeded"}`)
	}))
	b.Cleanup(target.Close)
	u, err := url.Parse(target.URL)
	if err != nil {
		b.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(u) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 64}, ErrorLog: quiet()})
	b.Cleanup(proxy.Close)
	for _, conns := range []int{1, 64} {
		r := benchGateway(b, base(b.TempDir())+syncSource(target.URL, "", ""))
		keys := newKeys()
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns}}
		b.Cleanup(client.CloseIdleConnections)
		var plain [2]float64
		for _, way := range []struct {
			name, url string
			key       func() string
		}{
			{"proxy", proxy.URL, keys.fresh},
			{"first", r.base(), keys.fresh},
			{"replay", r.base(), keys.known},
		} {
			b.Run(fmt.Sprintf("conns=%d/%s", conns, way.name), func(b *testing.B) {
				if way.name == "replay" {
					for range cap(keys.list) {
						key := keys.fresh()
						keys.list = append(keys.list, key)
						payOnce(b, client, way.url, key, false)
					}
				}
				times := measure(b, conns, func() { payOnce(b, client, way.url, way.key(), way.name == "replay") })
				p50, p99 := quantile(times, 50), quantile(times, 99)
				b.ReportMetric(p50, "p50-µs")
				b.ReportMetric(p99, "p99-µs")
				if way.name == "proxy" {
					plain = [2]float64{p50, p99}
				} else if plain[0] > 0 {
					b.ReportMetric(p50/plain[0], "p50-ratio")
					b.ReportMetric(p99/plain[1], "p99-ratio")
				}
			})
		}
	}
}

// keyRing hands out keys.
type keyRing struct {
	n    atomic.Int64
	list []string
}

func newKeys() *keyRing { return &keyRing{list: make([]string, 0, 256)} }

func (k *keyRing) fresh() string { return fmt.Sprint("bench-", time.Now().UnixNano(), "-", k.n.Add(1)) }
func (k *keyRing) known() string { return k.list[k.n.Add(1)%int64(len(k.list))] }

func payOnce(b *testing.B, client *http.Client, base, key string, replay bool) {
	req, err := http.NewRequest(http.MethodPost, base+"/charges", strings.NewReader(`{"amount":1000,"currency":"eur"}`))
	if err != nil {
		b.Fatal(err)
	}
	req.Header = shop.Clone()
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		b.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || (resp.Header.Get("Idempotent-Replayed") == "true") != replay {
		b.Errorf("status %d, replayed %q", resp.StatusCode, resp.Header.Get("Idempotent-Replayed"))
	}
}

// measure runs f b.N times on that many connections and returns how long each
// took, sorted.
func measure(b *testing.B, conns int, f func()) []time.Duration {
	times := make([]time.Duration, b.N)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range conns {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= b.N {
					return
				}
				began := time.Now()
				f()
				times[i] = time.Since(began)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	slices.Sort(times)
	return times
}

func quantile(sorted []time.Duration, p int) float64 {
	return float64(sorted[min(len(sorted)-1, len(sorted)*p/100)].Nanoseconds()) / 1e3
}

// benchGateway runs a gateway until the benchmark ends.
func benchGateway(b *testing.B, toml string) *running {
	cfg, fs := Parse("c.toml", []byte(toml), testEnv)
	if fs.Failed() {
		b.Fatal(fs)
	}
	g, err := New(cfg, Options{Env: testEnv})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	select {
	case <-g.Ready():
	case err := <-ended:
		b.Fatal(err)
	}
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return &running{Gateway: g, cfg: cfg}
}
