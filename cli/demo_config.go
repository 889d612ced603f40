package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeConfig writes a config of the demo, and its secret files, into its
// directory.
func (d *demo) writeConfig(name, ingest, admin string) (string, error) {
	secrets := filepath.Join(d.dir, "secrets")
	if err := os.MkdirAll(secrets, 0o700); err != nil {
		return "", fmt.Errorf("make the demo's secrets: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# The demo's config: it is gone with the demo.\nlisten = %q\ndrain = \"3s\"\n\n", ingest)
	fmt.Fprintf(&b, "[admin]\nlisten = %q\n\n[store]\npath = \"data\"\nmemory_limit = \"128MiB\"\nreserve = \"64MiB\"\nballast = \"1MiB\"\n", admin)
	for _, p := range d.providers {
		file := filepath.Join(secrets, p.source)
		if err := os.WriteFile(file, []byte(p.secret), 0o600); err != nil {
			return "", fmt.Errorf("write the demo's secrets: %w", err)
		}
		fmt.Fprintf(&b, "\n[[source]]\nname = %q\nprovider = %q\nsecrets = [\"${file:secrets/%s}\"]\ntargets = [\"orders\"]\n", p.source, p.name, p.source)
		if p.name == "stripe" {
			b.WriteString("on_conflict = \"ack\"\n")
		}
	}
	fmt.Fprintf(&b, "\n[[target]]\nname = \"orders\"\nurl = %q\ntimeout = \"800ms\"\ninitial = \"200ms\"\nmax = \"1s\"\n", d.target.url())
	path := filepath.Join(d.dir, name)
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		return "", fmt.Errorf("write the demo's config: %w", err)
	}
	return path, nil
}
