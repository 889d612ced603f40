package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
)

// The shapes of signature the sender makes by itself.
const (
	Stripe   = "stripe"
	GitHub   = "github"
	Standard = "standard_webhooks"
)

// What a source does with a known event ID that comes with another body.
const (
	ConflictAck     = "ack"     // answered like a repeat, never delivered
	ConflictDeliver = "deliver" // an event of its own, ID `id~` and 16 digits of the body's hash
)

// Source is one inbound path of the gateway under test.
type Source struct {
	Name       string
	Provider   string // one of the shapes above
	Secret     string
	Targets    []string
	OnConflict string // ConflictAck or ConflictDeliver

	// Short events are remembered and kept for seconds, so that retention runs
	// under the load. Each is sent once, and may be gone when it is delivered.
	Short bool
	// Replayed events are sent again by an operator, at any time.
	Replayed bool
}

// Sources is what the crash runs use: three providers, both conflict
// policies, one source with two targets.
func Sources() []Source {
	raw := sha256.Sum256([]byte("the standard source's key of the crash suite"))
	return []Source{
		{Name: "stripe", Provider: Stripe, Secret: "whsec_crash_suite_stripe_0123456789",
			Targets: []string{"billing"}, OnConflict: ConflictAck},
		{Name: "github", Provider: GitHub, Secret: "crash-suite-github-0123456789abcdef",
			Targets: []string{"billing", "crm"}, OnConflict: ConflictDeliver},
		{Name: "standard", Provider: Standard, Secret: "whsec_" + base64.StdEncoding.EncodeToString(raw[:24]),
			Targets: []string{"crm"}, OnConflict: ConflictAck},
	}
}

// Message is one thing a provider says: the number names the event ID, the
// variant the body. Variant 0 is the event, the others are the same ID with
// another body.
type Message struct {
	Source  *Source
	Run     string // makes event IDs of different runs differ
	Number  int
	Variant int
}

// ID is the provider's event ID.
func (m Message) ID() string { return fmt.Sprintf("evt_%s_%s_%07d", m.Run, m.Source.Name, m.Number) }

// bigBody is the size of the rare bodies that no single transaction of the
// ledger can hold.
const bigBody = 5 << 20

// sum is what the body's size and filler are drawn from.
func (m Message) sum() [32]byte { return sha256.Sum256([]byte(m.ID() + "/" + strconv.Itoa(m.Variant))) }

// size draws the body's size: mostly a small JSON document,
// at times some tens of kilobytes, on GitHub's source rarely a very big one.
func (m Message) size() int {
	sum := m.sum()
	a, b := binary.BigEndian.Uint32(sum[:4]), int(binary.BigEndian.Uint32(sum[4:8]))
	switch {
	case m.Source.Short && a%100 == 0:
		return 2<<20 + b%1024
	case m.Source.Provider == GitHub && a%4000 == 0:
		return bigBody + b%1024
	case a%25 == 1:
		return 8<<10 + b%(48<<10)
	}
	return 200 + b%1200
}

// Body is the message's exact bytes, the same every time. The filler is
// drawn from the ID, so that no part of two bodies can be taken for the other.
func (m Message) Body() []byte {
	sum := m.sum()
	size := m.size()
	var b bytes.Buffer
	b.Grow(size + 256)
	fmt.Fprintf(&b, `{"id":%q,"object":"event","type":%q,"created":1700000000,"number":%d,"variant":%d,"data":{"filler":"`,
		m.ID(), m.eventType(), m.Number, m.Variant)
	filler := hex.EncodeToString(sum[:])
	if size >= 1<<20 { // what repeats compresses to nothing
		raw := make([]byte, size/2)
		rand.NewChaCha8(sum).Read(raw) // never fails
		filler = hex.EncodeToString(raw)
	}
	for b.Len() < size {
		b.WriteString(filler)
	}
	b.WriteString(`"}}`)
	return b.Bytes()
}

func (m Message) eventType() string {
	return [...]string{"invoice.paid", "customer.updated", "charge.refunded"}[m.Number%3]
}

// Sign sets the headers an authentic request with this body carries at Unix
// second now.
func (m Message) Sign(h http.Header, body []byte, now int64) error {
	h.Set("Content-Type", "application/json")
	t := strconv.FormatInt(now, 10)
	switch m.Source.Provider {
	case Stripe:
		h.Set("Stripe-Signature", "t="+t+",v1="+hex.EncodeToString(mac([]byte(m.Source.Secret), t, ".", string(body))))
	case GitHub:
		h.Set("X-GitHub-Event", "push")
		h.Set("X-GitHub-Delivery", m.ID())
		h.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac([]byte(m.Source.Secret), string(body))))
	case Standard:
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Source.Secret, "whsec_"))
		if err != nil {
			return fmt.Errorf("secret of source %q: %w", m.Source.Name, err)
		}
		h.Set("Webhook-Id", m.ID())
		h.Set("Webhook-Timestamp", t)
		h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac(key, m.ID(), ".", t, ".", string(body))))
	default:
		return fmt.Errorf("source %q: the sender cannot sign for %q", m.Source.Name, m.Source.Provider)
	}
	return nil
}

func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// ChurnSources are Sources with one whose events go again at once, one whose
// open events outlive their retention and one whose events are replayed.
func ChurnSources() []Source {
	return append(Sources(),
		Source{Name: "short", Provider: GitHub, Secret: "crash-suite-short-0123456789abcdef0", Targets: []string{"crm"},
			OnConflict: ConflictAck, Short: true},
		Source{Name: "late", Provider: GitHub, Secret: "crash-suite-late-0123456789abcdef01", Targets: []string{LateTarget},
			OnConflict: ConflictAck, Short: true},
		Source{Name: "again", Provider: GitHub, Secret: "crash-suite-again-0123456789abcdef0", Targets: []string{"billing"},
			OnConflict: ConflictAck, Replayed: true})
}
