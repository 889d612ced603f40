package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultSecureListen is the public address when it speaks TLS.
const DefaultSecureListen = ":8443"

// ListenerTLSConfig is the certificate of the public listener.
type ListenerTLSConfig struct {
	// Cert and Key are a certificate with its chain, and its key, in PEM. They
	// are read again when they change. Both required.
	Cert string `toml:"cert,omitzero"`
	Key  string `toml:"key,omitzero"`
	// MinVersion is "1.2" or "1.3". Default "1.2". Not reloadable.
	MinVersion string `toml:"min_version,omitzero"`
}

// listenerTLS checks the certificate of the public listener.
func (c *checker) listenerTLS() {
	t, n := &c.cfg.TLS, c.cfg.tree.get("tls")
	if n == nil || n.bad {
		return
	}
	if v := n.get("min_version"); v != nil {
		c.oneOf(v, "min_version", t.MinVersion, "1.2", "1.3")
	}
	if t.Cert == "" || t.Key == "" {
		c.rep.at(n, "cert and key go together", "name both files, or leave the table out")
		return
	}
	cert, key := c.pem(n.get("cert"), t.Cert, false), c.pem(n.get("key"), t.Key, true)
	c.pair(n, &tlsMaterial{config: &tls.Config{}}, t.Cert, t.Key, cert, key)
}

// certRecheck is how often a handshake looks whether the files have changed.
const certRecheck = 5 * time.Second

// certKeeper is the certificate of a listener, read again when its files have
// changed. Files that don't fit each other, as they are while somebody replaces
// them, leave the one before.
type certKeeper struct {
	cert, key string
	now       func() time.Time
	log       *slog.Logger

	mu     sync.Mutex // guards all below; held over the reading of two small files
	pair   *tls.Certificate
	seen   string // what the files were when they were last read
	looked time.Time
}

func newCertKeeper(cert, key string, now func() time.Time, log *slog.Logger) (*certKeeper, error) {
	k := &certKeeper{cert: cert, key: key, now: now, log: log}
	if err := k.read(); err != nil {
		return nil, fmt.Errorf("certificate of the listener: %w", err)
	}
	return k, nil
}

// get is for tls.Config.GetCertificate.
func (k *certKeeper) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := k.now(); now.Sub(k.looked) >= certRecheck || now.Before(k.looked) {
		k.refresh(now)
	}
	return k.pair, nil
}

// reload reads the files now.
func (k *certKeeper) reload() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refresh(k.now())
}

// refresh reads files that have changed. k.mu is held.
func (k *certKeeper) refresh(now time.Time) {
	k.looked = now
	if k.stamp() == k.seen {
		return
	}
	if err := k.read(); err != nil {
		k.log.Error("changed certificate is not usable, the one before stays", "event", "tls.reload_failed", "error", err)
		return
	}
	k.log.Info("certificate read again", "event", "tls.reloaded", "not_after", k.pair.Leaf.NotAfter.UTC())
}

// read takes the pair in the files. k.mu is held, or k is not shared yet.
func (k *certKeeper) read() error {
	k.looked = k.now()
	k.seen = k.stamp()
	pair, err := tls.LoadX509KeyPair(k.cert, k.key)
	if err != nil {
		return err
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return err
		}
	}
	k.pair = &pair
	return nil
}

// stamp tells the present files from others.
func (k *certKeeper) stamp() string {
	text := ""
	for _, name := range []string{k.cert, k.key} {
		if info, err := os.Stat(name); err == nil {
			text += fmt.Sprintf("%d %d;", info.ModTime().UnixNano(), info.Size())
		}
	}
	return text
}

func (k *certKeeper) notAfter() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pair.Leaf.NotAfter
}

// listenerConfig makes the TLS configuration of the public listener, nil
// without one.
func (g *Gateway) listenerConfig() (*tls.Config, error) {
	t := &g.start.TLS
	if t.Cert == "" {
		return nil, nil
	}
	k, err := newCertKeeper(g.start.path(t.Cert), g.start.path(t.Key), g.opts.Now, g.log)
	if err != nil {
		return nil, err
	}
	g.cert = k
	c := &tls.Config{GetCertificate: k.get, MinVersion: tls.VersionTLS12}
	if t.MinVersion == "1.3" {
		c.MinVersion = tls.VersionTLS13
	}
	return c, nil
}

var descNotAfter = desc("onceward_tls_certificate_not_after_timestamp_seconds",
	"When a certificate ends: the listener's, and the client certificates of targets.", "name")

// certCollector shows when certificates end. Names come from the configuration.
type certCollector struct{ g *Gateway }

// Describe sends nothing: the names come and go.
func (certCollector) Describe(chan<- *prometheus.Desc) {}

// Collect reads the certificates in use.
func (c certCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(name string, at time.Time) {
		ch <- prometheus.MustNewConstMetric(descNotAfter, prometheus.GaugeValue, float64(at.Unix()), name)
	}
	if k := c.g.cert; k != nil {
		gauge("listener", k.notAfter())
	}
	targets := c.g.gen.Load().cfg.Targets
	for i := range targets {
		if m := targets[i].material; m != nil && !m.notAfter.IsZero() {
			gauge("target:"+targets[i].Name, m.notAfter)
		}
	}
}

// ReceiverURL is how the public listener at addr is called on this machine.
func (c *Config) ReceiverURL(addr string) string {
	if c.TLS.Cert != "" {
		return "https://" + addr
	}
	return "http://" + addr
}

// ClientTLS trusts the certificate of the public listener and no other, under
// whatever name it is called: it is for calls on the machine that has the file.
// Nil when the listener speaks no TLS.
func (c *Config) ClientTLS() (*tls.Config, error) {
	if c.TLS.Cert == "" {
		return nil, nil
	}
	k, err := newCertKeeper(c.path(c.TLS.Cert), c.path(c.TLS.Key), time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, // VerifyConnection does it
		VerifyConnection: func(st tls.ConnectionState) error {
			if len(st.PeerCertificates) == 0 || !st.PeerCertificates[0].Equal(k.pair.Leaf) {
				return fmt.Errorf("certificate is not the one in %s", c.TLS.Cert)
			}
			return nil
		},
	}, nil
}
