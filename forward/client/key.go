package client

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
)

// NewKey is a random UUID, version 4, as text: 122 bits that nobody guesses
// and no two operations share. Callers that must keep an operation's key over
// a restart make it here, store it, and set it as Header.
func NewKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: without randomness the program ends
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	text := make([]byte, 0, 36)
	for i, part := range [...][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if i > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, part)
	}
	return string(text)
}

// keyOf is the key of the operation that req belongs to: the caller's, that
// of the request whose redirect brought it here with the same method, or a
// new one.
func keyOf(req *http.Request) string {
	if key := req.Header.Get(Header); key != "" {
		return key
	}
	if from := req.Response; from != nil && from.Request != nil && from.Request.Method == req.Method {
		if key := from.Request.Header.Get(Header); key != "" {
			return key
		}
	}
	return NewKey()
}
