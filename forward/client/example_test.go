package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/onceward/onceward/forward/client"
)

// A payment is made once, though the service fails twice on the way.
func Example() {
	keys := map[string]int{}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		if keys[key]++; keys[key] < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "charged once, asked %d times with one key", keys[key])
	}))
	defer service.Close()

	c := &http.Client{
		Timeout:   time.Minute, // of the whole operation, waits included
		Transport: client.New(client.Config{Initial: time.Millisecond}),
	}
	resp, err := c.Post(service.URL, "application/x-www-form-urlencoded", strings.NewReader("amount=500"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, len(keys))
	// Output: 200 OK 1
}

// An operation that must survive a restart of its caller has its key stored
// before it is begun.
func ExampleNewKey() {
	key := client.NewKey() // store it beside the order
	req, _ := http.NewRequest(http.MethodPost, "https://pay.example/charges", strings.NewReader("amount=500"))
	req.Header.Set(client.Header, key)
	fmt.Println(len(req.Header.Get("Idempotency-Key")))
	// Output: 36
}

// Observe tells of every attempt, for a log or a metric.
func ExampleConfig_observe() {
	first := true
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if first {
			first = false
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer service.Close()
	c := &http.Client{Transport: client.New(client.Config{Initial: time.Millisecond, Observe: func(a client.Attempt) {
		fmt.Println("attempt", a.Number, a.Answer.StatusCode, "last:", a.Last)
	}})}
	resp, err := c.Post(service.URL, "application/json", strings.NewReader(`{"amount":500}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	// Output:
	// attempt 1 502 last: false
	// attempt 2 200 last: true
}
