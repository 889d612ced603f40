package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Ask runs a command again only when the gateway did not answer.
func TestAsk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code, runs, want string
	}{{"8", "xxx", "there\n"}, {"5", "x", ""}} {
		dir := t.TempDir()
		p := &Proc{Binary: filepath.Join(dir, "gateway")}
		script := "#!/bin/sh\nprintf x >>" + dir + "/runs\n[ $(cat " + dir + "/runs) = xxx ] && echo there && exit 0\nexit " + tt.code + "\n"
		if err := os.WriteFile(p.Binary, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := p.Ask(ctx, "status")
		if string(out) != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("exit code %s: got %q, %v", tt.code, out, err)
		}
		if runs, _ := os.ReadFile(dir + "/runs"); strings.TrimSpace(string(runs)) != tt.runs {
			t.Errorf("exit code %s: ran %q, want %q", tt.code, runs, tt.runs)
		}
	}
}
