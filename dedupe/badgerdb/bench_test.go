package badgerdb_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
)

// BenchmarkAccept holds group commit against one transaction per request.
// Read the rates of one run side by side; "batch" is events per sync.
func BenchmarkAccept(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("group/c=%d", callers), func(b *testing.B) { benchAccept(b, callers, true) })
		b.Run(fmt.Sprintf("alone/c=%d", callers), func(b *testing.B) { benchAccept(b, callers, false) })
	}
}

func benchAccept(b *testing.B, callers int, group bool) {
	cfg := small(b.TempDir(), time.Now)
	cfg.MemTable = 0
	db, err := badgerdb.Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	w, err := dedupe.NewWriter(dedupe.WriterConfig{Ledger: db})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	body := `{"pad":"` + strings.Repeat("abcdefg123", 50) + strings.Repeat("0", 500) + `"}`
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				req := request("bench", fmt.Sprint("evt_", n), body)
				var err error
				if group {
					err = w.Accept(ctx, req)
				} else {
					err = db.Commit(ctx, &dedupe.Batch{Requests: []*dedupe.Request{req}})
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	b.StopTimer()
	st, _ := db.Stats(ctx)
	b.ReportMetric(float64(b.N)/float64(max(st.Batches, 1)), "batch")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "accepts/s")
}
