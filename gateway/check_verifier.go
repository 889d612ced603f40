package gateway

import (
	"crypto/x509"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/verify"
)

// sourceVerifier builds the verifier as the gateway will, so that all of its
// faults are known before anything is served.
func (c *checker) sourceVerifier(s *SourceConfig, n *node, row verify.Row) {
	secrets := c.secrets(s.Secrets, n.get("secrets"), true)
	keys := c.secrets(s.PublicKeys, n.get("public_keys"), false)
	s.made = verify.Config{
		Row: row, Auth: s.Auth, Secrets: secrets, PublicKeys: keys, PublicURL: s.PublicURL, Options: s.Options, Roots: c.roots(s, n),
		Batch: s.Batch, MaxBatch: s.MaxElements + 1, Tolerance: time.Duration(s.Tolerance), Guard: verify.Guard(s.Guard),
	}
	c.registration(s, n, row)
	made, captured, err := s.verifierConfig(c.cfg)
	if err != nil {
		c.rep.at(n.or("name"), err.Error(), "make it readable for the gateway's user, or remove it and register again")
		return
	}
	if captured != "" && s.Registration != "" {
		c.rep.warn(n.get("registration"), "a secret was handed over already and is used: "+captured, "remove this line; to register anew, remove that file")
	}
	v, err := verify.New(made)
	if err != nil {
		for _, e := range each(err) {
			c.rep.at(verifierPlace(n, e.Error()), e.Error(), `"onceward providers show `+row.Name+`" says what it takes`)
		}
		return
	}
	s.Auth = v.Mode()
	c.missingOptions(s, n, v.Row())
	c.settle(s, n, v, len(s.Secrets)+len(s.PublicKeys))
}

// settle takes the verifier, or says why the source has none; given counts
// the secrets that the file names.
func (c *checker) settle(s *SourceConfig, n *node, v *verify.Verifier, given int) {
	switch {
	case !v.Offline():
		s.verifier = v
		c.unset(s, n, "the other secrets are used without it")
	case given == 0 && hands(s.row) && c.cfg.Shared():
		if s.Registration == "" { // else that line was reported
			c.rep.at(n.or("provider"), "this source has nothing to verify with", `write secrets = ["${env:NAME}"]; docs/scale.md says how to have `+s.row.Name+" hand its secret over")
		}
	case given == 0 && hands(s.row):
		c.rep.at(n.or("provider"), "this source has nothing to verify with", `write registration = "pending" while `+s.row.Name+` is to hand its secret over, or secrets = ["${env:NAME}"]`)
	case given == 0:
		c.rep.at(n.or("provider"), "this source has nothing to verify with", `write secrets = ["${env:NAME}"]; unsigned traffic needs provider = "none"`)
	default:
		s.offline = "none of its secrets is set"
		c.unset(s, n, "until then source "+strconv.Quote(s.Name)+" is offline and answers 503; set it")
	}
}

// registration checks whether a secret may be taken from a request.
func (c *checker) registration(s *SourceConfig, n *node, row verify.Row) {
	for _, h := range row.Handshake {
		if h.Capture != "" && s.Options[h.Pending] != "" {
			c.rep.at(n.get("options").or(h.Pending), "option "+h.Pending+" is set by the gateway", `write registration = "pending" in its place`)
		}
	}
	if n.get("registration") == nil || !c.oneOf(n.get("registration"), "registration", s.Registration, registrationPending) {
		return
	}
	if !hands(row) {
		c.rep.at(n.get("registration"), row.Name+" hands over no secret", `remove it, and write secrets = ["${env:NAME}"]`)
		return
	}
	if c.cfg.Shared() {
		c.rep.at(n.get("registration"), "a secret that "+row.Name+" hands over would be known to one gateway alone",
			`register with a gateway of driver "badger", then write its captured/`+s.Name+`.secret here: secrets = ["${file:path}"]`)
	}
}

// roots reads the certificates of a source.
func (c *checker) roots(s *SourceConfig, n *node) *x509.CertPool {
	if n.get("roots") == nil {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(s.Roots)) {
		c.rep.at(n.get("roots"), "roots hold no certificate", `want PEM, such as "${file:roots.pem}"`)
	}
	return pool
}

// missingOptions warns of handshakes that fail because nothing says what to
// compare with.
func (c *checker) missingOptions(s *SourceConfig, n *node, row verify.Row) {
	for _, h := range row.Handshake {
		for _, cmp := range h.Compare {
			_, option, _ := strings.Cut(cmp, "=")
			if option != "secret" && s.Options[option] == "" && (h.Pending == "" || s.Options[h.Pending] == "true") {
				c.rep.warn(n.or("options"), "the handshake "+strconv.Quote(h.Name)+" of "+row.Name+" fails without option "+option,
					"write options = { "+option+" = \"…\" }")
			}
		}
	}
}

// each is the parts of a joined error, each with what stands before all of
// them.
func each(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range j.Unwrap() {
			all = append(all, each(e)...)
		}
		return all
	}
	inner := errors.Unwrap(err)
	if inner == nil {
		return []error{err}
	}
	parts := each(inner)
	before, ok := strings.CutSuffix(err.Error(), inner.Error())
	if !ok || len(parts) < 2 {
		return []error{err}
	}
	for i, p := range parts {
		parts[i] = errors.New(before + p.Error())
	}
	return parts
}

// verifierPlace guesses from its words which key a fault of verify is about.
func verifierPlace(n *node, text string) *node {
	for _, k := range []struct{ word, key string }{
		{"option", "options"}, {"public key", "public_keys"}, {"secret", "secrets"}, {"mode", "auth"}, {"auth", "auth"},
		{"batch", "batch"}, {"tolerance", "tolerance"}, {"guard", "guard"}, {"public URL", "public_url"},
	} {
		if strings.Contains(text, k.word) && n.get(k.key) != nil {
			return n.get(k.key)
		}
	}
	return n.or("provider")
}

// hands reports whether the provider hands over a secret.
func hands(row verify.Row) bool {
	return slices.ContainsFunc(row.Handshake, func(h verify.Handshake) bool { return h.Capture != "" })
}
