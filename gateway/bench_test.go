package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/receiver"
)

// BenchmarkDurableOverBare measures what durability costs: the same handler
// over HTTP with the ledger behind it and with nothing behind it, in turns, in
// one process. Machines differ and so do minutes; read the ratio.
//
//	go test -run '^$' -bench DurableOverBare -benchtime 3x ./gateway
//
// Each of the b.N rounds runs one and then the other for two seconds; the
// medians of the rounds are reported.
func BenchmarkDurableOverBare(b *testing.B) {
	for _, conns := range []int{64, 256} {
		b.Run(fmt.Sprintf("c=%d", conns), func(b *testing.B) {
			durable, bare := newIntake(b, durableAdmitter(b)), newIntake(b, bareAdmitter{})
			var with, without []float64
			for range b.N {
				without = append(without, bare.drive(b, conns, 2*time.Second))
				with = append(with, durable.drive(b, conns, 2*time.Second))
			}
			w, wo := median(with), median(without)
			b.ReportMetric(w, "durable/s")
			b.ReportMetric(wo, "bare/s")
			b.ReportMetric(w/wo, "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// bareAdmitter calls everything new and keeps nothing.
type bareAdmitter struct{}

func (bareAdmitter) Accept(_ context.Context, r *dedupe.Request) error {
	r.Outcomes = make([]dedupe.Outcome, len(r.Items))
	for i := range r.Outcomes {
		r.Outcomes[i] = dedupe.Outcome{Verdict: dedupe.New, Ref: event.NewRef(1, 1, 1), ID: r.Items[i].Event.ID}
	}
	return nil
}

// durableAdmitter is the group commit over a Badger ledger.
func durableAdmitter(b *testing.B) receiver.Admitter {
	b.Helper()
	db, err := badgerdb.Open(badgerdb.Config{Dir: b.TempDir(), Reserve: 64 << 20, Ballast: -1})
	if err != nil {
		b.Fatal(err)
	}
	w, err := dedupe.NewWriter(dedupe.WriterConfig{Ledger: db})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- w.Run(ctx) }()
	go func() { done <- db.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				b.Error(err)
			}
		}
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return w
}

const benchSecret = "whsec_b25jZXdhcmQgYmVuY2htYXJrIHNlY3JldCAwMQ=="

// intake is a receiver on a loopback listener.
type intake struct {
	addr string
	next atomic.Int64
}

func newIntake(b *testing.B, admit receiver.Admitter) *intake {
	b.Helper()
	cfg, faults := Parse("bench.toml", []byte(`listen = "127.0.0.1:0"
[[source]]
name = "bench"
provider = "standard_webhooks"
secrets = ["`+benchSecret+`"]
targets = ["t"]
[[target]]
name = "t"
url = "http://127.0.0.1:9/"
`), Env{})
	if faults.Failed() {
		b.Fatal(faults)
	}
	gen, err := build(cfg, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	r, err := receiver.New(receiver.Config{Admit: admit, Sources: gen.sources})
	if err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, ln) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return &intake{addr: ln.Addr().String()}
}

// drive sends unique signed events of 1 KiB over conns connections, closed
// loop, for d, and returns answers per second.
func (in *intake) drive(b *testing.B, conns int, d time.Duration) float64 {
	b.Helper()
	var answered atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	started := time.Now()
	for range conns {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := in.connection(end, &answered); err != nil {
				b.Error(err)
			}
		}()
	}
	wg.Wait()
	return float64(answered.Load()) / time.Since(started).Seconds()
}

var benchPad = `","pad":"` + strings.Repeat("0123456789abcdef", 40) + strings.Repeat(" ", 300) + `"}`

func (in *intake) connection(end time.Time, answered *atomic.Int64) error {
	conn, err := net.Dial("tcp", in.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(benchSecret, "whsec_"))
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, key)
	r := bufio.NewReader(conn)
	var out, body bytes.Buffer
	for time.Now().Before(end) {
		id := "evt_" + strconv.FormatInt(in.next.Add(1), 10)
		ts := strconv.FormatInt(time.Now().Unix(), 10)
		body.Reset()
		body.WriteString(`{"type":"bench","id":"` + id + benchPad)
		mac.Reset()
		io.WriteString(mac, id+"."+ts+".")
		mac.Write(body.Bytes())
		out.Reset()
		out.WriteString("POST /in/bench HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nwebhook-id: " + id +
			"\r\nwebhook-timestamp: " + ts + "\r\nwebhook-signature: v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)) +
			"\r\nContent-Length: " + strconv.Itoa(body.Len()) + "\r\n\r\n")
		out.Write(body.Bytes())
		if _, err := conn.Write(out.Bytes()); err != nil {
			return err
		}
		if err := readAnswer(r); err != nil {
			return err
		}
		answered.Add(1)
	}
	return nil
}

// readAnswer reads one 200 with a length.
func readAnswer(r *bufio.Reader) error {
	t := textproto.NewReader(r)
	status, err := t.ReadLine()
	if err != nil {
		return err
	}
	if !strings.Contains(status, " 200 ") {
		return fmt.Errorf("answer %q", status)
	}
	length := 0
	for {
		line, err := t.ReadLine()
		if err != nil {
			return err
		}
		if line == "" {
			break
		}
		if v, ok := strings.CutPrefix(line, "Content-Length: "); ok {
			if length, err = strconv.Atoi(v); err != nil {
				return err
			}
		}
	}
	_, err = r.Discard(length)
	return err
}
