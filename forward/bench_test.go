package forward

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/onceward/onceward/event"
)

// BenchmarkDeliveries measures deliveries to a real server on loopback, from
// a ledger in memory; the server's cost is in the number.
func BenchmarkDeliveries(b *testing.B) {
	for _, size := range []int{0, 512, 16 << 10} {
		b.Run(fmt.Sprintf("body=%d", size), func(b *testing.B) {
			var seen atomic.Int64
			want := int64(b.N)
			all := make(chan struct{})
			srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if seen.Add(1) == want {
					close(all)
				}
			}))
			defer srv.Close()
			r := newRig(b, func(c *Config) { c.Log = slog.New(slog.DiscardHandler) })
			body := string(make([]byte, size))
			header := []event.Field{
				{Name: "Content-Type", Value: "application/json"}, {Name: "User-Agent", Value: "Shop/1.0"},
				{Name: "Shop-Signature", Value: "t=1700000000,v1=5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd"},
			}
			for range b.N {
				r.admit(event.Event{Targets: []string{"a"}, Type: "order.paid", Header: header}, body)
			}
			b.ReportAllocs()
			b.ResetTimer()
			r.run(Target{Name: "a", URL: mustURL(b, srv.URL)})
			<-all
			b.StopTimer()
			if err := r.stop(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
		})
	}
}
