package gateway

import (
	"context"

	"github.com/onceward/onceward/admin"
)

// testTarget is the forwarder's test in the listener's terms.
func (g *Gateway) testTarget(ctx context.Context, name string) (admin.TargetTest, error) {
	p, err := g.forwarder.Test(ctx, name)
	if err != nil {
		return admin.TargetTest{}, err
	}
	out := admin.TargetTest{
		Target: p.Target, URL: p.Site, Proxy: p.Proxy, Key: p.Key, Method: p.Method, Signed: p.Signed, At: p.At.UTC(),
		Host: p.Host, Addresses: p.Addresses, DNS: p.DNS.Seconds(), Address: p.Address, Connect: p.Connect.Seconds(),
		FirstByte: p.FirstByte.Seconds(), Total: p.Total.Seconds(),
		Status: p.Status, Proto: p.Proto, Outcome: p.Outcome, Error: p.Error, Response: string(p.Head),
	}
	if t := p.TLS; t != nil {
		out.TLS = &admin.TargetTestTLS{
			Handshake: t.Duration.Seconds(), Version: t.Version, Protocol: t.Protocol,
			Subject: t.Subject, Issuer: t.Issuer, NotAfter: t.NotAfter.UTC(),
		}
	}
	return out, nil
}
