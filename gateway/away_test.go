package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/postgres/pgtest"
)

// TestDatabaseAway stops the database as a crash does while events arrive, and
// starts it again: meanwhile every request is answered 503, the gateway is not
// ready and lives, and afterwards all that was acknowledged is delivered.
func TestDatabaseAway(t *testing.T) {
	c := pgtest.Own(t)
	url, hits := listener(t, ok)
	r := run(t, fmt.Sprintf(`listen = "127.0.0.1:0"
drain = "5s"
admin = { listen = "127.0.0.1:0" }
store = { driver = "postgres", dsn = %q, gateway = "a", migrate = true }
retention = { body = "60d" }
`, c.URL)+source("shop", "standard_webhooks", "${env:A}")+target(url)+"timeout = \"1s\"\n", Options{})

	var (
		down    atomic.Bool
		mu      sync.Mutex
		acked   = map[string]bool{}
		refused int
		wg      sync.WaitGroup
	)
	count := func(f func() int) int { mu.Lock(); defer mu.Unlock(); return f() }
	sending, enough := context.WithCancel(t.Context())
	defer enough()
	for s := range 4 {
		wg.Go(func() {
			for n := 0; sending.Err() == nil; n++ {
				id := fmt.Sprintf("evt_%d_%d", s, n)
				wasDown := down.Load()
				resp, _ := r.send(t, r.signed(t, "shop", id, "order.paid"))
				switch {
				case resp.StatusCode/100 == 2 && wasDown && down.Load():
					t.Errorf("%s was acknowledged without a database", id)
				case resp.StatusCode/100 == 2:
					count(func() int { acked[id] = true; return 0 })
				case resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "":
					t.Errorf("%s: %s, Retry-After %q; want 503 with one", id, resp.Status, resp.Header.Get("Retry-After"))
				default:
					count(func() int { refused++; return 0 })
				}
				<-time.After(5 * time.Millisecond) // a sender, no flood
			}
		})
	}
	delivered := map[string]bool{}
	keys := map[string]string{}
	drain := func() {
		for {
			select {
			case h := <-hits:
				if k := keys[h.id]; k != "" && k != h.key {
					t.Errorf("%s was sent with the keys %s and %s", h.id, k, h.key)
				}
				delivered[h.id], keys[h.id] = true, h.key
			default:
				return
			}
		}
	}
	wait := func(what string, cond func() bool) {
		t.Helper()
		for end := time.Now().Add(3 * time.Minute); !cond(); drain() {
			if time.Now().After(end) {
				t.Fatalf("waited three minutes for %s", what)
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	wait("events before", func() bool { return count(func() int { return len(acked) }) >= 30 })

	c.Kill()
	down.Store(true)
	before := count(func() int { return refused })
	wait("refusals", func() bool { return count(func() int { return refused })-before >= 30 })
	err := r.isReady()
	if !errors.Is(err, dedupe.ErrAway) || strings.Contains(err.Error(), "\n") {
		t.Errorf("ready without a database: %v; want one sentence", err)
	}
	down.Store(false)
	if err := c.Restart(); err != nil {
		t.Fatal(err)
	}
	had := count(func() int { return len(acked) })
	wait("events after", func() bool { return count(func() int { return len(acked) })-had >= 30 })
	enough()
	wg.Wait()
	wait("all that was acknowledged to be delivered", func() bool {
		for id := range acked {
			if !delivered[id] {
				return false
			}
		}
		return true
	})
	if err := r.isReady(); err != nil {
		t.Errorf("not ready after the outage: %v", err)
	}
	if rep, err := r.ledger.Check(t.Context()); err != nil || len(rep.Faults) != 0 || rep.Events < uint64(len(acked)) {
		t.Errorf("check: %d events of %d acknowledged, faults %v, %v", rep.Events, len(acked), rep.Faults, err)
	}
}

// TestStopWhileAway ends a gateway whose database is away: it says nothing was
// lost that it had acknowledged, and ends in time.
func TestStopWhileAway(t *testing.T) {
	c := pgtest.Own(t)
	url, _ := listener(t, ok)
	r := run(t, fmt.Sprintf(`listen = "127.0.0.1:0"
drain = "1s"
admin = { listen = "127.0.0.1:0" }
store = { driver = "postgres", dsn = %q, gateway = "a", migrate = true }
retention = { body = "60d" }
`, c.URL)+source("shop", "standard_webhooks", "${env:A}")+target(url), Options{})
	if resp, body := r.send(t, r.signed(t, "shop", "evt_1", "order.paid")); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s", resp.Status, body)
	}
	c.Kill()
	if resp, body := r.send(t, r.signed(t, "shop", "evt_2", "order.paid")); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("without a database: %s %s", resp.Status, body)
	}
	if err := r.stop(t); err != nil {
		t.Errorf("run: %v", err)
	}
}
