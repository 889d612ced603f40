package receiver

import (
	"bytes"
	"net"
)

// spoiled takes the place of everything from the first line end that must not
// be: a header line without a valid name, at which net/http answers 400 and
// closes, after the answers to the requests before it. An error or an end in
// its place would cancel a request that is still under way.
const spoiled = "\n\x00:\r\n\r\n"

// framed is a plain HTTP/1 connection that ends at the first header block
// which two readers may take for two different requests. It looks at line
// ends and at the two headers that frame a body, and leaves everything else to
// net/http; what it refuses is listed at framing.scan. Bytes pass unchanged.
//
// It must see the bytes net/http sees: over TLS it stands above the decryption
// (see secure), where HTTP/2 frames are no business of its.
type framed struct {
	net.Conn
	framing framing
	deaf    func() bool // nobody wants to know of a sender that hangs up before its answer; nil is never
	busy    bool        // of the limiter that it came from
	spoil   string      // what is left of spoiled
	bad     bool
}

// Read passes on what came, up to the line end that must not be.
//
// While a request is answered net/http has a goroutine read one byte more, to end
// the request's context with its sender's connection. Where that makes no
// difference it is told at once that there is none, which ends that goroutine: it,
// two settings of a deadline and a read that finds nothing are a thirtieth of what
// an event costs.
func (c *framed) Read(p []byte) (int, error) {
	if c.bad {
		return c.spoilt(p), nil
	}
	if len(p) == 1 && c.framing.between() && c.deaf != nil && c.deaf() {
		return 0, nil
	}
	n, err := c.Conn.Read(p)
	if !framingGuard {
		return n, err
	}
	if ok := c.framing.scan(p[:n]); ok < n {
		c.bad, c.spoil = true, spoiled
		if c.framing.n == 0 { // its LF would end the block
			c.spoil = spoiled[1:]
		}
		return ok + c.spoilt(p[ok:]), nil
	}
	return n, err
}

// spoilt gives out what is left of spoiled, and from there on bytes that
// nobody reads as a request.
func (c *framed) spoilt(p []byte) int {
	if c.spoil == "" {
		clear(p[:min(1, len(p))])
		return min(1, len(p))
	}
	n := copy(p, c.spoil)
	c.spoil = c.spoil[n:]
	return n
}

// CloseWrite lets net/http end its half first, so that an answer arrives
// although the sender is still sending.
func (c *framed) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// maxPrefix is how much of a line is looked at: the longer of the two names,
// its colon, and a length of 18 digits with blanks around it.
const maxPrefix = 64

// framing follows the requests of one connection. The zero value stands at
// the start of the first.
type framing struct {
	begun  bool  // a request line was seen
	opaque bool  // nothing is looked at any more: the connection ends with this request
	body   int64 // bytes of a body still to come

	inBlock bool // past the request line
	length  bool // a Content-Length was seen
	coded   bool // a Transfer-Encoding was seen
	old     bool // the request line does not say HTTP/1.1
	next    int64

	line  [maxPrefix]byte // the start of the present line
	n     int             // bytes of it in line
	long  bool            // the line is longer
	tail  [9]byte         // the last bytes of the request line
	lastR bool            // the byte before was a CR
}

// scan goes over the next bytes and returns how many of them may pass: all,
// or those before the end of a line that is
//
//   - ended by a bare LF, or a continuation of the line before;
//   - a second Content-Length, or one that is no plain number;
//   - a second Transfer-Encoding, one beside a Content-Length, or one of a
//     request older than HTTP/1.1.
//
// A request with a Transfer-Encoding is the last of its connection (see
// Receiver.send): what follows its header block is not looked at.
func (f *framing) scan(p []byte) (ok int) {
	for i := 0; i < len(p); {
		if f.opaque {
			return len(p)
		}
		if f.body > 0 {
			k := min(f.body, int64(len(p)-i))
			f.body -= k
			i += int(k)
			continue
		}
		end := bytes.IndexByte(p[i:], '\n')
		if end < 0 {
			f.keep(p[i:])
			return len(p)
		}
		f.keep(p[i : i+end])
		if !f.endLine() {
			return i + end
		}
		i += end + 1
	}
	return len(p)
}

// between reports whether a request is whole and nothing of another has come.
func (f *framing) between() bool {
	return f.begun && !f.opaque && !f.inBlock && f.body == 0 && f.n == 0
}

// keep remembers what endLine needs of a part of a line.
func (f *framing) keep(b []byte) {
	if len(b) == 0 {
		return
	}
	k := copy(f.line[f.n:], b)
	f.n += k
	f.long = f.long || k < len(b)
	f.lastR = b[len(b)-1] == '\r'
	if f.inBlock {
		return
	}
	if len(b) >= len(f.tail) {
		copy(f.tail[:], b[len(b)-len(f.tail):])
		return
	}
	copy(f.tail[:], f.tail[len(b):])
	copy(f.tail[len(f.tail)-len(b):], b)
}

// endLine judges the line that ends here; false when it must not be.
func (f *framing) endLine() bool {
	if !f.lastR {
		return false // and n says whether anything was on it
	}
	line := f.line[:f.n]
	if !f.long {
		line = line[:len(line)-1]
	}
	ok := true
	switch {
	case !f.inBlock:
		f.begun, f.inBlock, f.old = true, true, string(f.tail[:]) != "HTTP/1.1\r"
	case len(line) == 0:
		f.endBlock()
	case line[0] == ' ' || line[0] == '\t':
		ok = false
	default:
		ok = f.header(line)
	}
	f.n, f.long, f.lastR = 0, false, false
	return ok
}

// header judges a header line by its start.
func (f *framing) header(line []byte) bool {
	if first := line[0] | 0x20; first != 'c' && first != 't' {
		return true
	}
	name, value, _ := bytes.Cut(line, []byte{':'})
	switch {
	case bytes.EqualFold(name, []byte("Content-Length")):
		if f.length || f.coded || f.long {
			return false
		}
		f.length = true
		return f.number(bytes.Trim(value, " \t"))
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		if f.length || f.coded || f.old {
			return false
		}
		f.coded = true
	}
	return true
}

// number reads a length of 1 to 18 digits.
func (f *framing) number(digits []byte) bool {
	if len(digits) == 0 || len(digits) > 18 {
		return false
	}
	f.next = 0
	for _, d := range digits {
		if d < '0' || d > '9' {
			return false
		}
		f.next = 10*f.next + int64(d-'0')
	}
	return true
}

func (f *framing) endBlock() {
	f.opaque, f.body = f.coded, f.next
	f.inBlock, f.length, f.coded, f.old, f.next = false, false, false, false, 0
	f.tail = [9]byte{}
}
