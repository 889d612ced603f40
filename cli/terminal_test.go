package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// hostile is text that a terminal would act on, and how it must look.
var hostile = []struct{ name, in, want string }{
	{"plain", "invoice.paid", "invoice.paid"},
	{"other scripts", "заказ 注文 🎉", "заказ 注文 🎉"},
	{"escape sequence", "\x1b[2J\x1b[31mred", `\x1b[2J\x1b[31mred`},
	{"title sequence", "\x1b]0;pwned\x07", `\x1b]0;pwned\x07`},
	{"carriage return", "real\rfake", `real\x0dfake`},
	{"line feed", "one\ntwo", `one\x0atwo`},
	{"tab", "a\tb", `a\x09b`},
	{"backspace, delete", "a\bb\x7f", `a\x08b\x7f`},
	{"nul", "a\x00b", `a\x00b`},
	{"c1 control", "a\u009b31m", `a\x9b31m`},
	{"bidi override", "gpj.\u202eexe", `gpj.\u{202e}exe`},
	{"bidi isolate", "\u2066x\u2069", `\u{2066}x\u{2069}`},
	{"zero width", "pay\u200bpal", `pay\u{200b}pal`},
	{"line separator", "a\u2028b\u2029c", `a\u{2028}b\u{2029}c`},
	{"tag characters", "a\U000e0041", `a\u{e0041}`},
	{"broken utf-8", "a\xff\xc3", `a\xff\xc3`},
	{"replacement character itself", "a\ufffdb", "a\ufffdb"},
}

func TestEscape(t *testing.T) {
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) {
			if got := escape(tt.in); got != tt.want {
				t.Errorf("escape(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestEscapeLinesKeepsLines(t *testing.T) {
	if got, want := escapeLines("a\n\tb\r\x1b"), "a\n\tb\\x0d\\x1b"; got != want {
		t.Errorf("escapeLines = %q, want %q", got, want)
	}
}

// TestEncodeIsSafeAndTheSame: what is printed holds nothing a terminal acts on,
// and reads back as what it was.
func TestEncodeIsSafeAndTheSame(t *testing.T) {
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) {
			in := map[string]string{"v": strings.ToValidUTF8(tt.in, "\ufffd")}
			out, err := encode(in, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range string(out) {
				if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
					t.Errorf("output holds %U", r)
				}
			}
			var back map[string]string
			if err := json.Unmarshal(out, &back); err != nil {
				t.Fatalf("not JSON any more: %v: %s", err, out)
			}
			if back["v"] != in["v"] {
				t.Errorf("read back %q, want %q", back["v"], in["v"])
			}
		})
	}
}

func TestTableEscapesCells(t *testing.T) {
	var buf bytes.Buffer
	tab := table{head: []string{"ID", "TYPE"}}
	tab.add("evt\x1b[2J", "a\tb\nc")
	if err := tab.write(&buf); err != nil {
		t.Fatal(err)
	}
	if want := "ID          TYPE\nevt\\x1b[2J  a\\x09b\\x0ac\n"; buf.String() != want {
		t.Errorf("got %q, want %q", buf.String(), want)
	}
}

func TestConfirmRefusesWithoutTerminal(t *testing.T) {
	var asked bytes.Buffer
	a := &app{IO: IO{Stdin: strings.NewReader("y\n"), Stderr: &asked}}
	err := a.confirm(t.Context(), false, "this replays 3 events")
	if codeOf(err) != exitUsage {
		t.Errorf("error %v has code %d, want %d: piped input is nobody's consent", err, codeOf(err), exitUsage)
	}
	if err := a.confirm(t.Context(), true, "this replays 3 events"); err != nil {
		t.Errorf("with --yes: %v", err)
	}
}
