package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A report names a commit as it is, though an earlier report lies changed in the
// tree, and says so when anything else does.
func TestCommitOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got := commitOf(dir); got != "unknown" {
		t.Errorf("outside a repository: %q", got)
	}
	if _, err := exec.LookPath("git"); err != nil {
		return // every tree is unknown there
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args[0], err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("main.go", "a")
	write("docs/torture.md", "a")
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	clean := commitOf(dir)
	write("docs/torture.md", "b")
	if got := commitOf(dir); got != clean || len(got) != 12 || strings.HasSuffix(got, "dirty") {
		t.Errorf("with a changed report: %q, before %q", got, clean)
	}
	write("main.go", "b")
	if got := commitOf(dir); got != clean+"-dirty" {
		t.Errorf("with a changed program: %q, before %q", got, clean)
	}
}
