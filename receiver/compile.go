package receiver

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

// The defaults of a Source.
const (
	defaultPatience    = 12500 * time.Millisecond
	maxAdmission       = 10 * time.Second
	defaultMaxElements = 1000
)

// generation is everything a request needs of one configuration. Immutable.
type generation struct {
	edge    http.Handler
	sources []*compiled
	byPath  map[string]*compiled // both forms of the path
	trusted []netip.Prefix
	sync    bool // one of the sources at least is synchronous
}

// compiled is a source with every default filled in and every list prepared.
type compiled struct {
	src      *Source
	name     string
	path     string
	provider string
	row      verify.Row
	verifier *verify.Verifier
	offline  string
	st       *state

	methods   []string // that bring events
	allowed   []string // and those of handshakes
	allow     string   // the Allow header
	encodings []string
	pass      []string // canonical header names, sorted
	show      map[string]bool
	keepBody  bool // refused bodies hold no credential by their form
	unsigned  bool // the mode verifies nothing
	fetches   bool // verification may wait for keys that are fetched

	window     time.Duration
	bodyWindow time.Duration // of claims on a body
	conflict   dedupe.Conflict
	noID       verify.NoID
	guard      dedupe.Guard
	keyed      bool // claims are by caller as well
	limit      int64
	admission  time.Duration // how long Accept may take
	elements   int
	keep       bool         // a batch goes on whole
	answer     answer       // to accepted events; zero is the standard one
	stored     event.Answer // the same, as it is kept for repeats
	refusal    answer
	notAllowed answer
	overload   int
	sync       *Sync // nil unless the source is synchronous; every default filled in
}

// compile prepares a generation, or says all that is wrong with it.
func (r *Receiver) compile(sources []*Source, trusted []netip.Prefix) (*generation, error) {
	gen := &generation{byPath: map[string]*compiled{}, trusted: trusted}
	names := map[string]bool{}
	var faults []error
	for _, s := range sources {
		c := compileSource(s)
		switch {
		case !validName(c.name):
			faults = append(faults, fmt.Errorf("source %q: a name is a-z, 0-9, _ and -, at most 63, and starts with a letter or digit", c.name))
		case names[c.name]:
			faults = append(faults, fmt.Errorf("source %q: the name is taken", c.name))
		case !validPath(c.path):
			faults = append(faults, fmt.Errorf("source %q: path %q: want /segments of letters, digits and -._~ without a trailing slash", c.name, c.path))
		case gen.byPath[c.path] != nil || c.path == livePath || c.path == readyPath:
			faults = append(faults, fmt.Errorf("source %q: path %q is taken", c.name, c.path))
		case c.sync != nil && (r.cfg.Keys == nil || r.cfg.Outbound == nil):
			faults = append(faults, fmt.Errorf("source %q: is synchronous and there is nothing to call with", c.name))
		}
		names[c.name] = true
		gen.byPath[c.path], gen.byPath[c.path+"/"] = c, c
		gen.sources = append(gen.sources, c)
		gen.sync = gen.sync || c.sync != nil
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	for _, c := range gen.sources {
		c.st = r.stateOf(c.name)
	}
	gen.edge = r.newEdge(gen)
	return gen, nil
}

func compileSource(s *Source) *compiled {
	c := &compiled{src: s, name: s.Name, path: s.Path, row: s.Row, verifier: s.Verifier, offline: s.Offline}
	if c.path == "" {
		c.path = "/in/" + c.name
	}
	if c.verifier != nil {
		c.row = c.verifier.Row()
		c.unsigned = modeIsNone(c.row, c.verifier.Mode())
		c.fetches = fetchesKeys(c.row, c.verifier.Mode())
	} else if c.offline == "" {
		c.offline = "no verifier"
	}
	c.provider = c.row.Name
	c.keyed = c.provider == dedupe.KeyedProvider
	c.compileMethods()
	c.compileHeaders()
	c.compilePolicies()
	c.compileAnswers()
	c.compileSync()
	return c
}

func modeIsNone(row verify.Row, mode string) bool {
	for _, m := range row.Modes {
		if m.Name == mode {
			return m.None
		}
	}
	return false
}

func fetchesKeys(row verify.Row, mode string) bool {
	for _, m := range row.Modes {
		if m.Name == mode {
			return m.PublicKey != nil && m.PublicKey.Keys != nil || m.JWT != nil && m.JWT.Keys != nil
		}
	}
	return false
}

func (c *compiled) compileMethods() {
	c.methods = c.row.Methods
	if len(c.methods) == 0 {
		c.methods = []string{http.MethodPost}
	}
	c.allowed = append(c.allowed, c.methods...)
	for _, h := range c.row.Handshake {
		if h.Method != "" && !contains(c.allowed, h.Method) {
			c.allowed = append(c.allowed, h.Method)
		}
	}
	c.allow = strings.Join(c.allowed, ", ")
	for _, e := range c.row.Encodings {
		c.encodings = append(c.encodings, strings.ToLower(e))
	}
}

func (c *compiled) compilePolicies() {
	s, row := c.src, &c.row
	c.window = firstOf(s.Window, time.Duration(row.Window), verify.DefaultWindow)
	c.bodyWindow = c.window
	if row.Retries > 0 {
		c.bodyWindow = min(c.window, max(time.Duration(row.Retries), time.Hour))
	}
	c.conflict = firstOf(s.Conflict, dedupe.Conflict(row.OnConflict), dedupe.ConflictDeliver)
	c.guard = s.Guard
	if c.guard == dedupe.GuardOff && c.verifier != nil && c.verifier.Guard() != verify.GuardOff {
		c.guard = dedupe.Guard(c.verifier.Guard())
	}
	c.noID = firstOf(s.NoID, row.NoID, verify.NoIDBodyHash)
	c.limit = firstOf(s.BodyLimit, row.BodyLimit, verify.DefaultBodyLimit)
	c.elements = firstOf(s.MaxElements, defaultMaxElements)
	c.keep = s.Batch == "keep" && row.Batch != nil
	// A fifth of the provider's patience is left for the way back.
	patience := firstOf(s.Patience, time.Duration(row.Patience), defaultPatience)
	c.admission = min(maxAdmission, patience-patience/5)
}

func firstOf[T comparable](vs ...T) T {
	var zero T
	for _, v := range vs {
		if v != zero {
			return v
		}
	}
	return zero
}

func validName(s string) bool {
	if len(s) == 0 || len(s) > 63 || s[0] == '_' || s[0] == '-' {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// validPath takes only bytes that are the same in every spelling of a URL and
// mean nothing to the router.
func validPath(p string) bool {
	if len(p) < 2 || len(p) > 512 || p[0] != '/' {
		return false
	}
	for _, seg := range strings.Split(p[1:], "/") {
		if seg == "" || seg == "." || seg == ".." {
			return false
		}
		for i := 0; i < len(seg); i++ {
			c := seg[i]
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0) {
				return false
			}
		}
	}
	return true
}
