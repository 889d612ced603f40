package gateway

import (
	"net/url"
	"strings"

	"github.com/onceward/onceward/audit"
)

// AuditConfig is the account's transparency log.
type AuditConfig struct {
	// Key signs checkpoints, as a gateway makes it. Default: audit.key inside
	// the store's directory, made at the first start. Not reloadable. A lost key
	// can be replaced: what it signed still verifies with its public key.
	Key SecretConfig `toml:"key,omitzero"`
	// Witness is a file, relative to the config file's directory, or an http or
	// https URL, that gets every checkpoint. Default none: a tail that was cut
	// off can't be seen then. Not reloadable.
	Witness string `toml:"witness,omitzero"`
}

// auditKeyFile is where the key is kept that no config gives.
const auditKeyFile = "audit.key"

// audit checks the key and the witness.
func (c *checker) audit() {
	a, n := &c.cfg.Audit, c.cfg.tree.or("audit")
	if key := n.get("key"); key != nil && !key.bad && !a.Key.unset {
		at := key.or("value")
		if !at.expanded {
			c.rep.warn(at, "the key stands in the file itself", "write ${env:NAME} or ${file:path}")
		}
		if _, err := audit.ParseKey(a.Key.Value.Reveal()); err != nil {
			c.rep.at(at, "is no audit key", err.Error())
		}
	}
	if w := n.get("witness"); w != nil && !w.bad && len(w.unset) == 0 {
		c.witness(a.Witness, w)
	}
}

func (c *checker) witness(witness string, n *node) {
	if witness == "" {
		c.rep.at(n, "the witness is empty", "name a file or a URL, or leave it out")
		return
	}
	if !strings.Contains(witness, "://") {
		return
	}
	u, err := url.Parse(witness)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		c.rep.at(n, "the witness is no URL that can be posted to", "want http:// or https:// and a host, or the path of a file")
	}
}

// witness is where checkpoints are copied to, nil for nowhere.
func (c *Config) witness() audit.Witness {
	switch w := c.Audit.Witness; {
	case w == "":
		return nil
	case strings.Contains(w, "://"):
		return audit.URLWitness{URL: w}
	default:
		return audit.FileWitness{Path: c.path(w)}
	}
}

// shownWitness is the witness without what may be a credential.
func shownWitness(w string) string {
	u, err := url.Parse(w)
	if err != nil || u.Host == "" || !strings.Contains(w, "://") {
		return w
	}
	return u.Scheme + "://" + u.Host
}
