package cli

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/onceward/onceward/gateway"
)

// beyondLoopback lists where events would go that is not this machine: the
// gateway's URL and the targets of the source.
func beyondLoopback(cfg *gateway.Config, src *gateway.SourceConfig, to string) []string {
	var far []string
	if !onLoopback(to) {
		far = append(far, hostOnly(to))
	}
	names := append([]string(nil), src.Targets...)
	for _, r := range src.Routes {
		names = append(names, r.Target)
	}
	seen := map[string]bool{}
	for _, name := range names {
		if t, ok := cfg.Target(name); ok && !seen[name] && !onLoopback(t.URL) {
			far = append(far, "target "+name+" ("+hostOnly(t.URL)+")")
		}
		seen[name] = true
	}
	return far
}

// onLoopback reports whether a URL names this machine, as every unix socket
// does, without asking any resolver.
func onLoopback(raw string) bool {
	if strings.HasPrefix(raw, "unix:") {
		return true
	}
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	if strings.EqualFold(u.Hostname(), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.Unmap().IsLoopback()
}

// hostOnly is a URL as far as it may be shown: its path can be a credential.
func hostOnly(raw string) string {
	if rest, ok := strings.CutPrefix(raw, "unix:"); ok {
		socket, _, _ := strings.Cut(rest, ":")
		return "unix:" + socket
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "(not a URL)"
	}
	if _, _, err := net.SplitHostPort(u.Host); err != nil {
		return u.Scheme + "://" + u.Hostname()
	}
	return u.Scheme + "://" + u.Host
}
