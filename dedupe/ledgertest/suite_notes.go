package ledgertest

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/onceward/onceward/dedupe"
)

// noteTests hold the gateway's own small records.
func noteTests() []test {
	return []test{
		{"a note is kept and versioned", noteKept},
		{"a note outlives a restart", func(f *fix) { noteRestart(f, f.reopen) }},
		{"a note outlives a kill", func(f *fix) { crashed(f, noteRestart) }},
		{"of many who change a note at once one wins", noteRace},
		{"a dropped note is gone", noteDropped},
		{"what can't be a note is refused", noteRefused},
	}
}

func (f *fix) putNote(n dedupe.Note) dedupe.Note {
	f.Helper()
	n, err := f.l.PutNote(f.Context(), n)
	f.must(err)
	return n
}

func noteKept(f *fix) {
	if _, err := f.l.Note(f.Context(), "target", "billing"); !errors.Is(err, dedupe.ErrNotFound) {
		f.Errorf("a note that was never put: %v", err)
	}
	value := []byte(`{"paused":true}`)
	n := f.putNote(dedupe.Note{Kind: "target", Name: "billing", Value: value})
	equal(f, "version", n.Version, 1)
	if !sameTime(n.UpdatedAt, f.l.Now()) {
		f.Errorf("updated at %v, want %v", n.UpdatedAt, f.l.Now())
	}
	value[2] = 'X' // the caller's bytes are the caller's
	got, err := f.l.Note(f.Context(), "target", "billing")
	f.must(err)
	equal(f, "value", string(got.Value), `{"paused":true}`)
	equal(f, "kind", got.Kind, "target")
	equal(f, "name", got.Name, "billing")
	n.Value = nil
	n = f.putNote(n)
	equal(f, "version", n.Version, 2)
	n.Version = 1
	if _, err := f.l.PutNote(f.Context(), n); !errors.Is(err, dedupe.ErrStale) {
		f.Errorf("put on an old version: %v", err)
	}
	if _, err := f.l.PutNote(f.Context(), dedupe.Note{Kind: "target", Name: "billing"}); !errors.Is(err, dedupe.ErrStale) {
		f.Errorf("put as if there were none: %v", err)
	}
	f.putNote(dedupe.Note{Kind: "target", Name: "audit"})
	f.putNote(dedupe.Note{Kind: "targets", Name: "other"})
	all, err := f.l.Notes(f.Context(), "target")
	f.must(err)
	var names []string
	for _, n := range all {
		names = append(names, n.Name)
	}
	equal(f, "names", strings.Join(names, " "), "audit billing")
}

func noteRestart(f *fix, restart func()) {
	n := f.putNote(dedupe.Note{Kind: "breaker", Name: "crm", Value: []byte("open")})
	restart()
	got, err := f.l.Note(f.Context(), "breaker", "crm")
	f.must(err)
	equal(f, "value", string(got.Value), "open")
	equal(f, "version", got.Version, n.Version)
	f.putNote(got)
}

func noteRace(f *fix) {
	first := f.putNote(dedupe.Note{Kind: "job", Name: "1"})
	var wg sync.WaitGroup
	var won atomic.Int32
	for range 16 {
		wg.Go(func() {
			_, err := f.l.PutNote(f.Context(), first)
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, dedupe.ErrStale):
				f.Errorf("put: %v", err)
			}
		})
	}
	wg.Wait()
	equal(f, "winners", int(won.Load()), 1)
}

func noteDropped(f *fix) {
	n := f.putNote(dedupe.Note{Kind: "job", Name: "1"})
	old := n
	n = f.putNote(n)
	if err := f.l.DropNote(f.Context(), old); !errors.Is(err, dedupe.ErrStale) {
		f.Errorf("drop of an old version: %v", err)
	}
	f.must(f.l.DropNote(f.Context(), n))
	if err := f.l.DropNote(f.Context(), n); !errors.Is(err, dedupe.ErrNotFound) {
		f.Errorf("second drop: %v", err)
	}
	f.reopen()
	if _, err := f.l.Note(f.Context(), "job", "1"); !errors.Is(err, dedupe.ErrNotFound) {
		f.Errorf("a dropped note: %v", err)
	}
	equal(f, "version of a new one", f.putNote(dedupe.Note{Kind: "job", Name: "1"}).Version, 1)
}

func noteRefused(f *fix) {
	long := strings.Repeat("n", dedupe.MaxNoteName+1)
	for _, n := range []dedupe.Note{
		{Name: "x"}, {Kind: "x"}, {Kind: long, Name: "x"}, {Kind: "x", Name: long}, {Kind: "a\x00", Name: "x"}, {Kind: "x", Name: "a\x00b"},
		{Kind: "x", Name: "x", Value: make([]byte, dedupe.MaxNoteValue+1)},
	} {
		if _, err := f.l.PutNote(f.Context(), n); err == nil {
			f.Errorf("note %q of kind %q with %d bytes was taken", n.Name, n.Kind, len(n.Value))
		}
	}
	big := f.putNote(dedupe.Note{Kind: "x", Name: "x", Value: bytes.Repeat([]byte{0, 1}, dedupe.MaxNoteValue/2)})
	f.reopen()
	got, err := f.l.Note(f.Context(), "x", "x")
	f.must(err)
	if !bytes.Equal(got.Value, big.Value) {
		f.Errorf("a note of the largest size came back as %d other bytes", len(got.Value))
	}
}
