package verify_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/onceward/onceward/verify"
)

// A request is verified over the bytes that came, and its event named.
func Example() {
	row, _ := verify.Lookup("github")
	v, err := verify.New(verify.Config{
		Row:     row,
		Secrets: []verify.Secret{{ID: "2026-11", Value: verify.NewSecretString("It's a Secret to Everybody")}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	res := v.Verify(&verify.Request{
		Method: http.MethodPost,
		Header: http.Header{
			"X-Hub-Signature-256": {"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
			"X-Github-Delivery":   {"72d3162e-cc78-11e3-81ab-4c9367dc0958"},
			"X-Github-Event":      {"push"},
		},
		Body: []byte("Hello, World!"),
		Now:  time.Now(),
	})
	fmt.Println(res.Reason, res.Secret)
	for _, ev := range res.Events {
		fmt.Println(ev.ID, ev.Type)
	}
	// Output:
	// ok 2026-11
	// 72d3162e-cc78-11e3-81ab-4c9367dc0958 push
}

// A changed byte is refused, with a reason for the operator.
func ExampleVerifier_Verify_refused() {
	row, _ := verify.Lookup("github")
	v, err := verify.New(verify.Config{
		Row:     row,
		Secrets: []verify.Secret{{ID: "2026-11", Value: verify.NewSecretString("It's a Secret to Everybody")}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	res := v.Verify(&verify.Request{
		Method: http.MethodPost,
		Header: http.Header{"X-Hub-Signature-256": {"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}},
		Body:   []byte("Hello, World?"),
		Now:    time.Now(),
	})
	fmt.Println(res.Reason, len(res.Events))
	// Output: signature_mismatch 0
}

// A signed request for a test, from any row whose secret signs.
func ExampleVerifier_Sign() {
	row, _ := verify.Lookup("standard_webhooks")
	v, err := verify.New(verify.Config{
		Row:     row,
		Secrets: []verify.Secret{{ID: "test", Value: verify.NewSecretString("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Unix(1767225600, 0)
	signed, err := v.Sign(verify.SignRequest{ID: "msg_1", Type: "order.paid", Body: []byte(`{"type":"order.paid"}`), Now: now})
	if err != nil {
		fmt.Println(err)
		return
	}
	res := v.Verify(&verify.Request{Method: http.MethodPost, Header: signed.Header, Body: signed.Body, Now: now})
	fmt.Println(res.Reason, res.Events[0].ID)
	// Output: ok msg_1
}
