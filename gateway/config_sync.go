package gateway

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/receiver"
	"github.com/onceward/onceward/verify"
)

// SyncConfig is what a source says when its callers wait for the target's own
// answer. All of it means nothing without mode = "sync".
type SyncConfig struct {
	// Mode is "events" (the default: an event is stored, answered, and
	// forwarded later) or "sync": the request is forwarded to the one target
	// while its caller waits, and its effect happens once for each key.
	Mode string `toml:"mode,omitzero"`
	// RequireKey refuses requests without a key. Default: they pass once.
	RequireKey bool `toml:"require_key,omitzero"`
	// Wait is how long a repeat waits for the answer of the first request that
	// is still under way; without patience it gets 409. Default "0s", for
	// providers what they wait, at most "5m".
	Wait Duration `toml:"wait,omitzero"`
	// Methods take part; all others pass. Default POST and PATCH; PUT and
	// DELETE may be added.
	Methods []string `toml:"methods,omitzero"`
	// ReleaseOn are statuses with which the target says that it did nothing, so
	// that the key is free again. Default 425 and 429.
	ReleaseOn []int `toml:"release_on,omitzero"`
	// MaxResponse is how much of an answer is held in memory. Default "1MiB",
	// "64KiB" to "8MiB". A larger one is spooled to the ledger.
	MaxResponse Size `toml:"max_response,omitzero"`
	// MaxSpool is how large an answer may be. Default "32MiB", at most "256MiB".
	MaxSpool Size `toml:"max_spool,omitzero"`
	// RetryWindow is how long callers send the same request again. Default: the
	// provider's. A window below it is a warning.
	RetryWindow Duration `toml:"retry_window,omitzero"`
	// PassHeaders and AnswerHeaders add to the headers that pass to the target
	// and back.
	PassHeaders   []string `toml:"pass_headers,omitzero"`
	AnswerHeaders []string `toml:"answer_headers,omitzero"`
}

// The modes of a source.
const (
	modeEvents = "events"
	modeSync   = "sync"
)

// DefaultSyncWindow is how long a key of a synchronous route is remembered.
const DefaultSyncWindow = 24 * time.Hour

// The bounds of SyncConfig.
const (
	minSyncWindow = Duration(time.Hour)
	maxWait       = 5 * time.Minute
	minResponse   = Size(dedupe.MaxInline)
	maxResponse   = Size(8 << 20)
	maxSpool      = Size(256 << 20)
)

// syncKeys are the keys of a source that mean nothing outside mode = "sync",
// eventKeys those that mean nothing inside it.
var (
	syncKeys  = []string{"require_key", "wait", "methods", "release_on", "max_response", "max_spool", "retry_window", "pass_headers", "answer_headers"}
	eventKeys = []string{"on_conflict", "no_id", "guard", "batch", "max_elements", "route", "retention", "allow_short_window", "index", "store_body", "redact"}
)

// Synchronous reports whether the source's callers wait for the target.
func (s *SourceConfig) Synchronous() bool { return s.Mode == modeSync }

// sync checks what makes a source synchronous.
func (c *checker) sync(s *SourceConfig, n *node, row verify.Row) {
	if n.get("mode") != nil && !c.oneOf(n.get("mode"), "mode", s.Mode, modeEvents, modeSync) {
		return
	}
	if !s.Synchronous() {
		c.meaningless(n, syncKeys, `without mode = "sync"`, `remove it, or write mode = "sync"`)
		return
	}
	c.meaningless(n, eventKeys, "on a synchronous source", "remove it")
	if t := s.Targets; len(t) != 1 {
		c.rep.at(n.or("targets"), "a synchronous source has "+strconv.Itoa(len(t))+" targets", "its answer is one target's: name one")
	}
	if strings.Contains(s.Key, "{ref}") {
		c.rep.at(n.or("key"), "the key template names {ref}, which a synchronous source doesn't have", "use {source}, {caller}, {id} and {hash}")
	}
	c.syncWindow(s, n, row)
	c.syncMethods(s, n, row)
	c.syncSizes(s, n)
	c.syncStatuses(s, n)
	c.syncHeaders(n.get("pass_headers"), s.PassHeaders)
	c.syncHeaders(n.get("answer_headers"), s.AnswerHeaders)
	c.between(n.get("wait"), "wait", s.Wait, 0, maxWait)
	if n.get("wait") == nil && row.Name != dedupe.KeyedProvider {
		s.Wait = Duration(row.Patience - row.Patience/5)
	}
}

func (c *checker) meaningless(n *node, keys []string, where, remedy string) {
	for _, k := range keys {
		if at := n.get(k); at != nil {
			c.rep.at(at, k+" means nothing "+where, remedy)
		}
	}
}

