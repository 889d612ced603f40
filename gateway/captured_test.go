package gateway

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onceward/onceward/verify"
)

// A captured secret that lost a bit would refuse every event for ever, and say
// only that signatures don't match.
func TestCapturedDamaged(t *testing.T) {
	t.Parallel()
	for name, hurt := range map[string]func(t *testing.T, path string){
		"a flipped bit":   func(t *testing.T, path string) { rewrite(t, path, "c"+handed[1:]) },
		"cut short":       func(t *testing.T, path string) { rewrite(t, path, handed[:10]) },
		"zeroed":          func(t *testing.T, path string) { rewrite(t, path, strings.Repeat("\x00", len(handed))) },
		"emptied":         func(t *testing.T, path string) { rewrite(t, path, "") },
		"checksum zeroed": func(t *testing.T, path string) { rewrite(t, path+sumSuffix, "\x00\x00") },
	} {
		path := filepath.Join(t.TempDir(), "captured", "tasks.secret")
		if err := keepCaptured(path, verify.NewSecretString(handed)); err != nil {
			t.Fatal(err)
		}
		if s, err := readCaptured(path); err != nil || s.Reveal() != handed {
			t.Fatalf("read back: %v", err)
		}
		hurt(t, path)
		_, err := readCaptured(path)
		if err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), handed[:8]) {
			t.Errorf("%s: %v, want an error that names the file and not the secret", name, err)
		}
		// Removing the file is how to register anew.
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if _, err := readCaptured(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s, removed: %v", name, err)
		}
		if err := keepCaptured(path, verify.NewSecretString("another-secret-0123456789")); err != nil {
			t.Errorf("%s, registered anew: %v", name, err)
		}
		if _, err := readCaptured(path); err != nil {
			t.Errorf("%s, registered anew: %v", name, err)
		}
	}
	// One of a version without checksums is taken.
	path := filepath.Join(t.TempDir(), "old.secret")
	rewrite(t, path, handed)
	if s, err := readCaptured(path); err != nil || s.Reveal() != handed {
		t.Errorf("without a checksum: %v", err)
	}
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
