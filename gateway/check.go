package gateway

import (
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// checker looks for what the types can't say: names, references between
// parts, bounds, and what a combination of values would do.
type checker struct {
	cfg    *Config
	rep    *report
	strict bool

	faulty map[string]bool // providers of the file that can't be used
}

// namePattern is what sources and targets may be called.
var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// reserved can't be source or target names: they are paths of our own, or
// words that stand for something in commands and filters.
var reserved = []string{"livez", "readyz", "healthz", "metrics", "api", "in", "all", "any", "none", "debug"}

func (c *checker) run() {
	c.listeners()
	c.tokens()
	c.store()
	c.rest()
	c.traces()
	c.audit()
	c.listenerTLS()
	c.providers()
	c.sources()
	c.targets()
	c.retention()
}

// fill sets the defaults that stand inside lists.
func (c *Config) fill() {
	r := &c.Retention
	orDefault(&r.Body, 30*day)
	orDefault(&r.Meta, 400*day)
	orDefault(&r.Audit, 400*day)
	c.Store.fill(c.tree.get("store"))
	c.Traces.fill(c.tree.get("traces"))
	if !c.Audit.Key.Value.Empty() {
		c.Audit.Key.ID = "audit"
	}
	if c.TLS.Cert != "" && c.tree.get("listen") == nil {
		c.Listen = DefaultSecureListen
	}
	for i := range c.Sources {
		label(c.Sources[i].Secrets)
		label(c.Sources[i].PublicKeys)
		if c.Sources[i].MaxElements == 0 {
			c.Sources[i].MaxElements = maxElements
		}
	}
	for i := range c.Targets {
		t := &c.Targets[i]
		label(t.SigningSecrets)
		for name, v := range t.Headers {
			v.ID = name
			t.Headers[name] = v
		}
		t.Auth.label()
		if t.PullToken.unset || !t.PullToken.Value.Empty() {
			t.PullToken.ID = "pull_token"
		}
		t.fillDelivery()
	}
}

func orDefault(d *Duration, v time.Duration) {
	if *d == 0 {
		*d = Duration(v)
	}
}

// label numbers the secrets that have no label of their own.
func label(secrets []SecretConfig) {
	for i := range secrets {
		if secrets[i].ID == "" {
			secrets[i].ID = strconv.Itoa(i + 1)
		}
	}
}

// checkUnset reports references to what is not there, but for those that
// only take a source offline.
func checkUnset(n *node, rep *report) {
	for _, k := range n.keys {
		checkUnset(n.table[k], rep)
	}
	for _, el := range n.list {
		checkUnset(el, rep)
	}
	if len(n.unset) == 0 || sourceSecret.MatchString(n.path) {
		return
	}
	for _, ref := range n.unset {
		rep.at(n, "${"+ref+"} is not set", unsetRemedy(ref))
	}
}

// sourceSecret matches the paths at which a missing value takes the source
// offline.
var sourceSecret = regexp.MustCompile(`^source\[\d+\]\.(secrets|public_keys)\[\d+\](\.value)?$`)

func unsetRemedy(ref string) string {
	if name, ok := strings.CutPrefix(ref, "env:"); ok {
		return "set " + name + " in the environment, or write ${env:" + name + ":-default}"
	}
	return "make the file, or name another"
}

// listeners checks both addresses, and that they differ.
func (c *checker) listeners() {
	ingest, ok1 := c.address(c.cfg.tree.get("listen"), c.cfg.Listen)
	admin, ok2 := c.address(c.cfg.tree.get("admin", "listen"), c.cfg.Admin.Listen)
	at := c.cfg.tree.or("admin").or("listen")
	if ok1 && ok2 && sameSocket(ingest, admin) {
		c.rep.at(at, "both listeners are on "+c.cfg.Listen, "give the admin listener a port of its own")
		return
	}
	if ok2 && !loopback(admin.host) {
		c.rep.warn(at, "the admin listener is reachable from other machines", "its token is the only guard; bind it to 127.0.0.1 unless that is meant")
	}
	for i, h := range c.cfg.Admin.Hosts {
		if h == "" || strings.ContainsAny(h, " /:@*") {
			c.rep.at(c.cfg.tree.get("admin", "hosts").item(i), "is not a host name", "want names without scheme and port")
		}
	}
}

type address struct{ host, port string }

func (c *checker) address(n *node, s string) (address, bool) {
	if n == nil {
		n = c.cfg.tree
	}
	host, port, err := net.SplitHostPort(s)
	if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
		c.rep.at(n, strconv.Quote(s)+" is not an address", `want host:port, such as "127.0.0.1:8080", or ":8080" for every interface`)
		return address{}, false
	}
	return address{host, port}, true
}

// sameSocket reports whether two listeners would collide. Port 0 is a new
// port each time.
func sameSocket(a, b address) bool {
	if a.port != b.port || a.port == "0" {
		return false
	}
	return a.host == b.host || everywhere(a.host) || everywhere(b.host) || loopback(a.host) && loopback(b.host)
}

func everywhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

const (
	minMemory   = Size(64 << 20)
	maxElements = 1000
	maxBody     = Size(64 << 20)
	minBodySize = Size(1 << 20)
	pauseBound  = 14 * day // how long an operator's pause stops the give-up clock
)