// syncWindow checks how long a key is remembered.
func (c *checker) syncWindow(s *SourceConfig, n *node, row verify.Row) {
	if n.get("window") == nil {
		s.Window = Duration(DefaultSyncWindow)
	}
	if s.Window < minSyncWindow || s.Window > Duration(400*day) {
		c.rep.at(n.or("window"), "a window of "+s.Window.String()+" is out of bounds", "want "+minSyncWindow.String()+" to 400d")
		return
	}
	if n.get("retry_window") == nil {
		s.RetryWindow = Duration(row.Retries)
	}
	if s.Window < s.RetryWindow {
		at := n.get("window")
		if at == nil {
			at = n.or("name")
		}
		c.rep.warn(at, "keys are remembered for "+s.Window.String()+", and callers send again for "+s.RetryWindow.String(),
			"a later repeat would be executed again; lengthen the window")
	}
}

// stateMethods change state. Which of them take part is the source's choice.
var stateMethods = []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}

func (c *checker) syncMethods(s *SourceConfig, n *node, row verify.Row) {
	if n.get("methods") != nil && len(s.Methods) == 0 {
		c.rep.at(n.get("methods"), "no method takes part", "then nothing is deduplicated; leave it out for POST and PATCH")
	}
	for i, m := range s.Methods {
		if !slices.Contains(stateMethods, m) {
			c.rep.at(n.get("methods").item(i), "method "+strconv.Quote(m)+" can't take part", "want POST, PATCH, PUT or DELETE")
		} else if len(row.Methods) > 0 && !slices.Contains(row.Methods, m) {
			c.rep.at(n.get("methods").item(i), row.Name+" sends no "+m, "it sends "+strings.Join(row.Methods, ", "))
		}
	}
}

func (c *checker) syncSizes(s *SourceConfig, n *node) {
	if n.get("max_response") == nil {
		s.MaxResponse = receiver.DefaultMaxResponse
	}
	if n.get("max_spool") == nil {
		s.MaxSpool = max(receiver.DefaultMaxSpool, s.MaxResponse)
	}
	if s.MaxResponse < minResponse || s.MaxResponse > maxResponse {
		c.rep.at(n.or("max_response"), "max_response of "+s.MaxResponse.String()+" is out of bounds",
			"want "+minResponse.String()+" to "+maxResponse.String()+"; max_spool bounds larger answers")
	}
	if s.MaxSpool < s.MaxResponse || s.MaxSpool > maxSpool {
		c.rep.at(n.or("max_spool"), "max_spool of "+s.MaxSpool.String()+" is out of bounds", "want max_response to "+maxSpool.String())
	}
}

// syncStatuses warns of statuses that can follow an execution.
func (c *checker) syncStatuses(s *SourceConfig, n *node) {
	t, _ := c.cfg.Target(first(s.Targets))
	for i, status := range s.ReleaseOn {
		at := n.get("release_on").item(i)
		switch {
		case status < 400 || status > 599:
			c.rep.at(at, strconv.Itoa(status)+" doesn't say that nothing was executed", "want 400 to 599")
		case (status == http.StatusRequestTimeout || status >= 500) && (t == nil || !t.Idempotent):
			c.rep.warn(at, strconv.Itoa(status)+" can follow an execution", "the operation would then be executed again; leave it out, or write idempotent = true at a target that executes a key once")
		}
	}
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

func (c *checker) syncHeaders(n *node, names []string) {
	for i, name := range names {
		lower := strings.ToLower(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name) || strings.Contains(name, "_"):
			c.rep.at(n.item(i), "is not a header name", "want letters, digits and -")
		case strings.HasPrefix(lower, "onceward-") || lower == "authorization" || lower == "set-cookie" || slices.Contains(ownHeaders, lower):
			c.rep.at(n.item(i), "header "+strconv.Quote(name)+" never passes", "remove it")
		}
	}
}

// idempotent warns where the word has no effect.
func (c *checker) idempotent(t *TargetConfig, n *node) {
	if !t.Idempotent {
		return
	}
	if !slices.ContainsFunc(c.cfg.Sources, func(s SourceConfig) bool { return s.Synchronous() && slices.Contains(s.Targets, t.Name) }) {
		c.rep.warn(n.or("idempotent"), "no synchronous source sends to target "+strconv.Quote(t.Name), `idempotent is for mode = "sync"; remove it`)
	}
}

// sync is the source as the receiver takes it, nil for one of events.
func (s *SourceConfig) sync(cfg *Config) *receiver.Sync {
	if !s.Synchronous() {
		return nil
	}
	t, _ := cfg.Target(first(s.Targets))
	return &receiver.Sync{
		Target: first(s.Targets), RequireKey: s.RequireKey, Wait: time.Duration(s.Wait), Methods: s.Methods, ReleaseOn: s.ReleaseOn,
		Idempotent: t != nil && t.Idempotent, MaxResponse: int64(s.MaxResponse), MaxSpool: int64(s.MaxSpool),
		PassHeaders: s.PassHeaders, AnswerHeaders: s.AnswerHeaders,
	}
}
