package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"time"

	"github.com/onceward/onceward/verify"
)

// fate is what the sender means a request to be, and what the answer says it was.
type fate string

// The fates of a request at the gateway.
const (
	fateAccepted fate = "accepted"
	fateRepeat   fate = "repeat"
	fateConflict fate = "conflict"
	fateRefused  fate = "refused"
	fateError    fate = "error"
)

// demoProvider is one of the demo's senders: a provider's shape and its events.
type demoProvider struct {
	name   string // of the provider
	source string
	secret string
	types  []string
	body   func(id, typ string, n int) any
	signer *verify.Verifier
	forger *verify.Verifier // signs with a secret nobody configured
}

// demoProviders makes the four senders, each with a fresh secret in its
// provider's form.
func demoProviders() ([]*demoProvider, error) {
	ps := []*demoProvider{
		{name: "stripe", source: "stripe", types: []string{"invoice.paid", "charge.refunded", "customer.created"}, body: stripeBody},
		{name: "github", source: "github", types: []string{"push", "pull_request", "issues"}, body: githubBody},
		{name: "slack", source: "slack", types: []string{"app_mention", "reaction_added"}, body: slackBody},
		{name: "standard_webhooks", source: "standard", types: []string{"order.shipped", "order.created"}, body: standardBody},
	}
	for _, p := range ps {
		p.secret = newSecret(p.name)
		var err error
		if p.signer, err = signerFor(p.name, p.secret); err != nil {
			return nil, err
		}
		if p.forger, err = signerFor(p.name, newSecret(p.name)); err != nil {
			return nil, err
		}
	}
	return ps, nil
}

// newSecret makes a secret as the provider would.
func newSecret(provider string) string {
	b := make([]byte, 24)
	rand.Read(b) // never fails
	switch provider {
	case "stripe", "standard_webhooks":
		return "whsec_" + base64.StdEncoding.EncodeToString(b)
	}
	return hex.EncodeToString(b)
}

func signerFor(provider, secret string) (*verify.Verifier, error) {
	row, ok := verify.Lookup(provider)
	if !ok {
		return nil, fmt.Errorf("no provider %q", provider)
	}
	v, err := verify.New(verify.Config{Row: row, Secrets: []verify.Secret{{ID: "demo", Value: verify.NewSecretString(secret)}}})
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", provider, err)
	}
	return v, nil
}

func stripeBody(id, typ string, n int) any {
	return map[string]any{
		"id": id, "object": "event", "type": typ, "api_version": "2026-10-28", "created": 1796083200 + n, "livemode": false,
		"data": map[string]any{"object": map[string]any{"id": fmt.Sprintf("obj_%06d", n), "amount": 900 + 100*n, "currency": "eur"}},
	}
}

func githubBody(_, typ string, n int) any {
	return map[string]any{
		"action": "opened", "number": n, "sender": map[string]any{"login": "octo"},
		"repository": map[string]any{"full_name": "octo/shop"}, "kind": typ,
	}
}

func slackBody(id, typ string, n int) any {
	return map[string]any{
		"type": "event_callback", "event_id": id, "team_id": "T0DEMO", "event_time": 1796083200 + n,
		"event": map[string]any{"type": typ, "text": fmt.Sprintf("order %d?", n), "channel": "C0SHOP"},
	}
}

func standardBody(_, typ string, n int) any {
	return map[string]any{"type": typ, "timestamp": "2026-11-30T00:00:00Z", "data": map[string]any{"order": n}}
}

// shot is one request to send.
type shot struct {
	provider *demoProvider
	n        int // of the event, for people
	id, typ  string
	body     []byte
	want     fate
}

// planShots lays out n requests: a fifth are repeats of events that went before,
// two are forged, one has a known ID and another body, and the rest are new.
func planShots(ps []*demoProvider, n int, rnd *mathrand.Rand) ([]shot, error) {
	fates := make([]fate, 0, n)
	for range n / 5 {
		fates = append(fates, fateRepeat)
	}
	fates = append(fates, fateRefused, fateRefused, fateConflict)
	for len(fates) < n-demoHead {
		fates = append(fates, fateAccepted)
	}
	rnd.Shuffle(len(fates), func(i, j int) { fates[i], fates[j] = fates[j], fates[i] })
	for range demoHead { // so that there is something to repeat
		fates = append([]fate{fateAccepted}, fates...)
	}
	var shots, fresh []shot
	for i, f := range fates {
		s, err := planShot(ps, i, f, fresh, rnd)
		if err != nil {
			return nil, err
		}
		if f == fateAccepted {
			fresh = append(fresh, s)
		}
		shots = append(shots, s)
	}
	return shots, nil
}