// rest checks the log, the stop, and the proxies.
func (c *checker) rest() {
	t := c.cfg.tree
	c.oneOf(t.or("log").or("level"), "level", c.cfg.Log.Level, "debug", "info", "warn", "error")
	c.oneOf(t.or("log").or("format"), "format", c.cfg.Log.Format, "auto", "text", "json")
	c.between(t.get("drain"), "drain", c.cfg.Drain, time.Second, time.Hour)
	c.between(t.get("readiness_delay"), "readiness_delay", c.cfg.ReadinessDelay, 0, 5*time.Minute)
	for i, p := range c.cfg.TrustedProxies {
		if p.IsValid() && p.Bits() == 0 {
			c.rep.warn(t.get("trusted_proxies").item(i), "everyone is a trusted proxy", "any sender can then choose the URL and address that are believed")
		}
	}
}

// oneOf reports a word outside a closed set. An empty word is the default,
// which the caller allows by leaving the key out.
func (c *checker) oneOf(n *node, what, got string, allowed ...string) bool {
	if slices.Contains(allowed, got) {
		return true
	}
	c.rep.at(n, "unknown "+what+" "+strconv.Quote(got), meant(got, allowed, "want one of "+strings.Join(allowed, ", ")))
	n.bad = true
	return false
}

// between reports a duration that was written and is out of bounds.
func (c *checker) between(n *node, what string, d Duration, least, most time.Duration) {
	if n == nil || time.Duration(d) >= least && time.Duration(d) <= most {
		return
	}
	c.rep.at(n, what+" = "+strconv.Quote(d.String())+" is out of bounds",
		"want "+Duration(least).String()+" to "+Duration(most).String())
}

// name checks one name of a list and that no earlier one is the same.
func (c *checker) name(n *node, what, name string, seen map[string]*node) {
	at := n.or("name")
	switch first := seen[name]; {
	case name == "":
		c.rep.at(at, "this "+what+" has no name", `write name = "…"`)
		return
	case !namePattern.MatchString(name):
		c.rep.at(at, what+" name "+strconv.Quote(name)+" is not allowed", "want 1 to 63 of a-z, 0-9, _ and -, not starting with _ or -")
	case slices.Contains(reserved, name):
		c.rep.at(at, what+" name "+strconv.Quote(name)+" is reserved", "choose another")
	case first != nil:
		c.rep.at(at, "there is another "+what+" "+strconv.Quote(name)+" in line "+strconv.Itoa(first.line), "names are identities; choose another")
		return
	}
	seen[name] = at
}

// formerly checks old names: no present name, and claimed once.
func (c *checker) formerly(n *node, what string, old []string, present, claimed map[string]*node) {
	for i, name := range old {
		at := n.get("formerly").item(i)
		switch {
		case !namePattern.MatchString(name):
			c.rep.at(at, strconv.Quote(name)+" can't have been a "+what+" name", "remove it")
		case present[name] != nil:
			c.rep.at(at, strconv.Quote(name)+" is a "+what+" now", "a name has one owner; remove it here or rename that "+what)
		case claimed[name] != nil:
			c.rep.at(at, strconv.Quote(name)+" is taken over in line "+strconv.Itoa(claimed[name].line)+" already", "a name has one heir")
		default:
			claimed[name] = at
		}
	}
}

// retention warns where bytes would go before the last try: the ledger then
// carries the event, which costs disk.
func (c *checker) retention() {
	c.bodySizes()
	byName := map[string]Duration{}
	for i := range c.cfg.Targets {
		byName[c.cfg.Targets[i].Name] = c.cfg.Targets[i].GiveUpAfter
	}
	for i := range c.cfg.Sources {
		s := &c.cfg.Sources[i]
		n := c.cfg.tree.get("source").item(i)
		if s.Synchronous() {
			continue // it stores no events
		}
		keep := s.Retention.over(c.cfg.Retention)
		for _, t := range s.targetNames() {
			need := time.Duration(byName[t]) + pauseBound
			if shortest := min(keep.Body, keep.Meta); byName[t] != 0 && shortest < need {
				c.rep.warn(n.or("retention"), "events are kept "+Duration(shortest).String()+", but target "+strconv.Quote(t)+
					" may take "+Duration(need).String(), "open events are carried over, at the cost of disk; keep them longer or give up sooner")
				break
			}
		}
		if keep.Body > keep.Meta {
			c.rep.warn(n.or("retention"), "bodies are kept longer than the events they belong to", "make meta at least as long as body")
		}
	}
}

// maxBodySizes is how many sources may have a body size of their own. The
// ledger keeps their bodies apart and has room for so many.
const maxBodySizes = 128

func (c *checker) bodySizes() {
	if at := c.cfg.tree.get("retention", "body_size"); at != nil {
		c.rep.at(at, "body_size is a source's own", "write it in the [source.retention] of that source, or body_size in [store] for all together")
	}
	n := 0
	for i := range c.cfg.Sources {
		at := c.cfg.tree.get("source").item(i).get("retention", "body_size")
		if at == nil || at.bad {
			continue
		}
		n++
		switch size := c.cfg.Sources[i].Retention.BodySize; {
		case size < minBodySize:
			c.rep.at(at, "a body size of "+size.String()+" is too small", "want at least "+minBodySize.String()+", or remove it for no limit")
		case c.cfg.Store.Driver == driverPostgres:
			c.rep.at(at, "body_size means nothing to the postgres driver", "remove it; bodies go by their age")
		case n == maxBodySizes+1:
			c.rep.at(at, "more than "+strconv.Itoa(maxBodySizes)+" sources have a body size of their own", "use body_size in [store] for the others")
		}
	}
}

// targetNames is every target of the source, each once.
func (s *SourceConfig) targetNames() []string {
	names := slices.Clone(s.Targets)
	for _, r := range s.Routes {
		names = append(names, r.Target)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
