package gateway

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"time"
)

// tlsMaterial is what the files of a TLSConfig held when they were read.
type tlsMaterial struct {
	config   *tls.Config // never changed
	digest   [sha256.Size]byte
	notAfter time.Time // of the client certificate; zero without
}

// certSoon is how long before its end a certificate is warned of.
const certSoon = 14 * day

// clientTLS reads and checks what a target's TLS is made of.
func (c *checker) clientTLS(t *TargetConfig, n *node) {
	at := n.get("tls")
	if at == nil || at.bad || strings.HasPrefix(t.URL, unixScheme) {
		return
	}
	if !strings.HasPrefix(strings.ToLower(t.URL), "https:") {
		c.rep.at(at, "tls means nothing to a url that is not https", "use https, or remove it")
		return
	}
	before := len(c.rep.faults)
	m := &tlsMaterial{config: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.TLS.ServerName}}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q", t.TLS.ServerName, t.TLS.MinVersion)
	if v := at.get("min_version"); v != nil && c.oneOf(v, "min_version", t.TLS.MinVersion, "1.2", "1.3") && t.TLS.MinVersion == "1.3" {
		m.config.MinVersion = tls.VersionTLS13
	}
	cert, key := c.pem(at.get("cert"), t.TLS.Cert, false), c.pem(at.get("key"), t.TLS.Key, true)
	ca := c.pem(at.get("ca"), t.TLS.CA, false)
	for _, b := range [][]byte{cert, key, ca} {
		fmt.Fprintf(sum, " %x", sha256.Sum256(b))
	}
	c.pair(at, m, t.TLS.Cert, t.TLS.Key, cert, key)
	if ca != nil {
		m.config.RootCAs = x509.NewCertPool()
		if !m.config.RootCAs.AppendCertsFromPEM(ca) {
			c.rep.at(at.get("ca"), "the file holds no certificate in PEM", "want one or more authorities")
		}
	}
	sum.Sum(m.digest[:0])
	if !c.rep.faults[before:].Failed() {
		t.material = m
	}
}

// pair takes a certificate and its key from two files.
func (c *checker) pair(at *node, m *tlsMaterial, certFile, keyFile string, cert, key []byte) {
	switch {
	case (certFile == "") != (keyFile == ""):
		c.rep.at(at, "cert and key go together", "name both files, or none")
	case cert != nil && key != nil:
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			c.rep.at(at.or("cert"), "certificate and key are not usable: "+err.Error(), "want PEM, the certificate's own key, and the leaf first")
			return
		}
		m.config.Certificates = []tls.Certificate{pair}
		if pair.Leaf != nil {
			m.notAfter = pair.Leaf.NotAfter
			c.expiry(at.or("cert"), pair.Leaf)
		}
	}
}

func (c *checker) expiry(at *node, leaf *x509.Certificate) {
	switch now := time.Now(); {
	case now.After(leaf.NotAfter):
		c.rep.warn(at, "the certificate ended on "+leaf.NotAfter.UTC().Format(time.DateOnly), "the other side will refuse it")
	case leaf.NotAfter.Sub(now) < certSoon:
		c.rep.warn(at, "the certificate ends on "+leaf.NotAfter.UTC().Format(time.DateOnly), "renew it; a reload reads the files again")
	case now.Before(leaf.NotBefore):
		c.rep.warn(at, "the certificate begins on "+leaf.NotBefore.UTC().Format(time.DateOnly), "the other side will refuse it until then")
	}
}

// pem reads a file, nil when there is none or it can't be read.
func (c *checker) pem(at *node, name string, private bool) []byte {
	if name == "" {
		return nil
	}
	path := c.cfg.path(name)
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxFile {
		c.rep.at(at, "the file is larger than 1 MiB", "name a file that holds nothing but PEM")
		return nil
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(path)
	}
	if err != nil {
		c.rep.at(at, "the file can't be read: "+cause(err), "name another, or make it readable for the gateway")
		return nil
	}
	if private && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
		c.rep.warn(at, "the key is readable by everyone", "chmod 0600 it")
	}
	return b
}
