package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// isTerminal reports whether f is a person's terminal.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// palette paints words; the zero palette paints nothing.
type palette struct{ on bool }

// paletteFor paints only where somebody sees it and has not said no.
func (a *app) paletteFor(w io.Writer) palette {
	if v, set := a.Env("NO_COLOR"); set && v != "" {
		return palette{}
	}
	if v, _ := a.Env("TERM"); v == "dumb" {
		return palette{}
	}
	return palette{on: isTerminal(w)}
}

func (p palette) paint(code, s string) string {
	if !p.on || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p palette) red(s string) string    { return p.paint("31", s) }
func (p palette) green(s string) string  { return p.paint("32", s) }
func (p palette) yellow(s string) string { return p.paint("33", s) }
func (p palette) cyan(s string) string   { return p.paint("36", s) }
func (p palette) dim(s string) string    { return p.paint("2", s) }
func (p palette) bold(s string) string   { return p.paint("1", s) }

// escape makes text from outside safe for one line of a terminal: control
// characters (C0, DEL, C1), bidirectional and invisible formatting, line
// separators and broken UTF-8 are written as visible escapes.
func escape(s string) string {
	if !needsEscape(s, false) {
		return s
	}
	return escapeRunes(s, false)
}

// escapeLines is escape for text of several lines: it keeps line feeds and tabs.
func escapeLines(s string) string {
	if !needsEscape(s, true) {
		return s
	}
	return escapeRunes(s, true)
}

func needsEscape(s string, lines bool) bool {
	for i, r := range s {
		if r == utf8.RuneError && brokenAt(s, i) || unsafeRune(r, lines) {
			return true
		}
	}
	return false
}

func escapeRunes(s string, lines bool) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && brokenAt(s, i):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !unsafeRune(r, lines):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}

func brokenAt(s string, i int) bool {
	_, n := utf8.DecodeRuneInString(s[i:])
	return n == 1
}

func unsafeRune(r rune, lines bool) bool {
	if lines && (r == '\n' || r == '\t') {
		return false
	}
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co)
}

// confirm asks before something that cannot be taken back. Without a terminal
// to ask on, it refuses: silence is not consent.
func (a *app) confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(a.Stdin) {
		return usage("%s: there is no terminal to ask on; say --yes to go ahead", question)
	}
	fmt.Fprintf(a.Stderr, "%s. Go ahead? [y/N] ", question)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.Stdin).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case got := <-answer:
		if got == "y" || got == "yes" {
			return nil
		}
		return fail(exitFailed, "nothing was done")
	case <-ctx.Done():
		return ctx.Err()
	}
}
