package gateway

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/verify"
)

// sources checks every source, and then that they don't stand in each
// other's way.
func (c *checker) sources() {
	seen, claimed := map[string]*node{}, map[string]*node{}
	for i := range c.cfg.Sources {
		c.name(c.cfg.tree.get("source").item(i), "source", c.cfg.Sources[i].Name, seen)
	}
	for i := range c.cfg.Sources {
		s, n := &c.cfg.Sources[i], c.cfg.tree.get("source").item(i)
		c.formerly(n, "source", s.Formerly, seen, claimed)
		c.sourcePath(s, n)
		c.sourceRoutes(s, n)
		c.sourceIndex(s, n)
		c.sourceRedact(s, n)
		if row, ok := c.sourceRow(s, n); ok {
			c.sourcePolicy(s, n, row)
			c.sourceVerifier(s, n, row)
		}
	}
	c.shadows()
}

// sourceRow finds the provider of a source and asks for the consents it needs.
func (c *checker) sourceRow(s *SourceConfig, n *node) (verify.Row, bool) {
	if s.Provider == "" {
		c.rep.at(n.or("provider"), "this source has no provider", `name one of "onceward providers list"; for unsigned traffic write provider = "none"`)
		return verify.Row{}, false
	}
	row, ok := c.cfg.Provider(s.Provider)
	if !ok {
		var names []string
		for _, r := range append(verify.Providers(), c.cfg.Providers...) {
			names = append(names, r.Name)
		}
		c.rep.at(n.or("provider"), "unknown provider "+strconv.Quote(s.Provider), meant(s.Provider, names, `"onceward providers list" shows all`))
		return verify.Row{}, false
	}
	if len(row.Unconfirmed) > 0 && !s.AcceptUnconfirmed {
		c.rep.at(n.or("provider"), "nobody has confirmed of "+row.Name+": "+strings.Join(row.Unconfirmed, ", "),
			"try it with a real event, then write accept_unconfirmed = true")
	}
	s.row = row
	return row, !c.faulty[row.Name]
}

// sourcePolicy checks what the source says over its row, and fills in what it
// doesn't say.
func (c *checker) sourcePolicy(s *SourceConfig, n *node, row verify.Row) {
	c.sync(s, n, row)
	if !s.Synchronous() {
		c.window(s, n, row)
	}
	policy := func(field *string, key, fromRow string, allowed ...string) {
		if n.get(key) == nil {
			*field = fromRow
			return
		}
		c.oneOf(n.get(key), key, *field, allowed...)
	}
	policy(&s.OnConflict, "on_conflict", orElse(string(row.OnConflict), "deliver"), "ack", "deliver", "reject")
	policy(&s.NoID, "no_id", orElse(string(row.NoID), "body-hash"), "body-hash", "deliver", "refuse")
	policy(&s.Guard, "guard", orElse(string(row.Guard), "off"), "off", "flag", "drop")
	policy(&s.Batch, "batch", "split", "split", "keep")
	if s.OnConflict == "reject" && row.Name != dedupe.KeyedProvider {
		c.rep.at(n.or("on_conflict"), "reject would refuse events of "+row.Name+" that it never sends again",
			`use "ack" or "deliver"; reject is for `+dedupe.KeyedProvider+" sources")
	}
	if s.Key != "" {
		if _, err := dedupe.ParseKeyTemplate(s.Key); err != nil {
			c.rep.at(n.or("key"), err.Error(), "")
		}
	}
	if s.MaxElements < 1 || s.MaxElements > maxElements {
		c.rep.at(n.or("max_elements"), "max_elements is out of bounds", "want 1 to "+strconv.Itoa(maxElements))
	}
	c.bodyLimit(s, n, row)
	c.whereBodies(s, n)
	c.between(n.get("tolerance"), "tolerance", s.Tolerance, time.Second, day)
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// window refuses to forget an ID while the provider may still resend it.
func (c *checker) window(s *SourceConfig, n *node, row verify.Row) {
	if n.get("window") == nil {
		s.Window = Duration(row.Window)
		// A row that states no window is remembered for a day beyond its resends.
		orDefault(&s.Window, max(verify.DefaultWindow, time.Duration(row.Retries)+day))
		return
	}
	if s.Window == 0 {
		c.rep.at(n.get("window"), "a window of 0 would recognise no repeat", `leave it out, or write one such as "72h"`)
		return
	}
	need := Duration(max(day, time.Duration(row.Retries)))
	if s.Window < need && !s.AllowShortWindow {
		c.rep.at(n.get("window"), "a window of "+s.Window.String()+" is shorter than "+row.Name+" resends events: "+need.String(),
			"a later resend would be delivered again; lengthen it, or write allow_short_window = true")
	}
	if s.Window > Duration(400*day) {
		c.rep.at(n.get("window"), "a window of "+s.Window.String()+" is too long", "want at most 400d")
	}
}

func (c *checker) bodyLimit(s *SourceConfig, n *node, row verify.Row) {
	if n.get("body_limit") == nil {
		if s.BodyLimit = Size(row.BodyLimit); s.BodyLimit == 0 {
			s.BodyLimit = verify.DefaultBodyLimit
		}
		return
	}
	if s.BodyLimit < 1 || s.BodyLimit > maxBody {
		c.rep.at(n.get("body_limit"), "a body limit of "+s.BodyLimit.String()+" is out of bounds", "want 1B to "+maxBody.String())
	} else if row.BodyLimit > int64(s.BodyLimit) {
		c.rep.warn(n.get("body_limit"), row.Name+" sends bodies of up to "+Size(row.BodyLimit).String(), "larger ones are refused and may never come again")
	}
}

// sourcePath checks where a source listens.
func (c *checker) sourcePath(s *SourceConfig, n *node) {
	if s.PublicURL != "" {
		u, err := url.Parse(s.PublicURL)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			c.rep.at(n.or("public_url"), "public_url is not usable", `want the URL as the provider has it, such as "https://hooks.example.com/in/twilio", without query`)
		}
	}
	if n.get("path") == nil {
		return
	}
	p, at := s.Path, n.get("path")
	s.Path = strings.TrimSuffix(p, "/")
	switch {
	case !strings.HasPrefix(p, "/") || s.Path == "":
		c.rep.at(at, "path "+shown(at)+" is not usable", `want an absolute path with at least one part, such as "/hooks/stripe"`)
	case strings.Contains(p, "//") || strings.Contains(p+"/", "/./") || strings.Contains(p+"/", "/../"):
		c.rep.at(at, "path "+shown(at)+" holds an empty part or dots", "write it as senders call it")
	case strings.Trim(p, pathCharacters) != "" || strings.ContainsFunc(p, func(r rune) bool { return !strings.ContainsRune(pathCharacters, r) }):
		c.rep.at(at, "path "+shown(at)+" holds a character that would be escaped", "want letters, digits and any of / - . _ ~")
	case slices.Contains(reserved, strings.SplitN(p[1:], "/", 2)[0]) && !strings.HasPrefix(p, "/in/"):
		c.rep.at(at, "path "+shown(at)+" is reserved", "choose another first part")
	}
}

const pathCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"

// shadows reports sources of which one listens below, or at, the path of
// another: the suffix after a source's path belongs to that source.
func (c *checker) shadows() {
	for i := range c.cfg.Sources {
		for j := range c.cfg.Sources[:i] {
			a, b := &c.cfg.Sources[j], &c.cfg.Sources[i]
			pa, pb := a.ListenPath()+"/", b.ListenPath()+"/"
			if a.Name == b.Name || !strings.HasPrefix(pa, pb) && !strings.HasPrefix(pb, pa) {
				continue
			}
			at := c.cfg.tree.get("source").item(i)
			c.rep.at(at.or("path"), "source "+strconv.Quote(b.Name)+" at "+b.ListenPath()+" and source "+strconv.Quote(a.Name)+" at "+
				a.ListenPath()+" shadow each other", "give one of them another path")
		}
	}
}

// sourceRoutes checks that every target is there.
func (c *checker) sourceRoutes(s *SourceConfig, n *node) {
	for i, t := range s.Targets {
		at := n.get("targets").item(i)
		c.target(at, t)
		if slices.Contains(s.Targets[:i], t) {
			c.rep.warn(at, "target "+strconv.Quote(t)+" is named twice", "an event has one delivery per target")
		}
	}
	for i, r := range s.Routes {
		at := n.get("route").item(i)
		c.target(at.or("target"), r.Target)
		for j, glob := range r.Types {
			if glob == "" {
				c.rep.at(at.get("types").item(j), "an empty type matches nothing", `want types such as "customer.*"`)
			}
		}
		c.where(&s.Routes[i], at.get("where"))
	}
	if n.get("targets") == nil && len(s.Routes) == 0 && !s.Synchronous() {
		c.rep.warn(n.or("name"), "events of this source go to no target", "they are kept and can be replayed later; write targets = [] if that is meant")
	}
}

func (c *checker) target(n *node, name string) {
	if _, ok := c.cfg.Target(name); ok {
		return
	}
	if name == "" {
		c.rep.at(n, "no target is named", `write target = "…"`)
		return
	}
	var names []string
	for _, t := range c.cfg.Targets {
		names = append(names, t.Name)
	}
	c.rep.at(n, "there is no target "+strconv.Quote(name), meant(name, names, "add a [[target]] of that name"))
}

// unset says loudly which secrets are not there, and what that means.
func (c *checker) unset(s *SourceConfig, n *node, remedy string) {
	for _, l := range []struct {
		key  string
		list []SecretConfig
	}{{"secrets", s.Secrets}, {"public_keys", s.PublicKeys}} {
		for i, sec := range l.list {
			if !sec.unset {
				continue
			}
			at := n.get(l.key).item(i)
			if v := at.get("value"); v != nil {
				at = v
			}
			c.rep.add(at, !c.strict, shown(at)+" is not set", remedy)
		}
	}
}
