//go:build torture && linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// remembered bounds what a ledger may grow by while nothing authentic arrives:
// the counts of refusals and the checkpoints of some minutes.
const remembered = 64 << 10

// forge sends n events that are not authentic, each with an ID of its own, and
// lists answers that are not 401.
func (e *edge) forge(n int) (faults []string) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32, DisableCompression: true}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				status, err := e.forged(client, int(i))
				if status == http.StatusUnauthorized && err == nil {
					continue
				}
				mu.Lock()
				if len(faults) < 5 {
					faults = append(faults, fmt.Sprintf("forged event %d was answered %d, %v", i, status, err))
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return faults
}

// forged sends one of them: signed with another secret, not signed, or with what
// is no signature.
func (e *edge) forged(c *http.Client, i int) (status int, err error) {
	id := fmt.Sprint("forged-", i)
	body := fmt.Appendf(nil, `{"id":%q}`, id)
	req, err := http.NewRequest(http.MethodPost, e.url("/in/gh"), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	e.sign(req.Header, id, body)
	const name = "X-Hub-Signature-256"
	switch i % 3 {
	case 0:
		req.Header.Set(name, "sha256="+fmt.Sprintf("%x", mac([]byte("another secret"), string(body))))
	case 1:
		req.Header.Del(name)
	default:
		req.Header.Set(name, "sha256="+strings.Repeat("z", 64))
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// stored is how many bytes the data directory holds: zeros that were written
// ahead in a file count for nothing.
func (e *edge) stored() (sum int) {
	e.t.Helper()
	must(e.t, filepath.WalkDir(filepath.Join(e.dir, "data"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		sum += len(bytes.TrimRight(b, "\x00"))
		return err
	}))
	return sum
}

// TestEdgeForged sends 20,000 events that are not authentic, a million in tier N,
// each with an ID of its own: nothing of them is remembered, on disk or in
// memory, and an authentic event with such an ID is new.
func TestEdgeForged(t *testing.T) {
	t.Parallel()
	n := count(t, "TORTURE_FORGED", 20_000)
	if long() {
		n = count(t, "TORTURE_FORGED", 1_000_000)
	}
	res := &Result{Fault: "forged events with IDs of their own", Cycles: n}
	record(t, res)
	e := newEdge(t, asShipped, "", e2signed())
	e.boot()
	for _, f := range e.forge(1000) {
		t.Error(f)
	}
	before, was := e.rest(), e.stored()
	for _, f := range e.forge(n) {
		t.Error(f)
	}
	after, is := e.rest(), e.stored()
	res.Note = fmt.Sprintf("%d refused: the store has %d bytes more; before: %v; after: %v", n, is-was, before, after)
	fmt.Println(res.Note)
	if is-was > remembered {
		t.Errorf("the store grew by %d bytes over %d forged events, want at most %d", is-was, n, remembered)
	}
	if after.goroutines > before.goroutines+16 || after.fds > before.fds+16 || after.heap > before.heap*1.1+16<<20 {
		t.Errorf("before: %v; after: %v", before, after)
	}
	status, repeat, _, err := e.bring(e.http, "forged-7", []byte(`{"id":"forged-7"}`))
	if status != http.StatusOK || repeat || err != nil {
		t.Errorf("an authentic event with an ID that was forged: %d, repeat %v, %v", status, repeat, err)
	}
	res.Acknowledged = 1
	res.Lost = e.missing(1)
}

// TestControlEdgeForged sends authentic events instead: the store grows by far
// more than the forged may make it.
func TestControlEdgeForged(t *testing.T) {
	t.Parallel()
	e := newEdge(t, asShipped, "", e2signed())
	e.boot()
	was := e.stored()
	const n = 1000
	for i := range n {
		if status, _, _, err := e.bring(e.http, fmt.Sprint("true-", i), fmt.Appendf(nil, `{"n":%d}`, i)); status != http.StatusOK || err != nil {
			t.Fatalf("event %d was answered %d, %v", i, status, err)
		}
	}
	grown := e.stored() - was
	noticed(t, "events remembered", 0, grown > remembered, fmt.Sprintf("%d events make %d bytes", n, grown))
}
