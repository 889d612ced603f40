package badgerdb

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/onceward/onceward/dedupe"
)

func movedPath(dir string) string { return filepath.Join(dir, "moved") }

// movedMark says where a ledger goes on.
type movedMark struct {
	To string    `json:"to"`
	At time.Time `json:"at"`
}

// MarkMoved makes gateways refuse the ledger: it goes on elsewhere, as to says.
func (s *Source) MarkMoved(to string) error {
	b, err := json.Marshal(movedMark{to, s.db.cfg.Now().UTC()})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(movedPath(s.db.cfg.Dir), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("mark the ledger as moved: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close(), syncDir(s.db.cfg.Dir)); err != nil {
		return fmt.Errorf("mark the ledger as moved: %w", err)
	}
	return nil
}

// notMoved is an error when the ledger goes on elsewhere.
func notMoved(dir string) error {
	path := movedPath(dir)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var m movedMark
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return fmt.Errorf("open ledger %q: %w; %s can't be read: %w", dir, dedupe.ErrMoved, path, err)
	}
	return fmt.Errorf("open ledger %q: %w to %s at %s and goes on there; to go on with this one as it was then, and never with both, remove %s",
		dir, dedupe.ErrMoved, m.To, m.At.Format(time.RFC3339), path)
}
