package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/onceward/onceward/trace"
)

// TracesConfig is where spans go. Not reloadable.
type TracesConfig struct {
	// Endpoint is an OTLP/HTTP collector, such as "http://127.0.0.1:4318".
	// Default: none, and nothing is recorded.
	Endpoint string `toml:"endpoint,omitzero"`
	// Sample is the share of traces recorded, more than 0 to 1. Default 1.
	Sample float64 `toml:"sample,omitzero"`
	// Headers go with every export.
	Headers map[string]SecretConfig `toml:"headers,omitzero"`
}

// fill sets the defaults of the table n.
func (t *TracesConfig) fill(n *node) {
	if t.Endpoint != "" && n.get("sample") == nil {
		t.Sample = 1
	}
	for name, v := range t.Headers {
		v.ID = name
		t.Headers[name] = v
	}
}

// identity is the same for the same settings, secrets among them, and shows
// none.
func (t *TracesConfig) identity() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %v", t.Endpoint, t.Sample)
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		fmt.Fprintf(sum, " %q %q", name, t.Headers[name].Value.Reveal())
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// traces checks where spans go.
func (c *checker) traces() {
	t, n := &c.cfg.Traces, c.cfg.tree.get("traces")
	if n == nil || n.bad {
		return
	}
	at := n.get("endpoint")
	switch {
	case at == nil:
		c.rep.at(n, "traces have no endpoint", `write endpoint = "http://127.0.0.1:4318", or leave the table out`)
	case len(at.unset) > 0:
	default:
		u, err := trace.ParseEndpoint(t.Endpoint)
		if err != nil {
			c.rep.at(at, "the endpoint is not usable", err.Error())
		} else if forbidden(u.Hostname()) {
			c.rep.at(at, "the endpoint is at a link-local, metadata, multicast or unspecified address", "these are never called")
		}
	}
	if s := n.get("sample"); s != nil && !(t.Sample > 0 && t.Sample <= 1) {
		c.rep.at(s, "sample is out of bounds", "want more than 0, and at most 1 for every trace")
	}
	for name, value := range t.Headers {
		at := n.get("headers", name)
		switch lower := strings.ToLower(name); {
		case !httpguts.ValidHeaderFieldName(name):
			c.rep.at(at, "is not a header name", "want letters, digits and -")
		case slices.Contains([]string{"content-type", "content-length", "host", "connection", "transfer-encoding", "user-agent"}, lower):
			c.rep.at(at, "this header is set by the gateway", "remove it")
		case !httpguts.ValidHeaderFieldValue(value.Value.Reveal()):
			c.rep.at(at, "the value holds a control character", "a header is one line")
		case !at.expanded && referenceLike.MatchString(value.Value.Reveal()):
			c.rep.at(at, "the value looks like a reference but would be sent as it stands", "write ${env:NAME} or ${file:path}")
		}
	}
}

// recorder makes what spans are recorded with, nil without an endpoint.
func (g *Gateway) recorder() (*trace.Recorder, error) {
	t := &g.start.Traces
	if t.Endpoint == "" {
		return nil, nil
	}
	headers := make(map[string]string, len(t.Headers))
	for name, v := range t.Headers {
		headers[name] = v.Value.Reveal()
	}
	host, _ := os.Hostname() // unknown: the attribute is left out
	return trace.New(trace.Config{
		Endpoint: t.Endpoint, Headers: headers, Sample: t.Sample, Service: "onceward", Version: g.opts.Version, Instance: host,
		Log: g.log, Registerer: g.opts.Registry,
	})
}
