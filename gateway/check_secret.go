package gateway

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/onceward/onceward/verify"
)

// minSecret is the length below which a shared secret can be guessed.
const minSecret = 16

// referenceLike is a plain string that was meant as a reference: used as a
// secret it would be a secret that everyone can read in the file.
var referenceLike = regexp.MustCompile(`^(\$?\{?(env|file|secret|vault|cred):|\$[A-Za-z_{])`)

// secrets checks a list of secrets and returns those that are set; the others
// are the caller's to report.
func (c *checker) secrets(list []SecretConfig, n *node, shared bool) []verify.Secret {
	var out []verify.Secret
	seen := map[string]bool{}
	for i, s := range list {
		at := n.item(i)
		if v := at.get("value"); v != nil {
			at = v
		}
		if seen[s.ID] {
			c.rep.at(at, "there are two secrets with the label "+strconv.Quote(s.ID), "give each an id of its own")
			n.bad = true // what verify says of the list is the same
		}
		seen[s.ID] = true
		if s.unset {
			continue
		}
		if at.bad = !c.secret(at, s.Value, shared); !at.bad {
			out = append(out, verify.Secret{ID: s.ID, Value: s.Value, Caller: s.Caller, NotBefore: s.NotBefore, NotAfter: s.NotAfter})
		}
		if s.Caller != "" && !namePattern.MatchString(s.Caller) {
			c.rep.at(n.item(i).or("caller"), "caller "+strconv.Quote(s.Caller)+" is not allowed", "want the pattern of a source name")
		}
	}
	return out
}

// secret checks one value; shared says that who knows it can sign.
func (c *checker) secret(at *node, value verify.SecretString, shared bool) bool {
	v := value.Reveal()
	switch {
	case v == "":
		c.rep.at(at, "the secret is empty", "an empty secret would let everyone in")
		return false
	case !at.expanded && referenceLike.MatchString(v):
		c.rep.at(at, "the secret looks like a reference but would be used as it stands", "write ${env:NAME} or ${file:path}")
		return false
	case shared && strings.TrimSpace(v) != v:
		c.rep.at(at, "the secret begins or ends with white space", "remove it; one newline at the end of a file is removed already")
		return false
	}
	if shared && len(v) < minSecret {
		c.rep.warn(at, "the secret is shorter than "+strconv.Itoa(minSecret)+" bytes", "use a longer one if the provider lets you")
	}
	if shared && !at.expanded {
		c.rep.warn(at, "the secret stands in the file itself", "write ${env:NAME} or ${file:path}")
	}
	return true
}
