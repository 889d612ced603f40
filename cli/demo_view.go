package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// demoView prints the demo as it happens: one short line for each thing worth
// telling. It is safe for concurrent use.
type demoView struct {
	now func() time.Time
	p   palette

	// mu keeps lines whole.
	mu  sync.Mutex
	out io.Writer
}

func (v *demoView) say(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	fmt.Fprintf(v.out, format+"\n", args...)
}

// line tells one thing about one event.
func (v *demoView) line(sh shot, what, detail string) {
	v.say("%s  %-8s  %-5s  %-16s  %s  %s", v.p.dim(v.now().Format("15:04:05.0")), sh.provider.source, fmt.Sprintf("#%d", sh.n), sh.typ, v.word(what), detail)
}

// word pads before it paints, so that columns stay straight.
func (v *demoView) word(what string) string {
	padded := fmt.Sprintf("%-9s", what)
	switch what {
	case string(fateAccepted), "delivered":
		return v.p.green(padded)
	case string(fateRepeat), string(fateConflict):
		return v.p.cyan(padded)
	case "retry":
		return v.p.yellow(padded)
	case string(fateRefused), string(fateError), "dead":
		return v.p.red(padded)
	}
	return padded
}

// answered tells what the sender was told; accepted events are told by the
// watcher, together with how their first delivery went.
func (v *demoView) answered(s sent) {
	switch s.got {
	case fateRepeat:
		v.line(s.shot, "repeat", "answered the same, not forwarded again")
	case fateConflict:
		v.line(s.shot, "conflict", "known ID, other body: kept on record")
	case fateRefused:
		v.line(s.shot, "refused", fmt.Sprintf("forged signature: %d, nothing kept", s.status))
	case fateError:
		v.line(s.shot, "error", v.p.red(escape(s.problem())))
	}
}

func (s sent) problem() string {
	if s.err != nil {
		return s.err.Error()
	}
	return fmt.Sprintf("unexpected answer %d", s.status)
}

// row is one line of the closing table: what each side counted, and "" where it
// cannot know.
type row struct {
	name                     string
	sender, gateway, service string
	note                     string
}

// table prints the closing table.
func (v *demoView) table(rows []row) {
	v.say("\n%s", v.p.bold(fmt.Sprintf("  %-12s %9s %9s %9s", "", "sender", "gateway", "target")))
	v.say("  %s", v.p.dim(strings.Repeat("─", 72)))
	for _, r := range rows {
		v.say("  %-12s %9s %9s %9s   %s", r.name, r.sender, r.gateway, r.service, v.p.dim(r.note))
	}
}

// check prints one sum and whether it holds.
func (v *demoView) check(c check) {
	if c.ok() {
		v.say("  %s %s", v.p.green("✓"), c)
		return
	}
	v.say("  %s", v.p.red("✗ "+c.String()+"  MISMATCH"))
}
