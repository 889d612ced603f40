//go:build torture

package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ambiguous is a request that two readers may take for two different ones.
type ambiguous struct {
	name, text string
	taken      bool
}

// smuggling are requests whose end two readers may see in two places, or which
// no proxy and server read alike. A follower comes after each on the same
// connection. taken says that the request itself is good in our reading; then
// it and the follower may be answered, each once, and nothing else.
var smuggling = []ambiguous{
	{"length, then coding", "POST /in/open HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
	{"coding, then length", "POST /in/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", false},
	{"both in odd case", "POST /in/open HTTP/1.1\r\nHost: x\r\ncontent-LENGTH: 4\r\nTRANSFER-encoding: chunked\r\n\r\n0\r\n\r\n", false},
	{"two lengths", "POST /in/open HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 90\r\n\r\n", false},
	{"the same length twice", "POST /in/open HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", false},
	{"a list of lengths", "POST /in/open HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\na", false},
	{"length with a sign", "POST /in/open HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na", false},
	{"negative length", "POST /in/open HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\na", false},
	{"hexadecimal length", "POST /in/open HTTP/1.1\r\nHost: x\r\nContent-Length: 0x1\r\n\r\na", false},
	{"empty length", "POST /in/open HTTP/1.1\r\nHost: x\r\nContent-Length: \r\n\r\na", false},
	{"length with a blank inside", "POST /in/open HTTP/1.1\r\nHost: x\r\nContent-Length: 1 1\r\n\r\na", false},
	{"length past 64 bits", "POST /in/open HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551617\r\n\r\na", false},
	{"blank before the colon", "POST /in/open HTTP/1.1\r\nHost: x\r\nContent-Length : 1\r\n\r\na", false},
	{"tab before the colon", "POST /in/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", false},
	{"unknown coding", "POST /in/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", false},
	{"identity", "POST /in/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n", false},
	{"chunked, identity", "POST /in/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", false},
	{"chunked twice", "POST /in/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
	{"coding with a vertical tab", "POST /in/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", false},
	{"coding with a nul", "POST /in/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\x00\r\n\r\n0\r\n\r\n", false},
	{"coding in quotes", "POST /in/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", false},
	{"coding of an old request", "POST /in/open HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
	{"bare LF in the block", "POST /in/open HTTP/1.1\r\nHost: x\nContent-Length: 1\r\n\r\na", false},
	{"bare LF before the block's end", "POST /in/open HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\na", false},
	{"bare LF everywhere", "POST /in/open HTTP/1.1\nHost: x\nContent-Length: 1\n\na", false},
	{"bare CR in a value", "POST /in/open HTTP/1.1\r\nHost: x\r\nX-A: a\rContent-Length: 90\r\nContent-Length: 1\r\n\r\na", false},
	{"nul in a value", "POST /in/open HTTP/1.1\r\nHost: x\r\nX-A: a\x00b\r\nContent-Length: 1\r\n\r\na", false},
	{"nul in a name", "POST /in/open HTTP/1.1\r\nHost: x\r\nX\x00A: a\r\nContent-Length: 1\r\n\r\na", false},
	{"folded value", "POST /in/open HTTP/1.1\r\nHost: x\r\nX-A: a\r\n b\r\nContent-Length: 1\r\n\r\na", false},
	{"folded coding", "POST /in/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", false},
	{"folded first line", "POST /in/open HTTP/1.1\r\n Host: x\r\nContent-Length: 1\r\n\r\na", false},
	{"no colon", "POST /in/open HTTP/1.1\r\nHost: x\r\nContent-Length 1\r\n\r\na", false},
	{"no Host", "POST /in/open HTTP/1.1\r\nContent-Length: 1\r\n\r\na", false},
	{"two Hosts", "POST /in/open HTTP/1.1\r\nHost: x\r\nHost: y\r\nContent-Length: 1\r\n\r\na", false},
	{"a Host with a blank", "POST /in/open HTTP/1.1\r\nHost: x y\r\nContent-Length: 1\r\n\r\na", false},
	{"no version", "POST /in/open\r\nHost: x\r\nContent-Length: 1\r\n\r\na", false},
	{"another version", "POST /in/open HTTP/3.7\r\nHost: x\r\nContent-Length: 1\r\n\r\na", false},
	{"HTTP/2 without TLS", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", false},
	{"empty first line", "\r\nPOST /in/open HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na", false},
	{"a chunk size with a sign", "POST /in/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n", false},
	{"a chunk size of 17 digits", "POST /in/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000001\r\na\r\n0\r\n\r\n", false},
	{"a chunk size ended by LF", "POST /in/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n", false},
	{"a chunk without its CRLF", "POST /in/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na0\r\n\r\n", false},
	{"chunked as it should be", "POST /in/open HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", true},
	{"names with underscores", "POST /in/open HTTP/1.1\r\nHost: x\r\nContent_Length: 9\r\nTransfer_Encoding: chunked\r\nContent-Length: 1\r\n\r\na", true},
	{"upgrade to HTTP/2", "POST /in/open HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 1\r\n\r\na", true},
}

// smuggle sends each of them with a follower and lists what went wrong.
func smuggle(e *edge) (faults []string) {
	var mu sync.Mutex
	var all sync.WaitGroup
	places := make(chan struct{}, 16)
	followers := map[string]int{}
	for i, tt := range smuggling {
		body := "follower of " + tt.name
		followers[hashOf([]byte(body))] = i
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			fault := tt.judge(e.exchange(tt.text + fmt.Sprintf("POST /in/open HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)))
			mu.Lock()
			defer mu.Unlock()
			if fault != "" {
				faults = append(faults, tt.name+": "+fault)
			}
		})
	}
	all.Wait()
	for _, s := range e.account() {
		if i, is := followers[s.Hash]; is && (!smuggling[i].taken || strings.HasPrefix(smuggling[i].name, "chunked")) {
			faults = append(faults, smuggling[i].name+": its follower became an event")
		}
	}
	return faults
}

// judge says what is wrong with the answers to a request and its follower.
func (tt ambiguous) judge(answers []*http.Response, closed bool) string {
	var statuses []int
	for _, a := range answers {
		statuses = append(statuses, a.StatusCode)
	}
	good := slices.IndexFunc(statuses, func(s int) bool { return s/100 == 2 }) >= 0
	switch {
	case len(answers) == 0 && !closed:
		return "no answer, and the connection stays open"
	case tt.taken && !good:
		return fmt.Sprintf("answered %v, want 200", statuses)
	case !tt.taken && (good || !closed || len(answers) > 1):
		return fmt.Sprintf("answered %v, closed %v, want one refusal and the end", statuses, closed)
	case !tt.taken && len(answers) == 1 && !answers[0].Close:
		return fmt.Sprintf("answered %v without Connection: close", statuses)
	}
	return ""
}

// TestEdgeSmuggling sends raw requests that are read in two ways: each is
// refused once, ends its connection, and what follows it is never an event.
func TestEdgeSmuggling(t *testing.T) {
	t.Parallel()
	res := &Result{Fault: "smuggled requests", Cycles: len(smuggling)}
	record(t, res)
	e := newEdge(t, asShipped, "", openSource)
	e.boot()
	for _, f := range smuggle(e) {
		t.Error(f)
	}
	if answers, _ := e.exchange("POST /in/open HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\ngood"); len(answers) != 1 || answers[0].StatusCode != 200 {
		t.Errorf("a good request afterwards got %v", answers)
	}
	must(t, e.p.Stop(within(t, e.stopTime())))
}

// TestControlEdgeSmuggling leaves framing to net/http: some of them get
// through.
func TestControlEdgeSmuggling(t *testing.T) {
	t.Parallel()
	e := newEdge(t, noFraming, "", openSource)
	e.boot()
	faults := smuggle(e)
	noticed(t, "framing left to net/http", 0, len(faults) > 0, fmt.Sprintf("%d of %d got through", len(faults), len(smuggling)))
}
