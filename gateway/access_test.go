package gateway

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onceward/onceward/admin"
)

// access is the status and code of one call of the listener with a token.
func access(t *testing.T, r *running, token string) string {
	t.Helper()
	_, addr := r.Addr()
	c, err := admin.NewClient(admin.ClientConfig{Addr: addr, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var api *admin.APIError
	if _, err := c.Reload(t.Context()); errors.As(err, &api) {
		return api.Code
	} else if err != nil {
		t.Fatal(err)
	}
	return "ok"
}

// TestTokensFromTheFile: tokens by hash and by file, with their roles, come
// and go with reloads.
func TestTokensFromTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const oncall, viewer, boss = "oncall-token-0123456789", "viewer-token-0123456789", "boss-token-0123456789"
	head := "listen = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n[store]\npath = \"" + filepath.ToSlash(filepath.Join(dir, "data")) + "\"\n"
	block := func(name, role, how string) string {
		return "[[admin.token]]\nname = \"" + name + "\"\nrole = \"" + role + "\"\n" + how + "\n"
	}
	write("oncall", oncall+"\n")
	first := head + block("oncall", "admin", `file = "`+filepath.ToSlash(filepath.Join(dir, "oncall"))+`"`) + block("eve", "viewer", `hash = "`+TokenHash(viewer)+`"`)
	write("config.toml", first)
	r := run(t, first, Options{ConfigPath: filepath.Join(dir, "config.toml")})
	for token, want := range map[string]string{oncall: "ok", viewer: admin.CodeForbidden, boss: admin.CodeUnauthorized} {
		if got := access(t, r, token); got != want {
			t.Errorf("%s: %s, want %s", token, got, want)
		}
	}
	write("config.toml", head+block("boss", "admin", `hash = "`+TokenHash(boss)+`"`))
	if got := access(t, r, oncall); got != "ok" { // this call is the reload itself
		t.Fatalf("reload = %s", got)
	}
	for token, want := range map[string]string{oncall: admin.CodeUnauthorized, viewer: admin.CodeUnauthorized, boss: "ok"} {
		if got := access(t, r, token); got != want {
			t.Errorf("after the reload, %s: %s, want %s", token, got, want)
		}
	}
	var printed strings.Builder
	if err := r.gen.Load().cfg.Print(&printed); err != nil {
		t.Fatal(err)
	}
	if s := printed.String(); strings.Contains(s, TokenHash(boss)) || !strings.Contains(s, TokenHash(boss)[:15]) {
		t.Errorf("the printed configuration has the whole hash, or nothing of it:\n%s", s)
	}
}
