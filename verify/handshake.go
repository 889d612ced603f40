package verify

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// handshake is a rule made ready.
type handshake struct {
	rule    Handshake
	detect  conditions
	compare []comparison
	pending bool // the rule applies
	capture source
	confirm source
	hosts   urlRule
	body    []echoPart
	json    []namedEcho
	header  []namedEcho
	custom  customHandshake // in place of the template
}

// comparison holds a value against digests of what it may be.
type comparison struct {
	src    source
	wants  [][sha256.Size]byte
	secret bool // any secret of the source
}

// compile makes the rule ready. With opts nil, comparisons are parsed and their
// options are not looked up.
func (h Handshake) compile(opts map[string]string) (*handshake, error) {
	c := &handshake{rule: h, hosts: urlRule{hosts: h.ConfirmHosts}}
	var errs []error
	bad := func(err error) { errs = append(errs, err) }
	var err error
	c.detect, err = parseConditions("detect", h.Detect, opts)
	bad(err)
	if len(h.Detect) == 0 && (h.Method == "" || h.Method == http.MethodPost) {
		bad(errors.New("detect: nothing tells the handshake from an event"))
	}
	bad(c.compileCompare(opts))
	if !h.Verify && len(h.Compare) == 0 && !h.Open {
		bad(errors.New("neither verifies nor compares, and does not say open"))
	}
	bad(c.compileAction(opts))
	bad(c.compileAnswer())
	if h.Status != 0 && (h.Status < 200 || h.Status > 299) {
		bad(fmt.Errorf("status %d: want 2xx", h.Status))
	}
	if h.Fail != 0 && (h.Fail < 400 || h.Fail > 499) {
		bad(fmt.Errorf("fail %d: want 4xx", h.Fail))
	}
	return c, wrap(fmt.Sprintf("handshake %q", h.Name), errors.Join(errs...))
}

func (c *handshake) compileAction(opts map[string]string) error {
	h := &c.rule
	var errs []error
	c.pending = h.Pending == "" || opts[h.Pending] == "true"
	if h.Capture != "" {
		var err error
		c.capture, err = parseSource(h.Capture)
		if err == nil && h.Pending == "" {
			err = errors.New("a secret that anyone may hand over needs pending")
		}
		errs = append(errs, wrap("capture", err))
	}
	if h.Confirm != "" {
		var err error
		c.confirm, err = parseSource(h.Confirm)
		if err == nil && len(h.ConfirmHosts) == 0 {
			err = errors.New("a URL that the request names needs confirm_hosts")
		}
		errs = append(errs, wrap("confirm", err))
	}
	return errors.Join(append(errs, wrap("confirm_hosts", checkHosts(h.ConfirmHosts)))...)
}

func (c *handshake) compileAnswer() error {
	h := &c.rule
	var errs []error
	bad := func(err error) { errs = append(errs, err) }
	if h.Body != "" && len(h.JSON) > 0 {
		bad(errors.New("body and json exclude each other"))
	}
	var err error
	c.body, err = parseEcho(h.Body)
	bad(err)
	c.json, err = parseEchoes(h.JSON)
	bad(err)
	c.header, err = parseEchoes(h.Header)
	bad(err)
	if strings.Contains(h.ContentType, "html") || strings.Contains(h.ContentType, "svg") || strings.Contains(h.ContentType, "xml") && hasEcho(c.body) {
		bad(fmt.Errorf("content type %q: what a sender chose is never answered as a page", h.ContentType))
	}
	if strings.Contains(h.ContentType, "json") && hasEcho(c.body) {
		bad(errors.New("body: what a sender chose goes through json"))
	}
	if h.Custom != "" {
		if c.custom = customHandshakes()[h.Custom]; c.custom == nil {
			bad(fmt.Errorf("custom %q: is not known", h.Custom))
		}
	}
	if !h.Verify && len(h.Compare) == 0 && !h.SignsOutsider && (c.signs() || h.Custom != "") {
		bad(errors.New("signs what an outsider chose, and does not say signs_outsider"))
	}
	return errors.Join(errs...)
}

// signs reports whether an answer depends on a secret and on the request.
func (c *handshake) signs() bool {
	for _, parts := range append(allParts(c.json), append(allParts(c.header), c.body)...) {
		for _, p := range parts {
			if p.signs() {
				return true
			}
		}
	}
	return false
}

func allParts(list []namedEcho) [][]echoPart {
	out := make([][]echoPart, len(list))
	for i, e := range list {
		out[i] = e.parts
	}
	return out
}

func (c *handshake) compileCompare(opts map[string]string) error {
	var errs []error
	for _, s := range c.rule.Compare {
		at, option, ok := strings.Cut(s, "=")
		if !ok || option == "" {
			errs = append(errs, fmt.Errorf("compare %q: want locator=option", s))
			continue
		}
		src, err := parseSource(at)
		errs = append(errs, wrap("compare", err))
		cmp := comparison{src: src, secret: option == "secret"}
		// An option that is not set equals nothing: the handshake fails.
		for _, want := range optionValues(opts[option]) {
			cmp.wants = append(cmp.wants, sha256.Sum256([]byte(want)))
		}
		c.compare = append(c.compare, cmp)
	}
	return errors.Join(errs...)
}

