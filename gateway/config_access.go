package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/onceward/onceward/admin"
)

// TokenConfig is one further token for the admin listener.
type TokenConfig struct {
	// Name says whose it is; acts are recorded under it. [a-z0-9][a-z0-9_-]{0,62}
	// and not "admin", which is the token of token_file. Required.
	Name string `toml:"name"`
	// Role is "viewer", "operator" or "admin". Required.
	Role string `toml:"role"`
	// Hash is "sha256:" and the SHA-256 of the token in hexadecimal, as
	// `onceward admin token new` prints it. Either hash or file is required.
	Hash string `toml:"hash,omitzero"`
	// File holds the token itself, in one line. It is read at the start and at
	// each reload.
	File string `toml:"file,omitzero"`

	sum [sha256.Size]byte
}

// tokenHashPrefix stands before the hash of a token in the file.
const tokenHashPrefix = "sha256:"

// TokenHash is how the file says the hash of a token.
func TokenHash(token string) string {
	sum := admin.HashToken(token)
	return tokenHashPrefix + hex.EncodeToString(sum[:])
}

// ValidName reports whether a source, target or token may be called this.
func ValidName(name string) bool { return namePattern.MatchString(name) }

// tokens checks the further tokens, and works out their hashes.
func (c *checker) tokens() {
	seen, sums := map[string]*node{}, map[[sha256.Size]byte]*node{}
	list := c.cfg.tree.get("admin", "token")
	for i := range c.cfg.Admin.Tokens {
		t, n := &c.cfg.Admin.Tokens[i], list.item(i)
		c.name(n, "token", t.Name, seen)
		if t.Name == adminTokenName {
			c.rep.at(n.or("name"), `"admin" is the token of token_file`, "choose another name")
		}
		if t.Role == "" {
			c.rep.at(n, "this token has no role", `write role = "viewer", "operator" or "admin"`)
		} else {
			c.oneOf(n.or("role"), "role", t.Role, admin.RoleNames()...)
		}
		if !c.tokenSum(t, n) {
			continue
		}
		if first := sums[t.sum]; first != nil {
			c.rep.at(n, "is the same token as in line "+strconv.Itoa(first.line), "give each its own")
		}
		sums[t.sum] = n
	}
}

// adminTokenName is the name of the token that the gateway makes for itself.
const adminTokenName = "admin"

// tokenSum fills in the hash of a token, false when that can't be had.
func (c *checker) tokenSum(t *TokenConfig, n *node) bool {
	switch {
	case (t.Hash == "") == (t.File == ""):
		c.rep.at(n, "want either hash or file", "`onceward admin token new` prints a token and its hash")
		return false
	case t.Hash != "":
		b, err := hex.DecodeString(strings.TrimPrefix(t.Hash, tokenHashPrefix))
		if err != nil || len(b) != len(t.sum) || !strings.HasPrefix(t.Hash, tokenHashPrefix) {
			c.rep.at(n.or("hash"), "is not the hash of a token", `want "sha256:" and 64 hexadecimal digits; the token itself belongs in no config`)
			return false
		}
		t.sum = [sha256.Size]byte(b)
		return true
	}
	token, err := admin.ReadToken(c.cfg.path(t.File))
	switch {
	case err != nil:
		c.rep.at(n.or("file"), err.Error(), "want one line of at least "+strconv.Itoa(minToken)+" characters")
		return false
	case len(token) < minToken:
		c.rep.at(n.or("file"), "holds a token shorter than "+strconv.Itoa(minToken)+" characters", "`onceward admin token new` makes one")
		return false
	}
	c.rep.hide(token, "file:"+t.File)
	t.sum = admin.HashToken(token)
	return true
}

// adminTokens are the further tokens as the listener takes them.
func (c *Config) adminTokens() []admin.Token {
	var out []admin.Token
	for _, t := range c.Admin.Tokens {
		role, _ := admin.ParseRole(t.Role)
		out = append(out, admin.Token{Name: t.Name, Role: role, Hash: t.sum})
	}
	return out
}

// shortHash is what is printed of a token's hash: enough to tell two apart.
func shortHash(hash string) string {
	const shown = 8
	if len(hash) <= len(tokenHashPrefix)+shown {
		return hash
	}
	return hash[:len(tokenHashPrefix)+shown] + "…"
}