// demoHead is how many new events a run begins with.
const demoHead = 4

// minDemoEvents leaves room for each kind of request.
const minDemoEvents = 10

func planShot(ps []*demoProvider, i int, want fate, fresh []shot, rnd *mathrand.Rand) (shot, error) {
	switch want {
	case fateRepeat:
		s := fresh[max(0, len(fresh)-2-rnd.IntN(8))] // not the newest: its own line comes first
		s.want = fateRepeat
		return s, nil
	case fateConflict:
		for j := len(fresh) - 1; j >= 0; j-- {
			if s := fresh[j]; s.provider.name == "stripe" {
				body, err := json.Marshal(s.provider.body(s.id, s.typ, 1000+i))
				s.body, s.want = body, fateConflict
				return s, err
			}
		}
	}
	p := ps[i%len(ps)]
	s := shot{provider: p, n: i + 1, id: demoID(p.name, i), typ: p.types[rnd.IntN(len(p.types))], want: want}
	var err error
	s.body, err = json.Marshal(p.body(s.id, s.typ, i))
	return s, err
}

// demoID makes an event ID that looks like the provider's.
func demoID(provider string, n int) string {
	switch provider {
	case "stripe":
		return fmt.Sprintf("evt_1Demo%04d", n)
	case "github":
		return fmt.Sprintf("72d3162e-cc78-11e3-81ab-4c9367dc%04x", n)
	case "slack":
		return fmt.Sprintf("Ev0DEMO%04d", n)
	}
	return fmt.Sprintf("msg_demo%04d", n)
}

// sent is a request and its answer.
type sent struct {
	shot
	got    fate
	status int
	took   time.Duration
	err    error
}

// demoSender sends signed requests and counts what it was told.
type demoSender struct {
	base   string // URL of the ingest listener
	client *http.Client
	now    func() time.Time
}

// send signs the shot afresh, as a provider does on each try, and sends it.
func (s *demoSender) send(ctx context.Context, sh shot) sent {
	out := sent{shot: sh, got: fateError}
	signer := sh.provider.signer
	if sh.want == fateRefused {
		signer = sh.provider.forger
	}
	began := s.now()
	url := s.base + "/in/" + sh.provider.source
	signed, err := signer.Sign(verify.SignRequest{Now: began, ID: sh.id, Type: sh.typ, URL: url, Body: sh.body})
	if err != nil {
		out.err = fmt.Errorf("sign for %s: %w", sh.provider.name, err)
		return out
	}
	answer, err := post(ctx, s.client, signed)
	if err != nil {
		out.err = err
		return out
	}
	out.took = s.now().Sub(began)
	out.status, out.got = answer.status, answer.fate()
	if out.got == fateRepeat && sh.want == fateConflict {
		out.got = fateConflict // answered alike; the sender knows that the body was another
	}
	return out
}

// answer is what a sender is told.
type answer struct {
	status   int
	replayed bool
	eventID  string
	body     []byte
}

func (a answer) fate() fate {
	switch {
	case a.status/100 == 2 && a.replayed:
		return fateRepeat
	case a.status/100 == 2:
		return fateAccepted
	case a.status == http.StatusUnprocessableEntity:
		return fateConflict
	case a.status == http.StatusUnauthorized:
		return fateRefused
	}
	return fateError
}

// post sends a signed request as it stands.
func post(ctx context.Context, client *http.Client, signed verify.SignedRequest) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, signed.Method, signed.URL, bytes.NewReader(signed.Body))
	if err != nil {
		return answer{}, fmt.Errorf("make request: %w", err)
	}
	req.Header = signed.Header
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("send: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return answer{}, fmt.Errorf("read the answer: %w", err)
	}
	var doc struct {
		EventID string `json:"event_id"`
	}
	_ = json.Unmarshal(body, &doc) // an answer in a provider's own form has none
	return answer{
		status: resp.StatusCode, replayed: resp.Header.Get("Idempotent-Replayed") == "true",
		eventID: doc.EventID, body: body,
	}, nil
}
