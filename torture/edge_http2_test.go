//go:build torture

package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// secured is a gateway whose public listener speaks TLS, and the pool that
// trusts it.
func secured(t *testing.T, tags string) (*edge, *x509.CertPool) {
	t.Helper()
	e := newEdge(t, tags, "", "")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "edge"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	must(t, os.WriteFile(filepath.Join(e.dir, "cert.pem"), cert, 0o600))
	must(t, os.WriteFile(filepath.Join(e.dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	e.configure("[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n", e2signed())
	must(t, e.p.Start())
	client := e.over(pool)
	must(t, poll(within(t, 30*time.Second), 10*time.Millisecond, func() (bool, error) {
		resp, err := client.Get("https://" + e.p.Public + "/readyz")
		if err != nil {
			return false, nil
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK, nil
	}))
	return e, pool
}

// over is a client that speaks HTTP/2 with the gateway.
func (e *edge) over(pool *x509.CertPool) *http.Client {
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	e.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Timeout: time.Minute, Transport: tr}
}

// frames opens an HTTP/2 connection for frames written by hand.
func (e *edge) frames(pool *x509.CertPool) (*tls.Conn, *http2.Framer, error) {
	c, err := tls.Dial("tcp", e.p.Public, &tls.Config{RootCAs: pool, NextProtos: []string{"h2"}})
	if err != nil {
		return nil, nil, err
	}
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		return nil, nil, err
	}
	f := http2.NewFramer(c, c)
	return c, f, f.WriteSettings()
}

// block is a request's header block; more adds to it.
func block(path string, more ...string) []byte {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	all := append([]string{":method", "POST", ":scheme", "https", ":authority", "x", ":path", path}, more...)
	for i := 0; i+1 < len(all); i += 2 {
		enc.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]}) // to a buffer: never fails
	}
	return b.Bytes()
}

// resetStorm opens streams and resets them at once, for as long as the gateway
// lets it, then on a new connection.
func (e *edge) resetStorm(ctx context.Context, pool *x509.CertPool, streams *atomic.Int64) {
	for ctx.Err() == nil {
		c, f, err := e.frames(pool)
		if err != nil {
			continue
		}
		go io.Copy(io.Discard, c) // its answers; ends with the connection
		c.SetDeadline(time.Now().Add(5 * time.Second))
		head := block("/in/gh")
		for id := uint32(1); ctx.Err() == nil && id < 1<<20; id += 2 {
			if f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head, EndHeaders: true}) != nil || f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
				break
			}
			streams.Add(1)
		}
		c.Close()
	}
}

// TestEdgeHTTP2Resets opens and resets streams as fast as it can on 20
// connections: requests of others are answered, memory stays in its bounds,
// and no goroutine is left afterwards.
func TestEdgeHTTP2Resets(t *testing.T) {
	t.Parallel()
	d := 3 * time.Second
	if long() {
		d = time.Minute
	}
	res := &Result{Fault: "HTTP/2 streams opened and reset", Cycles: 1}
	record(t, res)
	e, pool := secured(t, asShipped)
	client := e.over(pool)
	before := e.rest()
	peak := e.watch()
	ctx, enough := context.WithTimeout(t.Context(), d)
	defer enough()
	var all sync.WaitGroup
	var streams atomic.Int64
	for range 20 {
		all.Go(func() { e.resetStorm(ctx, pool, &streams) })
	}
	for i := 0; ctx.Err() == nil; i++ {
		status, err := e.bringOver(client, fmt.Sprint("h2-", i))
		if err != nil || status != http.StatusOK {
			t.Errorf("a good request meanwhile got %d, %v", status, err)
			break
		}
		res.Acknowledged++
	}
	all.Wait()
	p := peak()
	client.CloseIdleConnections()
	err := poll(within(t, 20*time.Second), 200*time.Millisecond, func() (bool, error) { return e.metrics()["go_goroutines"] <= before.goroutines+8, nil })
	after := e.rest()
	if err != nil {
		t.Errorf("before: %v; afterwards: %v", before, after)
	}
	if p > budget {
		t.Errorf("%d MiB of memory", p>>20)
	}
	res.Lost = e.missing(res.Acknowledged)
	res.Note = fmt.Sprintf("%d streams reset in %v, %d good requests meanwhile, memory %d MiB at most; before: %v; after: %v", streams.Load(), d, res.Acknowledged, p>>20, before, after)
	fmt.Println(res.Note)
	if streams.Load() < 1000 {
		t.Errorf("only %d streams: that proves little", streams.Load())
	}
}

// bringOver sends a signed event with a client of TLS.
func (e *edge) bringOver(c *http.Client, id string) (int, error) {
	body := fmt.Appendf(nil, `{"id":%q}`, id)
	req, err := http.NewRequest(http.MethodPost, "https://"+e.p.Public+"/in/gh", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	e.sign(req.Header, id, body)
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.ProtoMajor != 2 {
		return 0, fmt.Errorf("spoke %s", resp.Proto)
	}
	return resp.StatusCode, nil
}

// continuations sends one header block in frames without an end, and reports
// how many bytes the gateway took.
func (e *edge) continuations(pool *x509.CertPool, most int) (taken int, err error) {
	c, f, err := e.frames(pool)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		io.Copy(io.Discard, c)
	}()
	c.SetDeadline(time.Now().Add(time.Minute))
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block("/in/gh")}); err != nil {
		return 0, err
	}
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	enc.WriteField(hpack.HeaderField{Name: "x-flood", Value: strings.Repeat("a", 15000), Sensitive: true}) // never indexed
	part := b.Bytes()
	for taken < most {
		if f.WriteContinuation(1, false, part) != nil {
			break
		}
		taken += len(part)
		select {
		case <-closed:
			return taken, nil
		default:
		}
	}
	return taken, nil
}

// TestEdgeHTTP2Continuations: a header block without an end is cut off.
func TestEdgeHTTP2Continuations(t *testing.T) {
	t.Parallel()
	res := &Result{Fault: "HTTP/2 header blocks without an end", Cycles: 20}
	record(t, res)
	e, pool := secured(t, asShipped)
	peak := e.watch()
	worst := 0
	for range res.Cycles {
		taken, err := e.continuations(pool, 64<<20)
		must(t, err)
		worst = max(worst, taken)
	}
	if p := peak(); worst >= 64<<20 || p > budget {
		t.Errorf("the gateway took %d MiB of one header block, memory %d MiB", worst>>20, p>>20)
	}
	res.Note = fmt.Sprintf("cut after %d KiB at most", worst>>10)
	status, err := e.bringOver(e.over(pool), "after")
	if err != nil || status != http.StatusOK {
		t.Errorf("a good request afterwards got %d, %v", status, err)
	}
}

// TestControlEdgeHTTP2 takes the limit on headers away.
func TestControlEdgeHTTP2(t *testing.T) {
	t.Parallel()
	e, pool := secured(t, noLimits)
	taken, err := e.continuations(pool, 64<<20)
	must(t, err)
	noticed(t, "no limit on HTTP/2 header blocks", 0, taken >= 64<<20, fmt.Sprintf("%d MiB of one header block taken", taken>>20))
}
