package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/onceward/onceward/admin"
)

// minToken is the shortest admin token that is taken from a file.
const minToken = 16

// tokenHash is the hash of the gateway's own admin token: that of its file, or
// of a shared ledger, which all gateways on it have in common.
func (g *Gateway) tokenHash(ctx context.Context) ([sha256.Size]byte, error) {
	path := g.start.TokenFile()
	if path != "" {
		token, err := adminToken(path, g.log)
		return admin.HashToken(token), err
	}
	for _, t := range g.start.adminTokens() {
		if t.Role == admin.RoleAdmin { // there is one, so that none has to be shown
			return [sha256.Size]byte(randomBytes(sha256.Size)), nil
		}
	}
	return g.keptToken(ctx)
}

// adminToken reads the token, or makes it at the first start: 32 random bytes
// in a file that only its owner reads. The value is never logged.
func adminToken(path string, log *slog.Logger) (string, error) {
	token, err := newToken(path)
	if err == nil {
		log.Info("admin token made", "event", "admin.token", "file", path)
		return token, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make admin token %q: %w", path, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("admin token: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		log.Warn("admin token is readable by others", "event", "admin.token", "file", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("admin token: %w", err)
	}
	if token = strings.TrimSpace(string(b)); len(token) < minToken {
		return "", fmt.Errorf("admin token %q: is shorter than %d bytes; remove the file and a new one is made", path, minToken)
	}
	return token, nil
}

// newToken writes a token to a temporary file and links it into place, so
// that a crash leaves a whole file or none. An existing file stays.
func newToken(path string) (string, error) {
	if _, err := os.Lstat(path); err == nil {
		return "", fs.ErrExist
	}
	token := freshToken()
	return token, writeNew(path, token+"\n")
}

func freshToken() string { return base64.RawURLEncoding.EncodeToString(randomBytes(32)) }

// writeNew writes a file for its owner alone, whole or not at all. An existing
// one stays, and is fs.ErrExist.
func writeNew(path, text string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".token-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(text)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Link(tmp.Name(), path)
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return b
}
