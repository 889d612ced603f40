package gateway

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/onceward/onceward/receiver"
	"github.com/onceward/onceward/verify"
)

// registrationPending says that a source waits for its secret.
const registrationPending = "pending"

// capturedLabel is the label of a secret that the provider handed over.
const capturedLabel = "captured"

// maxCaptured bounds the file of a secret that was handed over.
const maxCaptured = 64 << 10

// CapturedFile is where the secret is kept that the provider of a source
// handed over.
func (c *Config) CapturedFile(source string) string {
	return filepath.Join(c.StorePath(), "captured", source+".secret")
}

// verifierConfig is what the verifier of the source is made from now: what the
// file says, and the secret that was handed over to it, under this name or a
// former one. The path is that of the secret, "" where there is none; then a
// source that waits for one takes it.
func (s *SourceConfig) verifierConfig(c *Config) (made verify.Config, path string, err error) {
	made = s.made
	if !hands(s.row) || c.Shared() { // files of one gateway are no place for what all need
		return made, "", nil
	}
	for _, name := range append([]string{s.Name}, s.Formerly...) {
		if !namePattern.MatchString(name) {
			continue // it was reported, and names no file
		}
		path = c.CapturedFile(name)
		value, err := readCaptured(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return made, "", err
		}
		made.Secrets = append(slices.Clone(made.Secrets), verify.Secret{ID: capturedLabel, Value: value})
		return made, path, nil
	}
	if s.Registration == registrationPending {
		made.Options = maps.Clone(made.Options)
		if made.Options == nil {
			made.Options = map[string]string{}
		}
		for _, h := range s.row.Handshake {
			if h.Capture != "" {
				made.Options[h.Pending] = "true"
			}
		}
	}
	return made, "", nil
}

// readCaptured reads a secret byte for byte.
func readCaptured(path string) (verify.SecretString, error) {
	info, err := os.Stat(path)
	if err != nil {
		return verify.SecretString{}, fmt.Errorf("captured secret: %w", err)
	}
	if info.Size() == 0 || info.Size() > maxCaptured {
		return verify.SecretString{}, fmt.Errorf("captured secret %q: is empty or larger than %d bytes", path, maxCaptured)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return verify.SecretString{}, fmt.Errorf("captured secret: %w", err)
	}
	sum, err := os.ReadFile(path + sumSuffix)
	if err == nil && string(sum) != sumOf(string(b)) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return verify.SecretString{}, fmt.Errorf("captured secret %q: is not what was handed over, the file or its checksum was damaged; restore it, or remove it and register anew", path)
	}
	return verify.NewSecretString(string(b)), nil
}

// sumSuffix names the file with the checksum of a captured secret, which is a
// checksum against damage and no more secret than the length.
const sumSuffix = ".sum"

func sumOf(secret string) string {
	return fmt.Sprintf("%08x\n", crc32.Checksum([]byte(secret), crc32.MakeTable(crc32.Castagnoli)))
}

// keepCaptured writes a secret where nobody else reads it, and returns when it
// is durable. A secret that is there already stays: that is fs.ErrExist.
func keepCaptured(path string, secret verify.SecretString) error {
	if _, err := os.Lstat(path); err == nil {
		return fs.ErrExist
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep captured secret: %w", err)
	}
	tmp, err := os.CreateTemp(dir, ".secret-*") // mode 0600
	if err != nil {
		return fmt.Errorf("keep captured secret: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(secret.Reveal())
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("keep captured secret: %w", err)
	}
	if err := os.Link(tmp.Name(), path); err != nil {
		return fmt.Errorf("keep captured secret: %w", err)
	}
	if err := writeSynced(path+sumSuffix, sumOf(secret.Reveal())); err != nil { // of the one that won
		return fmt.Errorf("keep captured secret: %w", err)
	}
	return errors.Join(syncDir(dir), syncDir(filepath.Dir(dir)))
}

// writeSynced writes a small file, over one that is there, and syncs it.
func writeSynced(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir makes the entries of a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// handover carries out what handshakes ask for, for the receiver.
type handover struct{ g *Gateway }

var _ receiver.Handover = handover{}

// Confirm implements receiver.Handover.
func (h handover) Confirm(source, url string) (start func(), err error) {
	return h.g.confirmer.reserve(source, url)
}

// Capture implements receiver.Handover: the secret is on disk before it is
// used, and used before the provider is answered.
func (h handover) Capture(source string, secret verify.SecretString) error {
	g := h.g
	g.swapping.Lock()
	defer g.swapping.Unlock()
	old := g.gen.Load()
	s, ok := old.cfg.Source(source)
	if !ok {
		return fmt.Errorf("capture secret: source %q is gone", source)
	}
	made, path, err := s.verifierConfig(old.cfg)
	switch {
	case err != nil:
		return err
	case path != "" || s.Registration != registrationPending:
		return receiver.ErrCaptured
	}
	made.Secrets = append(slices.Clone(made.Secrets), verify.Secret{ID: capturedLabel, Value: secret})
	if _, err := verify.New(made); err != nil {
		return fmt.Errorf("capture secret of source %q: %w", source, err)
	}
	path = old.cfg.CapturedFile(source)
	switch err := keepCaptured(path, secret); {
	case errors.Is(err, fs.ErrExist):
		return receiver.ErrCaptured
	case err != nil:
		return err
	}
	gen, err := build(old.cfg, old, g.fetcher)
	if err == nil {
		err = g.receiver.SetSources(gen.sources, gen.trusted)
	}
	if err != nil {
		return fmt.Errorf("use captured secret of source %q: %w", source, err)
	}
	g.gen.Store(gen)
	g.met.captured.WithLabelValues(source).Inc()
	g.log.Info("secret captured, it is used from now on", "event", "source.captured", "source", source, "file", path)
	return nil
}
