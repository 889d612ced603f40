package inbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/onceward/onceward/dedupe/inbox"
)

// A target that books each event once, however often it is sent.
func Example() {
	dir, _ := os.MkdirTemp("", "shop")
	defer os.RemoveAll(dir)
	db, _ := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	defer db.Close()
	box, err := inbox.New(inbox.Config{Dialect: inbox.SQLite, Effect: "booking"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_ = box.Create(ctx, db)
	_, _ = db.ExecContext(ctx, "CREATE TABLE bookings (amount integer)")

	book := func(ctx context.Context, key string, amount int) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		first, err := box.Once(ctx, tx, key)
		if err != nil {
			return err
		}
		if first {
			if _, err := tx.ExecContext(ctx, "INSERT INTO bookings (amount) VALUES (?)", amount); err != nil {
				return err
			}
		}
		return tx.Commit()
	}
	for range 3 { // an answer got lost, and lost again
		if err := book(ctx, "stripe:evt_1", 500); err != nil {
			fmt.Println(err)
		}
	}
	var n, sum int
	_ = db.QueryRowContext(ctx, "SELECT count(*), sum(amount) FROM bookings").Scan(&n, &sum)
	fmt.Println(n, "booking of", sum)
	// Output: 1 booking of 500
}

// Only requests that the gateway signed reach the handler. Two secrets are
// good while one takes the other's place.
func ExampleVerifier_Middleware() {
	older := "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("1"), 32))
	newer := "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("2"), 32))
	v, err := inbox.NewVerifier(inbox.VerifyConfig{Secrets: []string{newer, older}})
	if err != nil {
		fmt.Println(err)
		return
	}
	h := v.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("handled", inbox.Key(r))
	}))

	// As the gateway sends it, still with the older secret.
	at, body := time.Now(), []byte(`{"amount":500}`)
	signer, _ := standard.NewWebhook(older)
	signature, _ := signer.Sign("01JRF", at, body)
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("Idempotency-Key", "stripe:evt_1")
	r.Header.Set("Webhook-Id", "01JRF")
	r.Header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	r.Header.Set("Webhook-Signature", signature)
	h.ServeHTTP(httptest.NewRecorder(), r)

	forged := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, forged)
	fmt.Println(w.Code)
	// Output:
	// handled stripe:evt_1
	// 401
}

// Keys are forgotten once the gateway can't send them again.
func ExampleInbox_Prune() {
	dir, _ := os.MkdirTemp("", "shop")
	defer os.RemoveAll(dir)
	db, _ := sql.Open("sqlite", "file:"+filepath.Join(dir, "shop.db"))
	defer db.Close()
	box, _ := inbox.New(inbox.Config{Dialect: inbox.SQLite})
	ctx := context.Background()
	_ = box.Create(ctx, db)
	n, err := box.Prune(ctx, db, 35*24*time.Hour)
	fmt.Println(n, err)
	// Output: 0 <nil>
}
