package cli

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/dedupe"
)

// TestStatusFitsOneScreen: 80 by 24, however much there is to say.
func TestStatusFitsOneScreen(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	s := admin.Status{
		Build: admin.Build{Version: "v1.22.333-0.20261130120000-0123456789ab"}, Now: now, StartedAt: now.Add(-400 * 24 * time.Hour),
		Problem: strings.Repeat("the ledger is read-only and so on ", 5),
		Ledger:  admin.Ledger{Events: 123456789012, SizeBytes: 987 << 30, FreeBytes: 987 << 30, ReadOnly: true, Reserve: 15 << 30},
	}
	for i := range 40 {
		name := fmt.Sprintf("a-source-with-a-name-of-63-characters-%02d-%s", i, strings.Repeat("x", 22))
		s.Sources = append(s.Sources, admin.Source{Name: name, Provider: "standard_webhooks", LastAccepted: now.Add(-47 * time.Hour),
			Counts: map[string]uint64{"accepted": 1234567890, "repeat": 12345678, "refused": 12345678}})
		s.Targets = append(s.Targets, admin.Target{Name: name, Pending: 1234567, OldestAge: 47 * 3600, Dead: 1234567,
			LastSuccess: now.Add(-47 * time.Hour), LastFailure: now.Add(-47 * time.Hour), Failures: 1234})
	}
	for i := range 40 {
		s.Gateways = append(s.Gateways, admin.Gateway{Name: fmt.Sprint("a-gateway-with-a-long-name-", i), Own: i == 0})
	}
	s.Gateways[7].Problem = "runs another configuration"
	s.Sources[39].Offline = "none of its secrets is set"
	var out bytes.Buffer
	if err := writeStatus(&out, s, palette{}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) > 24 {
		t.Errorf("%d lines, want at most 24", len(lines))
	}
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); n > 80 {
			t.Errorf("%d columns, want at most 80: %s", n, l)
		}
	}
	for _, want := range []string{"NOT READY", "INTAKE REFUSED", "OFFLINE", "40 gateways: a-gateway-with-a… runs another configuration", "33 more: onceward sources", "33 more: onceward targets"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not on the screen:\n%s", want, out.String())
		}
	}
}

// TestStatusConcerns: what the ledger says of itself is on the screen whole, which
// stays one.
func TestStatusConcerns(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	old := dedupe.Concern{Name: "old_transaction", Do: "Find it in pg_stat_activity by its xact_start, and end it.",
		Text: "A transaction has been open in the database for 45m0s: no row that died since is cleaned up, and leases become slow."}
	for n := range 4 {
		s := admin.Status{Now: now, Ready: true, Ledger: admin.Ledger{Concerns: slices.Repeat([]dedupe.Concern{old}, n)}}
		for i := range 20 {
			s.Sources = append(s.Sources, admin.Source{Name: fmt.Sprint("s", i)})
			s.Targets = append(s.Targets, admin.Target{Name: fmt.Sprint("t", i)})
			s.Gateways = append(s.Gateways, admin.Gateway{Name: fmt.Sprint("g", i), Own: i == 0})
		}
		var out bytes.Buffer
		if err := writeStatus(&out, s, palette{}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) > 24 || slices.ContainsFunc(lines, func(l string) bool { return utf8.RuneCountInString(l) > 80 }) {
			t.Errorf("%d concerns: %d lines\n%s", n, len(lines), out.String())
		}
		text := strings.Join(strings.Fields(out.String()), " ")
		if whole := strings.Contains(text, "look at "+old.Text+" "+old.Do); whole != (n > 0) {
			t.Errorf("%d concerns: the first is there whole: %v\n%s", n, whole, out.String())
		}
		if more := fmt.Sprintf("and %d more: -o json", n-1); strings.Contains(text, more) != (n > 1) {
			t.Errorf("%d concerns: %q is there or not\n%s", n, more, out.String())
		}
	}
}

// TestExitCodes: what ended a command decides its code.
func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, 0},
		{"anything else", errors.New("x"), 1},
		{"ledger in use", fmt.Errorf("open: %w", dedupe.ErrLocked), 6},
		{"newer ledger", fmt.Errorf("open: %w", dedupe.ErrNewer), 6},
		{"damaged ledger", dedupe.ErrDamaged, 6},
		{"ledger failed while serving", errors.Join(nil, fmt.Errorf("writer: %w", dedupe.ErrFatal)), 6},
		{"a code inside other words", fmt.Errorf("more: %w", usage("x")), 2},
		{"bad argument", apiErr(&admin.APIError{Code: admin.CodeInvalid}), 2},
		{"ambiguous ID", apiErr(&admin.APIError{Code: admin.CodeAmbiguous}), 2},
		{"faulty config", apiErr(&admin.APIError{Code: admin.CodeConfig}), 3},
		{"unknown", apiErr(&admin.APIError{Code: admin.CodeNotFound}), 4},
		{"gone by retention", apiErr(&admin.APIError{Code: admin.CodePruned}), 4},
		{"ledger cannot", apiErr(&admin.APIError{Code: admin.CodeStore}), 6},
		{"damaged record", apiErr(&admin.APIError{Code: admin.CodeDamaged}), 6},
		{"wrong token", apiErr(&admin.APIError{Code: admin.CodeUnauthorized}), 7},
		{"too many wrong tokens", apiErr(&admin.APIError{Code: admin.CodeLimited}), 7},
		{"other error of the gateway", apiErr(&admin.APIError{Code: admin.CodeInternal}), 1},
		{"nobody there", apiErr(fmt.Errorf("%w at x", admin.ErrUnreachable)), 8},
		{"replay done", replayEnd(replayed(2, 0, 0)), 0},
		{"replay done, some still open", replayEnd(replayed(2, 1, 0)), 0},
		{"replay partly done", replayEnd(replayed(2, 0, 1)), 5},
		{"replay of what is open", replayEnd(replayed(0, 1, 0)), 1},
		{"replay of what is gone", replayEnd(replayed(0, 0, 1)), 1},
		{"replay of nothing", replayEnd(replayed(0, 0, 0)), 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := codeOf(tt.err); got != tt.want {
				t.Errorf("code %d, want %d", got, tt.want)
			}
		})
	}
}

func replayed(opened, open, pruned int) admin.ReplayResult {
	return admin.ReplayResult{ReplayCount: dedupe.ReplayCount{Events: 3, Opened: opened, Open: open, Pruned: pruned}}
}
