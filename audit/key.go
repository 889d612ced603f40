package audit

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// keyName is the name that signatures of checkpoints carry.
const keyName = "onceward-audit"

// Key signs checkpoints. It does not print what it holds.
type Key struct {
	signer   note.Signer
	verifier string
}

// GenerateKey makes a key and its private form, which ParseKey reads.
func GenerateKey() (*Key, string, error) {
	private, _, err := note.GenerateKey(rand.Reader, keyName)
	if err != nil {
		return nil, "", fmt.Errorf("make audit key: %w", err)
	}
	k, err := ParseKey(private)
	return k, private, err
}

var errKey = errors.New(`want a private key as a gateway makes it, "PRIVATE+KEY+onceward-audit+…"`)

// ParseKey reads a private key. Its error shows nothing of it.
func ParseKey(private string) (*Key, error) {
	private = strings.TrimSpace(private)
	signer, err := note.NewSigner(private)
	if err != nil {
		return nil, errKey
	}
	f := strings.SplitN(private, "+", 5) // PRIVATE, KEY, name, hash, algorithm and seed
	seed, err := base64.StdEncoding.DecodeString(f[len(f)-1])
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return nil, errKey
	}
	public, ok := ed25519.NewKeyFromSeed(seed[1:]).Public().(ed25519.PublicKey)
	if !ok {
		return nil, errKey
	}
	verifier, err := note.NewEd25519VerifierKey(signer.Name(), public)
	if err != nil {
		return nil, errKey
	}
	return &Key{signer, verifier}, nil
}

// Public is the public key in one line, as ParseKeys reads it.
func (k *Key) Public() string { return k.verifier }

// String is the public key.
func (k *Key) String() string { return k.verifier }

// Keys are the public keys that a verification trusts.
type Keys struct {
	list note.Verifiers
	all  []string
}

// Public lists the keys.
func (k Keys) Public() []string { return k.all }

// ParseKeys reads public keys, one a line; empty lines and those that begin
// with # are skipped. None is an error.
func ParseKeys(text string) (Keys, error) {
	var known []note.Verifier
	var out Keys
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		v, err := note.NewVerifier(line)
		if err != nil {
			return Keys{}, fmt.Errorf("line %d is no public key: want what onceward audit key prints", i+1)
		}
		known = append(known, v)
		out.all = append(out.all, line)
	}
	if len(known) == 0 {
		return Keys{}, errors.New("there is no public key: want what onceward audit key prints")
	}
	out.list = note.VerifierList(known...)
	return out, nil
}
