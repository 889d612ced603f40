package gateway

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/verify"
)

// Words says in words what the operator's pages tell of verification. Fields
// that are nil tell less.
type Words struct {
	// Signed is how requests of a mode prove themselves.
	Signed func(verify.Mode) string
	// Refusal is what can be said of a refusal of a source of this row, the
	// zero row where it is not known.
	Refusal func(admin.Refusal, verify.Row) admin.Explanation
}

// tried is what came of the last reload that was refused.
type tried struct {
	at     time.Time
	faults Faults
}

// setup is the configuration in effect as the pages show it.
func (g *Gateway) setup() admin.Setup {
	cfg := g.gen.Load().cfg
	s := admin.Setup{File: cfg.file, Hash: cfg.Hash()}
	if at := g.loaded.Load(); at != nil {
		s.LoadedAt = *at
	}
	if t := g.refused.Load(); t != nil {
		s.FailedAt = t.at
		for _, f := range t.faults {
			s.Faults = append(s.Faults, admin.Fault(f))
		}
	}
	var text bytes.Buffer
	if err := cfg.Print(&text); err == nil {
		s.Text = text.String()
	}
	for i := range cfg.Sources {
		s.Sources = append(s.Sources, g.sourceSetup(cfg, &cfg.Sources[i]))
	}
	for i := range cfg.Targets {
		s.Targets = append(s.Targets, targetSetup(cfg, &cfg.Targets[i]))
	}
	return s
}

func (g *Gateway) sourceSetup(cfg *Config, s *SourceConfig) admin.SourceSetup {
	row := s.row
	out := admin.SourceSetup{
		Name: s.Name, Provider: s.Provider, Title: row.Title, Docs: row.Docs, URL: cmp.Or(s.PublicURL, s.ListenPath()),
		Window: time.Duration(s.Window), Retries: time.Duration(row.Retries), Tolerance: time.Duration(s.Tolerance),
		BodyLimit: cmp.Or(int64(s.BodyLimit), row.BodyLimit, verify.DefaultBodyLimit), KeepBodies: s.Retention.over(cfg.Retention).Body,
		OnConflict: cmp.Or(s.OnConflict, string(row.OnConflict)), Handshake: len(row.Handshake) > 0, Targets: s.Targets,
	}
	if m, ok := s.mode(); ok && g.opts.Words.Signed != nil {
		out.Signed = g.opts.Words.Signed(m)
	}
	for _, sec := range s.Secrets {
		out.Secrets = append(out.Secrets, admin.SecretSetup{ID: sec.ID, NotBefore: sec.NotBefore, NotAfter: sec.NotAfter, Missing: sec.unset, Written: sec.written})
	}
	if _, path, err := s.verifierConfig(cfg); err == nil && path != "" {
		if info, err := os.Stat(path); err == nil {
			out.Secrets = append(out.Secrets, admin.SecretSetup{ID: capturedLabel, Written: info.ModTime()})
		}
	}
	out.Fields = slices.Sorted(maps.Keys(s.Index))
	for _, r := range s.Routes {
		out.Routes = append(out.Routes, admin.RouteSetup{Target: r.Target, Types: r.Types})
	}
	return out
}

// mode is the one by which the source's requests prove themselves.
func (s *SourceConfig) mode() (verify.Mode, bool) {
	name := s.Auth
	if s.verifier != nil {
		name = s.verifier.Mode()
	}
	i := slices.IndexFunc(s.row.Modes, func(m verify.Mode) bool { return name == "" || m.Name == name })
	if i < 0 {
		return verify.Mode{}, false
	}
	return s.row.Modes[i], true
}

func targetSetup(cfg *Config, t *TargetConfig) admin.TargetSetup {
	out := admin.TargetSetup{
		Name: t.Name, Timeout: time.Duration(t.Timeout), Concurrency: t.Concurrency, GiveUp: time.Duration(t.GiveUpAfter),
		Retries: retryWords(t),
	}
	for _, s := range t.SigningSecrets {
		out.Signing = append(out.Signing, s.ID)
	}
	for name := range t.Headers {
		out.Headers = append(out.Headers, name)
	}
	slices.Sort(out.Headers)
	for i := range cfg.Sources {
		if slices.Contains(cfg.Sources[i].targetNames(), t.Name) {
			out.Sources = append(out.Sources, cfg.Sources[i].Name)
		}
	}
	return out
}

// retryWords is a target's curve in words.
func retryWords(t *TargetConfig) string {
	var list []string
	for _, d := range t.Schedule {
		list = append(list, d.String())
	}
	if len(list) > 0 {
		return "after " + strings.Join(list, ", ")
	}
	return fmt.Sprintf("after %s, each pause %g times the one before, at most %s", t.Initial, t.Factor, t.Max)
}

// explain says what is known of a refusal.
func (g *Gateway) explain(r admin.Refusal) admin.Explanation {
	if g.opts.Words.Refusal == nil {
		return admin.Explanation{}
	}
	var row verify.Row
	if s, ok := g.gen.Load().cfg.Source(r.Source); ok {
		row = s.row
		if m, ok := s.mode(); ok { // the one in force comes first
			row.Modes = append([]verify.Mode{m}, slices.DeleteFunc(slices.Clone(row.Modes), func(x verify.Mode) bool { return x.Name == m.Name })...)
		}
	}
	return g.opts.Words.Refusal(r, row)
}

// reloaded keeps what came of a reload, for those who look later.
func (g *Gateway) reloaded(at time.Time, faults Faults, err error) {
	if err == nil {
		g.loaded.Store(&at)
		g.refused.Store(nil)
		return
	}
	if len(faults) == 0 {
		faults = Faults{{File: g.start.file, Problem: strings.TrimSpace(err.Error())}}
	}
	g.refused.Store(&tried{at, faults})
}
