package cli

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/gateway"
)

const adminTokenHelp = `
Makes a token for the admin listener and prints it, once, with the lines of the
config that let it in. The config holds only its hash, and the gateway keeps no
more: whoever loses the token needs a new one. It works after a reload, from the
command line with --token-file and in a browser.

  viewer    sees everything but bodies
  operator  sees bodies too, and replays, cancels and pauses
  admin     may also reload, check the ledger and export`

// tokenView is a new token: the field names are a contract.
type tokenView struct {
	Name  string `json:"name"`
	Role  string `json:"role"`
	Token string `json:"token"`
	Hash  string `json:"hash"`
}

func (a *app) adminCmd() *cobra.Command {
	var name, role string
	c := leaf("new", "Make a token, print it once", adminTokenHelp, cobra.NoArgs, func(_ context.Context, _ []string) error {
		if !gateway.ValidName(name) {
			return usage("--name %q: say whose token it is in a-z, 0-9, _ and -, as in --name oncall", name)
		}
		if _, ok := admin.ParseRole(role); !ok {
			return usage("--role %q: want viewer, operator or admin", role)
		}
		b := make([]byte, 32)
		_, _ = rand.Read(b) // never fails
		v := tokenView{Name: name, Role: role, Token: base64.RawURLEncoding.EncodeToString(b)}
		v.Hash = gateway.TokenHash(v.Token)
		return a.show(v, v.write)
	})
	c.Flags().StringVar(&name, "name", "", "whose token it is: the `name` that acts are recorded under")
	c.Flags().StringVar(&role, "role", "viewer", "what it may do: `role` viewer, operator or admin")
	return group("admin", "Look after access to the admin listener", group("token", "Tokens for people and programs", c))
}

func (v tokenView) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s\n\n# the line above is the token: it is shown this once. In the config:\n[[admin.token]]\nname = %q\nrole = %q\nhash = %q\n",
		v.Token, v.Name, v.Role, v.Hash)
	return err
}
