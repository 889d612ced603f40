package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/verify"
)

// capture is a request from a file.
type capture struct {
	req      verify.Request
	dated    bool     // the time of arrival is known
	provider string   // as a vector names it
	vector   []byte   // the JSON of a vector, which has its own secrets
	notes    []string // what is odd about the file
}

// capture reads a request: the text of HTTP/1.1, or a vector in JSON.
func (a *app) capture(text []byte, f explainFlags) (capture, error) {
	c := capture{req: verify.Request{Now: a.now()}}
	var err error
	if t := bytes.TrimSpace(text); len(t) > 0 && (t[0] == '{' || t[0] == '[') {
		err = c.readVector(t)
	} else {
		err = c.readHTTP(text)
	}
	if err != nil {
		return c, err
	}
	if f.url != "" {
		c.req.URL = f.url
		_, c.req.RawQuery, _ = strings.Cut(f.url, "?")
	}
	if f.at != "" {
		c.req.Now, err = arrival(f.at)
		c.dated = true
	}
	return c, err
}

// vectorFile is what is read of a vector here.
type vectorFile struct {
	Provider string                     `json:"provider"`
	Method   string                     `json:"method"`
	URL      string                     `json:"url"`
	Headers  map[string]json.RawMessage `json:"headers"`
	Body     string                     `json:"body"`
	Now      float64                    `json:"now"`
}

// readVector reads one vector, alone or as the only one of a file.
func (c *capture) readVector(text []byte) error {
	if text[0] == '[' {
		var all []json.RawMessage
		if err := json.Unmarshal(text, &all); err != nil {
			return fmt.Errorf("read vector: %w", err)
		}
		if len(all) != 1 {
			return usage("the file has %d vectors, want one", len(all))
		}
		text = all[0]
	}
	var v vectorFile
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("read vector: %w", err)
	}
	h := http.Header{}
	for name, raw := range v.Headers {
		var one string
		var many []string
		if json.Unmarshal(raw, &one) == nil {
			many = []string{one}
		} else if json.Unmarshal(raw, &many) != nil {
			return fmt.Errorf("read vector: header %s is neither text nor a list of it", name)
		}
		for _, val := range many {
			h.Add(name, val)
		}
	}
	_, query, _ := strings.Cut(v.URL, "?")
	c.req = verify.Request{Method: orDefault(v.Method, http.MethodPost), URL: v.URL, RawQuery: query, Header: h, Body: []byte(v.Body), Now: c.req.Now}
	if v.Now != 0 {
		c.req.Now, c.dated = time.UnixMilli(int64(v.Now*1000)), true
	}
	c.provider, c.vector = v.Provider, text
	return nil
}

// readHTTP reads a request as it goes over the wire. Lines of the head may end in
// LF alone; the body is taken to the byte.
func (c *capture) readHTTP(text []byte) error {
	head, body, ok := cutHead(text)
	if !ok {
		return errors.New("read request: there is no empty line after the headers")
	}
	req, err := http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(head), strings.NewReader("\r\n\r\n"))))
	if err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	if len(req.TransferEncoding) > 0 {
		whole, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
		if err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		if body, err = io.ReadAll(whole.Body); err != nil {
			return fmt.Errorf("read chunked body: %w", err)
		}
	} else {
		body = c.cutBody(req.Header.Get("Content-Length"), body)
	}
	at := req.RequestURI
	if strings.HasPrefix(at, "/") {
		scheme := "https"
		if p := req.Header.Get("X-Forwarded-Proto"); p == "http" || onLoopback("http://"+req.Host) {
			scheme = "http"
		}
		at = scheme + "://" + req.Host + at
	}
	c.req = verify.Request{Method: req.Method, URL: at, RawQuery: req.URL.RawQuery, Header: req.Header, Body: body, Now: c.req.Now}
	if t, err := time.Parse(time.RFC3339Nano, req.Header.Get("Onceward-Received-At")); err == nil {
		c.req.Now, c.dated = t, true
	}
	return nil
}

// cutHead cuts a request after its headers.
func cutHead(text []byte) (head, body []byte, ok bool) {
	for at := 0; at < len(text); {
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			return nil, nil, false
		}
		line := bytes.TrimSuffix(text[at:at+end], []byte("\r"))
		if len(line) == 0 && at > 0 {
			return bytes.TrimRight(text[:at], "\r\n"), text[at+end+1:], true
		}
		at += end + 1
	}
	return nil, nil, false
}

// cutBody holds the body against the length its header says: what an editor added
// at the end of the file is no part of it.
func (c *capture) cutBody(length string, body []byte) []byte {
	n, err := strconv.Atoi(length)
	switch {
	case length == "" || err != nil || n < 0 || n == len(body):
		return body
	case n > len(body):
		c.notes = append(c.notes, fmt.Sprintf("Content-Length is %d and the file has %d bytes of body: it was cut or changed", n, len(body)))
		return body
	case len(bytes.Trim(body[n:], "\r\n")) == 0:
		c.notes = append(c.notes, fmt.Sprintf("the file has %d more line ends than Content-Length says; they are left out", len(body)-n))
		return body[:n]
	}
	c.notes = append(c.notes, fmt.Sprintf("Content-Length is %d and the file has %d bytes of body: it was changed", n, len(body)))
	return body
}
