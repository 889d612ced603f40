package forward

import (
	"io"
	"net/http"
	"slices"
	"strings"
)

// keeper reads answers. It belongs to one worker.
type keeper struct {
	buf   []byte   // of maxHeadKept
	names []string // reused
}

func newKeeper() *keeper { return &keeper{buf: make([]byte, 0, maxHeadKept)} }

// keep reads resp to its end, or to a bound after which the connection is
// given up, and returns what the account keeps of it: status line, headers in
// order with credentials replaced, and the first bytes of the body, at most
// 4 KiB in all. It closes the body. A fault while reading is none: the status
// has decided.
func (k *keeper) keep(resp *http.Response) []byte {
	defer resp.Body.Close()
	k.head(resp)
	if resp.Body != http.NoBody && resp.StatusCode != http.StatusSwitchingProtocols {
		k.body(resp.Body)
	}
	return slices.Clone(k.buf)
}

func (k *keeper) head(resp *http.Response) {
	k.buf = k.buf[:0]
	k.put(resp.Proto, " ", resp.Status, "\r\n")
	k.names = k.names[:0]
	for name := range resp.Header {
		k.names = append(k.names, name)
	}
	slices.Sort(k.names)
	for _, name := range k.names {
		for _, value := range resp.Header[name] {
			if credential(name) {
				value = "[redacted]"
			}
			k.put(name, ": ", value, "\r\n")
		}
	}
	k.put("\r\n")
}

func (k *keeper) put(parts ...string) {
	for _, p := range parts {
		k.buf = append(k.buf, p[:min(len(p), maxHeadKept-len(k.buf))]...)
	}
}

func (k *keeper) body(r io.Reader) {
	for len(k.buf) < maxHeadKept {
		n, err := r.Read(k.buf[len(k.buf):maxHeadKept])
		k.buf = k.buf[:len(k.buf)+n]
		if err != nil {
			return
		}
	}
	_, _ = io.CopyN(io.Discard, r, maxDrain)
}

// credential names headers of an answer whose values are not kept.
func credential(name string) bool {
	name = strings.ToLower(name)
	for _, part := range [...]string{"cookie", "authori", "authenticat", "token", "secret", "api-key", "apikey", "password"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
