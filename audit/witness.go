package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// Witness remembers checkpoints where who rewrites the ledger can't reach
// them.
type Witness interface {
	// See is told each checkpoint once, in order, and returns when it is kept.
	See(ctx context.Context, c Checkpoint) error
}

// FileWitness appends checkpoints to a file, each synced. The file is worth
// what it takes to change it: put it on another machine's disk, or on one that
// only takes appends.
type FileWitness struct{ Path string }

// See appends the checkpoint in one write.
func (w FileWitness) See(_ context.Context, c Checkpoint) error {
	f, err := os.OpenFile(w.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open witness: %w", err)
	}
	_, err = f.WriteString(c.Note + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write witness: %w", err)
	}
	return nil
}

// URLWitness posts checkpoints, as they are, as text/plain.
type URLWitness struct {
	URL    string
	Client *http.Client // nil: one with a time limit that follows no redirect
}

const witnessTimeout = 10 * time.Second

// See posts the checkpoint; every answer but 2xx is an error. Errors don't
// show the URL, which may hold a credential.
func (w URLWitness) See(ctx context.Context, c Checkpoint) error {
	ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, strings.NewReader(c.Note))
	if err != nil {
		return errors.New("witness: its URL can't be used")
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	client := w.Client
	if client == nil {
		client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("witness can't be reached: %w", errors.Unwrap(err))
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // lets the connection be used again
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("witness answered %d", resp.StatusCode)
	}
	return nil
}