// optionValues returns the elements of an option that is a list: a JSON array, or
// the whole text and its parts between commas.
func optionValues(s string) []string {
	var list []string
	if strings.HasPrefix(s, "[") && json.Unmarshal([]byte(s), &list) == nil {
		return list
	}
	if s == "" {
		return nil
	}
	list = []string{s}
	if strings.Contains(s, ",") {
		list = append(list, splitList(s)...)
	}
	return list
}

// matches reports whether the request is this handshake.
func (c *handshake) matches(x *exchange) bool {
	return c.pending && (c.rule.Method == "" || c.rule.Method == x.req.Method) && c.detect.hold(x)
}

// equal compares with everything that would do, in constant time.
func (c *comparison) equal(x *exchange, keys []key) bool {
	s, _, p := c.src.find(x)
	sum := sha256.Sum256([]byte(s))
	same := 0
	for i := range c.wants {
		same |= subtle.ConstantTimeCompare(sum[:], c.wants[i][:])
	}
	if c.secret {
		for i := range keys {
			if keys[i].active(x.req.Now) {
				want := sha256.Sum256([]byte(keys[i].Value.Reveal()))
				same |= subtle.ConstantTimeCompare(sum[:], want[:])
			}
		}
	}
	return same == 1 && p == once && s != ""
}

// run compares and answers. Every failure is the same reason.
func (c *handshake) run(x *exchange, res Result, keys []key) Result {
	failed := false
	for i := range c.compare {
		failed = !c.compare[i].equal(x, keys) || failed
	}
	if failed {
		return c.fail(res, "what the handshake has to say is not what is configured")
	}
	if detail := c.act(x, &res); detail != "" {
		return c.fail(res, detail)
	}
	k := activeKey(keys, x)
	if c.custom != nil {
		text, reason := c.custom(x, k)
		if reason != OK {
			return spoil(res, reason, "what the handshake should answer can't be made of the request")
		}
		res.Reason, res.Handshake = OK, textAnswer(text)
		return res
	}
	answer, ok := c.answer(x, k)
	if !ok {
		return c.fail(res, "what the handshake should echo is absent, there twice or too long")
	}
	res.Reason, res.Handshake, res.Events = OK, answer, nil
	return res
}

func (c *handshake) fail(res Result, detail string) Result {
	res = spoil(res, ReasonHandshakeFailed, detail)
	res.Action = nil
	if c.rule.Fail != 0 {
		res.Refusal = &Answer{Status: c.rule.Fail}
	}
	return res
}

// act reports what has to happen beside the answer.
func (c *handshake) act(x *exchange, res *Result) (detail string) {
	if c.capture != nil {
		s, _, p := c.capture.find(x)
		if p != once || s == "" || len(s) > maxEcho {
			return "the secret that should be handed over is absent, there twice or too long"
		}
		res.Action = &Action{Kind: ActionCapture, Secret: NewSecretString(s)}
	}
	if c.confirm != nil {
		s, _, p := c.confirm.find(x)
		url, ok := c.hosts.check(s)
		if p != once || !ok {
			return "the address that should be called is not one that is believed"
		}
		res.Action = &Action{Kind: ActionConfirm, URL: url}
	}
	return ""
}

func activeKey(keys []key, x *exchange) *key {
	for i := range keys {
		if keys[i].active(x.req.Now) {
			return &keys[i]
		}
	}
	return nil
}

func (c *handshake) answer(x *exchange, k *key) (*Answer, bool) {
	a := &Answer{Status: c.rule.Status, ContentType: c.rule.ContentType, Header: map[string]string{"X-Content-Type-Options": "nosniff"}}
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	strict := c.rule.SignsOutsider
	for _, h := range c.header {
		s, ok := render(h.parts, x, k, strict)
		if !ok || strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
			return nil, false
		}
		a.Header[h.name] = s
	}
	if len(c.json) > 0 {
		fields := make(map[string]any, len(c.json))
		for _, f := range c.json {
			s, ok := render(f.parts, x, k, strict)
			if !ok {
				return nil, false
			}
			setField(fields, f.name, s)
		}
		a.Body, _ = json.Marshal(fields) // strings in maps always encode
		if a.ContentType == "" {
			a.ContentType = "application/json"
		}
		return a, true
	}
	s, ok := render(c.body, x, k, strict)
	if a.Body = []byte(s); a.ContentType == "" {
		a.ContentType = "text/plain; charset=utf-8"
	}
	return a, ok
}

func textAnswer(s string) *Answer {
	return &Answer{Status: http.StatusOK, ContentType: "text/plain; charset=utf-8",
		Header: map[string]string{"X-Content-Type-Options": "nosniff"}, Body: []byte(s)}
}

// setField sets a value; a slash in its name goes into an object.
func setField(m map[string]any, name, val string) {
	for {
		head, rest, nested := strings.Cut(name, "/")
		if !nested {
			m[name] = val
			return
		}
		inner, ok := m[head].(map[string]any)
		if !ok {
			inner = map[string]any{}
			m[head] = inner
		}
		m, name = inner, rest
	}
}
