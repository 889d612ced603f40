package audit_test

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe/ledgertest"
)

// FuzzParseQuery: a listing's parameters, cursor included, give a page or an
// error that says what is wrong with them.
func FuzzParseQuery(f *testing.F) {
	f.Add("source=shop&type=a.*&status=dead&from=-1h&limit=5")
	f.Add("since=2026-01-01T00:00:00Z&cursor=abc")
	f.Add("cursor=%00&limit=-1")
	f.Add("to=99999999999h&from=1")
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	mem := ledgertest.NewMemory(ledgertest.Config{Now: func() time.Time { return now }})
	acc, err := audit.New(audit.Config{Reader: mem, Keeper: mem, Now: func() time.Time { return now }})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		var bad *audit.InvalidError
		for _, kind := range []audit.Kind{audit.KindEvents, audit.KindDeliveries} {
			q, err := audit.ParseQuery(kind, v, now)
			if err == nil && kind == audit.KindEvents {
				_, err = acc.Events(t.Context(), q)
			} else if err == nil {
				_, err = acc.Deliveries(t.Context(), q)
			}
			if err != nil && !errors.As(err, &bad) {
				t.Errorf("%q: %v, want a page or what is wrong", text, err)
			}
		}
	})
}
