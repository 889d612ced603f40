package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/gateway"
	"github.com/onceward/onceward/verify"
)

// keyFlags say with which secrets a provider is verified or signed for without a
// source. Secrets are named by where they are, never written on a command line.
type keyFlags struct {
	auth, secretEnv, secretFile, keyFile, publicURL string
	options                                         []string
}

func (k *keyFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&k.auth, "auth", "", "the `mode` of the provider; default its first")
	c.Flags().StringVar(&k.secretEnv, "secret-env", "", "environment `variable` that holds the secret")
	c.Flags().StringVar(&k.secretFile, "secret-file", "", "`file` that holds the secret")
	c.Flags().StringVar(&k.publicURL, "public-url", "", "the `URL` the provider was given, where it signs it")
	c.Flags().StringArrayVar(&k.options, "option", nil, "`name=value`: a setting of the provider, as in a source's options")
}

// given reports whether key material is named.
func (k *keyFlags) given() bool { return k.secretEnv != "" || k.secretFile != "" || k.keyFile != "" }

// config is what a verifier of the row is made from.
func (k *keyFlags) config(a *app, row verify.Row) (verify.Config, error) {
	cfg := verify.Config{Row: row, Auth: k.auth, PublicURL: k.publicURL, Options: map[string]string{}}
	for _, opt := range k.options {
		name, val, ok := strings.Cut(opt, "=")
		if !ok {
			return cfg, usage("--option %q: want name=value", opt)
		}
		cfg.Options[name] = val
	}
	if k.secretEnv != "" {
		val, ok := a.Env(k.secretEnv)
		if !ok || val == "" {
			return cfg, usage("--secret-env: %s is not set", k.secretEnv)
		}
		cfg.Secrets = append(cfg.Secrets, verify.Secret{ID: k.secretEnv, Value: verify.NewSecretString(val)})
	}
	for _, f := range []struct {
		file string
		to   *[]verify.Secret
	}{{k.secretFile, &cfg.Secrets}, {k.keyFile, &cfg.PublicKeys}} {
		if f.file == "" {
			continue
		}
		s, err := readSecret(f.file)
		if err != nil {
			return cfg, err
		}
		*f.to = append(*f.to, verify.Secret{ID: f.file, Value: s})
	}
	return cfg, nil
}

// readSecret reads a secret as the config's ${file:…} does: without the line end.
func readSecret(file string) (verify.SecretString, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return verify.SecretString{}, fmt.Errorf("read secret: %w", err)
	}
	s := strings.TrimSuffix(string(b), "\n")
	return verify.NewSecretString(strings.TrimSuffix(s, "\r")), nil
}

// provider finds a built-in provider, or one of the config where there is one that
// can be read.
func (a *app) provider(name string) (verify.Row, bool) {
	if row, ok := verify.Lookup(name); ok {
		return row, true
	}
	cfg, _, _, err := a.load(false)
	if err != nil {
		return verify.Row{}, false
	}
	row, ok := cfg.Provider(name)
	return row, ok && row.Validate() == nil
}

// verifier makes the verifier of a built-in provider with the keys that the flags
// name.
func (k *keyFlags) verifier(a *app, provider string) (*verify.Verifier, error) {
	row, ok := a.provider(provider)
	if !ok {
		return nil, noProvider(provider)
	}
	cfg, err := k.config(a, row)
	if err != nil {
		return nil, err
	}
	v, err := verify.New(cfg)
	if err != nil {
		return nil, usage("%w", err)
	}
	return v, nil
}

// sourceOf finds a source and a verifier that holds its secrets.
func (a *app) sourceOf(name string) (*gateway.Config, *gateway.SourceConfig, *verify.Verifier, error) {
	cfg, _, err := a.good()
	if err != nil {
		return nil, nil, nil, err
	}
	src, ok := cfg.Source(name)
	if !ok {
		return nil, nil, nil, fail(exitNotFound, "no source %q in %s; it has %s", name, cfg.File(), dash(strings.Join(sourceNames(cfg), ", ")))
	}
	if src.Verifier() == nil {
		return nil, nil, nil, fail(exitConfig, "source %s is offline: %s", src.Name, src.Offline())
	}
	return cfg, src, src.Verifier(), nil
}
