package audit_test

import (
	"testing"
	"time"
)

// TestStandings: how far a log reaches, and how far it is signed.
func TestStandings(t *testing.T) {
	t.Parallel()
	b := setupLog(t)
	if s, err := b.log.Standings(t.Context()); err != nil || len(s) > 1 || len(s) == 1 && s[0].Next != 0 {
		t.Fatalf("an empty ledger = %+v, %v", s, err)
	}
	b.record(3)
	s, err := b.log.Standings(t.Context())
	if err != nil || len(s) != 1 || !s[0].Own || s[0].Next != 3 || s[0].Signed != 0 || s[0].Root != "" {
		t.Fatalf("unsigned = %+v, %v", s, err)
	}
	c := b.checkpoint()
	b.clock.add(time.Minute)
	b.record(2)
	s, err = b.log.Standings(t.Context())
	if err != nil || s[0].Next != 5 || s[0].Signed != 3 || !s[0].SignedAt.Equal(c.At) || s[0].Log != c.Log || len(s[0].Root) != 64 {
		t.Errorf("signed in part = %+v, %v; checkpoint %+v", s, err, c)
	}
}
