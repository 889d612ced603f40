package verify

import (
	"bytes"
	"context"
	"net/url"

	"github.com/tidwall/gjson"
)

// jsonState is what is known about a text as JSON.
type jsonState uint8

const (
	jsonUnknown jsonState = iota
	jsonValid
	jsonInvalid
	jsonTooDeep
)

// exchange is the scratch memory of one verification: what was already found in
// the request, so that nothing is parsed twice, and buffers that are used again.
// It belongs to one goroutine between get and put.
type exchange struct {
	req *Request
	ctx context.Context // of this one verification; it ends with the call
	url string          // the signed URL

	timestamp string // as it was sent
	id        string // the signed ID header
	secret    []byte // for plain digests only

	cands   candidates
	sigText string // the signature's own list, for sig: locators
	sigSep  string

	options map[string]string // the source's settings
	plain   []byte            // what an encrypted body holds, or a token's claims
	claims  []byte            // of the verified token
	inner   []byte            // the form field with a batch
	parent  []byte            // what encloses the element looked at

	state    jsonState
	formVals url.Values
	haveForm bool
	vals     url.Values
	haveVals bool

	buf []byte // text on its way into a hash
	sum []byte // the computed signature
}

// reset forgets the request and keeps the buffers.
func (x *exchange) reset() {
	*x = exchange{buf: x.buf[:0], sum: x.sum[:0]}
	if cap(x.buf) > 64<<10 {
		x.buf = nil
	}
}

// json returns the state of the body.
func (x *exchange) json() jsonState {
	if x.state == jsonUnknown {
		x.state = checkJSON(x.plainBody())
	}
	return x.state
}

// doc returns the body where it is valid JSON, else nil.
func (x *exchange) doc() []byte {
	if x.json() != jsonValid {
		return nil
	}
	return x.plainBody()
}

// plainBody returns what is inside an encrypted body, else the body.
func (x *exchange) plainBody() []byte {
	if x.plain != nil {
		return x.plain
	}
	return x.req.Body
}

// query returns the parsed query; what can't be parsed is not there.
func (x *exchange) query() url.Values {
	if !x.haveVals {
		x.vals, _ = url.ParseQuery(x.req.RawQuery)
		x.haveVals = true
	}
	return x.vals
}

// checkJSON says whether b is one JSON text of bounded depth.
func checkJSON(b []byte) jsonState {
	// Counting brackets costs next to nothing and spares most bodies the walk.
	if bytes.Count(b, []byte{'{'})+bytes.Count(b, []byte{'['}) > MaxDepth && tooDeep(b) {
		return jsonTooDeep
	}
	// It takes what encoding/json takes, in half the time; FuzzValid holds the
	// two against each other. It recurses, which the depth has bounded.
	if !gjson.ValidBytes(b) {
		return jsonInvalid
	}
	return jsonValid
}

// tooDeep reports whether brackets outside of strings nest deeper than MaxDepth.
// It needs no valid JSON and uses no memory.
func tooDeep(b []byte) bool {
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString:
			if c == '\\' {
				i++
			} else if c == '"' {
				inString = false
			}
		case c == '"':
			inString = true
		case c == '[' || c == '{':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}
