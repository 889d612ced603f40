//go:build torture

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// catch is one request at an edgeTarget.
type catch struct {
	hash   string
	size   int
	header http.Header
	path   string
}

// edgeTarget is a target that keeps the hashes of what it got.
type edgeTarget struct {
	addr  string
	delay time.Duration

	mu  sync.Mutex
	got []catch
	n   int
}

// target serves until the test ends.
func (e *edge) target() *edgeTarget {
	e.t.Helper()
	et := &edgeTarget{}
	et.addr = listen(e.t, et)
	return et
}

// listen serves h until the test ends, and says where.
func listen(t *testing.T, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func (et *edgeTarget) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if et.delay > 0 {
		t := time.NewTimer(et.delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
		}
	}
	et.mu.Lock()
	defer et.mu.Unlock()
	et.n++
	if len(et.got) < 1000 {
		et.got = append(et.got, catch{hashOf(body), len(body), r.Header.Clone(), r.URL.RequestURI()})
	}
}

func (et *edgeTarget) count() int {
	et.mu.Lock()
	defer et.mu.Unlock()
	return et.n
}

func (et *edgeTarget) last() catch {
	et.mu.Lock()
	defer et.mu.Unlock()
	return et.got[len(et.got)-1]
}

// config is the target under a name.
func (et *edgeTarget) config(name string) string {
	return fmt.Sprintf("[[target]]\nname = %q\nurl = \"http://%s/%s\"\ninitial = \"50ms\"\nmax = \"1s\"\ntimeout = \"10s\"\n", name, et.addr, name)
}
