package admin

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// A backup under way says how far it is, how fast, and how long it still takes;
// then that it is done, or, when it was not given to its end, that it was cut.
func TestTransfers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_790_000_000, 0)
	ts := &transfers{now: func() time.Time { return now }}
	write := func(w io.Writer, n int) {
		t.Helper()
		if _, err := io.WriteString(w, strings.Repeat("x", n)); err != nil {
			t.Fatal(err)
		}
	}
	err := ts.follow(TransferBackup, "ann", 4000, io.Discard, func(w io.Writer) error {
		write(w, 600)
		now = now.Add(2 * time.Second)
		write(w, 400)
		got := ts.all()
		if len(got) != 1 || got[0].Bytes != 1000 || got[0].Rate != 500 || got[0].LeftSeconds == nil || *got[0].LeftSeconds != 6 || !got[0].EndedAt.IsZero() || got[0].Actor != "ann" {
			t.Errorf("under way: %+v", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := ts.all()[0]; !got.Whole || !got.EndedAt.Equal(now) || got.LeftSeconds != nil {
		t.Errorf("done: %+v", got)
	}
	broken := errors.New("broken pipe")
	if err := ts.follow(TransferAudit, "bob", 0, io.Discard, func(io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if got := ts.all()[0]; got.Whole || got.EndedAt.IsZero() || got.Kind != TransferAudit {
		t.Errorf("cut: %+v", got)
	}
}

// The pages of an export add up under its name and its actor; one of which no more
// is asked for was left off, and goes on when more is.
func TestTransfersInPages(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_790_000_000, 0)
	ts := &transfers{now: func() time.Time { return now }}
	ts.page("export01", "ann", 1500, 500, 9000, false)
	ts.page("export01", "bob", 0, 500, 9000, false) // another's of the same name
	now = now.Add(10 * time.Second)
	ts.page("export01", "ann", 1500, 500, 9000, false)
	got := ts.all()
	if len(got) != 2 || got[1].Events != 1000 || got[1].Rate != 100 || got[1].LeftSeconds == nil || *got[1].LeftSeconds != 5 {
		t.Fatalf("two exports: %+v", got)
	}
	now = now.Add(transferQuiet + time.Second)
	if got := ts.all()[1]; got.EndedAt.IsZero() || got.Whole {
		t.Errorf("left off: %+v", got)
	}
	ts.page("export01", "ann", 1500, 500, 9000, true)
	if got := ts.all()[1]; !got.Whole || got.Events != 1500 {
		t.Errorf("gone on with: %+v", got)
	}
	for range 3 * keptTransfers {
		ts.page("other001", "ann", 0, 1, 1, true)
		_ = ts.follow(TransferBackup, "ann", 0, io.Discard, func(io.Writer) error { return nil }) // it can't fail
	}
	if n := len(ts.all()); n > keptTransfers+1 {
		t.Errorf("%d are kept", n)
	}
	rows, busy := transferRows(ts.all())
	if busy || !slices.ContainsFunc(rows, func(r transferRow) bool { return r.State == "done" }) {
		t.Errorf("busy %v with nothing under way", busy)
	}
}

func TestTakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n    int
		rate string
		more bool
		want string
	}{
		{600, "20/s", false, "about 30 s at 20/s"},
		{600, "", false, "about 30 s at 20/s; without a rate as fast as the targets answer"},
		{7200, "60/m", true, "about 2 h at 60/m for these, longer for all"},
		{0, "20/s", false, ""},
		{5, "nonsense", false, ""},
	} {
		if got := takes(tt.n, tt.rate, tt.more); got != tt.want {
			t.Errorf("takes(%d, %q) = %q, want %q", tt.n, tt.rate, got, tt.want)
		}
	}
}
