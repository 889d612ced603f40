package badgerdb

import (
	"errors"
	"os"
	"testing"

	"github.com/onceward/onceward/dedupe"
)

// FuzzHighWater: whatever is in the file, it is a mark that was written, or
// damage; never a mark that nobody wrote, never a new ledger.
func FuzzHighWater(f *testing.F) {
	dir := f.TempDir()
	w, err := createHighWater(dir)
	if err != nil {
		f.Fatal(err)
	}
	for no := range uint64(3) {
		if err := w.write(no+1, [32]byte{byte(no)}); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.close(); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(highWaterPath(dir))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, 0, byte(0))
	f.Add(good, 3, byte(1))
	f.Add(good[:100], 0, byte(0))
	f.Add([]byte{}, 0, byte(0))
	f.Fuzz(func(t *testing.T, text []byte, at int, flip byte) {
		own := t.TempDir()
		if len(text) > 0 {
			text[(at&0xffff)%len(text)] ^= flip
		}
		if err := os.WriteFile(highWaterPath(own), text, 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := openHighWater(own, true)
		if err != nil {
			if !errors.Is(err, dedupe.ErrDamaged) {
				t.Errorf("error %v, want damage", err)
			}
			return
		}
		defer w.close()
		for i := range 2 {
			if s := i * slotSize; len(text) >= s+slotBytes && slotGood(text[s:]) {
				return
			}
		}
		t.Errorf("mark %d of a file without a good slot", w.no)
	})
}
