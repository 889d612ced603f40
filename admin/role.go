package admin

import (
	"errors"
	"fmt"
	"strings"
)

// Role says what a token may do. A higher role may do all that a lower one
// may; the zero value is no role and may do nothing.
type Role uint8

// The roles, the least first.
const (
	RoleViewer   Role = iota + 1 // sees states, headers and hashes, never a body
	RoleOperator                 // sees bodies too, and replays, cancels and pauses
	RoleAdmin                    // may also reload, check the ledger and export
)

var roleNames = [...]string{"none", "viewer", "operator", "admin"}

// String is the role's public name.
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return roleNames[0]
}

// RoleNames are the public names of all roles, the least first.
func RoleNames() []string { return append([]string(nil), roleNames[1:]...) }

// ParseRole reads a role's public name.
func ParseRole(name string) (Role, bool) {
	for i, n := range roleNames {
		if i > 0 && n == name {
			return Role(i), true
		}
	}
	return 0, false
}

// MarshalText writes the role's public name.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a public name.
func (r *Role) UnmarshalText(b []byte) error {
	v, ok := ParseRole(string(b))
	if !ok {
		return fmt.Errorf("role %q: want one of %s", b, strings.Join(RoleNames(), ", "))
	}
	*r = v
	return nil
}

// Token is one bearer token: who holds it, what it may do, and its SHA-256.
// The token itself is kept nowhere.
type Token struct {
	Name string
	Role Role
	Hash [32]byte
}

// Principal is who asks, by the token that was shown.
type Principal struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
}

// may reports whether the principal has at least this role.
func (p Principal) may(r Role) bool { return p.Role >= r }

// mainToken is the name of the token that the gateway makes for itself. It
// always has the role admin.
const mainToken = "admin"

// SetTokens replaces the tokens beside the gateway's own. Sessions of a token
// that is gone end with it. A token without a name, role or hash, or with the
// name or hash of another, is an error and changes nothing.
func (a *Admin) SetTokens(more []Token) error {
	all := append([]Token{(*a.tokens.Load())[0]}, more...)
	if err := checkTokens(all); err != nil {
		return fmt.Errorf("admin tokens: %w", err)
	}
	a.tokens.Store(&all)
	return nil
}

func checkTokens(all []Token) error {
	names, sums := map[string]bool{}, map[[32]byte]bool{HashToken(""): true, {}: true}
	for _, t := range all {
		switch {
		case t.Name == "" || t.Role < RoleViewer || t.Role > RoleAdmin:
			return errors.New("every token needs a name and a role")
		case names[t.Name]:
			return fmt.Errorf("two tokens are called %q", t.Name)
		case sums[t.Hash]:
			return fmt.Errorf("token %q is empty, or the same as another", t.Name)
		}
		names[t.Name], sums[t.Hash] = true, true
	}
	return nil
}
