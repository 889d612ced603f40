package forward

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strings"
)

// keeper reads answers. It belongs to one worker.
type keeper struct {
	buf    []byte   // of maxHeadKept
	names  []string // reused
	hidden [][]byte // replaced where an answer holds them
}

func newKeeper(hidden [][]byte) *keeper {
	return &keeper{buf: make([]byte, 0, maxHeadKept), hidden: hidden}
}

// minRedacted is the least length of a secret that is looked for.
const minRedacted = 8

// parts is a header's value, its last word where that is the credential, as in
// "Bearer abc", and the password where that is a Basic one.
func parts(value string) []string {
	i := strings.LastIndexByte(value, ' ')
	if i < 0 {
		return []string{value}
	}
	out := []string{value, value[i+1:]}
	if strings.EqualFold(value[:i], "Basic") {
		pair, err := base64.StdEncoding.DecodeString(value[i+1:])
		if _, password, ok := strings.Cut(string(pair), ":"); ok && err == nil {
			out = append(out, password)
		}
	}
	return out
}

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
	return k.redacted()
}

// redacted is what was kept, with the target's secrets replaced. One that the
// bound cut in two is replaced as well.
func (k *keeper) redacted() []byte {
	out := slices.Clone(k.buf)
	for _, secret := range k.hidden {
		out = bytes.ReplaceAll(out, secret, hiddenMark)
		for n := min(len(secret)-1, len(out)); n >= minRedacted && len(k.buf) == maxHeadKept; n-- {
			if bytes.HasSuffix(out, secret[:n]) {
				out = append(out[:len(out)-n], hiddenMark...)
				break
			}
		}
	}
	return out[:min(len(out), maxHeadKept)]
}

var hiddenMark = []byte("[redacted]")

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
