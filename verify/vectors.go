package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
)

// VectorOptions steers [RunVectors].
type VectorOptions struct {
	// Rows are looked up before the built-in ones.
	Rows []Row
}

// Report is what became of a vector file.
type Report struct {
	// Passed, Failed and Skipped count the vectors; a vector is skipped where no
	// row has the name of its provider.
	Passed, Failed, Skipped int
	// Mismatches has one line per failed vector.
	Mismatches []string
}

// String returns one line per mismatch and then the counts.
func (r Report) String() string {
	var b strings.Builder
	for _, m := range r.Mismatches {
		b.WriteString(m)
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%d passed, %d failed, %d skipped\n", r.Passed, r.Failed, r.Skipped)
	return b.String()
}

// vector is one case of a vector file: a request, what it is verified with, and
// what must come of it.
type vector struct {
	Provider string `json:"provider"`
	Case     string `json:"case"`

	Secret     *string                    `json:"secret"`
	Secrets    vectorSecrets              `json:"secrets"`
	PublicKey  string                     `json:"public_key"`
	PublicKeys []string                   `json:"public_keys"`
	JWKS       json.RawMessage            `json:"jwks"`
	CertPEM    string                     `json:"cert_pem"`
	Certs      map[string]string          `json:"certs"`
	PublicID   string                     `json:"public_id"`
	Auth       string                     `json:"auth"`
	Options    map[string]json.RawMessage `json:"options"`

	Method  string                     `json:"method"`
	URL     string                     `json:"url"`
	Headers map[string]json.RawMessage `json:"headers"`
	Body    string                     `json:"body"`
	Now     float64                    `json:"now"`

	Want             string            `json:"want"`
	WantAlt          []string          `json:"want_alt"`
	WantEventID      *string           `json:"want_event_id"`
	WantEventIDs     []string          `json:"want_event_ids"`
	WantEventIDParts json.RawMessage   `json:"want_event_id_parts"`
	WantEventType    *string           `json:"want_event_type"`
	WantEventTypes   []string          `json:"want_event_types"`
	WantStatus       int               `json:"want_status"`
	WantBody         *string           `json:"want_body"`
	WantBodyContains json.RawMessage   `json:"want_body_contains"`
	WantBodyIsJSON   bool              `json:"want_body_is_json"`
	WantContentType  string            `json:"want_content_type"`
	WantHeaders      map[string]string `json:"want_headers"`
	WantAbsent       []string          `json:"want_headers_absent"`
	WantPresent      []string          `json:"want_headers_present"`
	WantOutbound     *wantedCall       `json:"want_outbound"`
	WantStored       *string           `json:"want_stored_secret"`
	Expect           *expectedResponse `json:"expect_response"`
}

// wantedCall is what an action has to ask for.
type wantedCall struct {
	URL string `json:"url"`
}

// vectorSecrets are the secrets of a vector: a list, or an object by label.
type vectorSecrets []Secret

// UnmarshalJSON implements json.Unmarshaler.
func (s *vectorSecrets) UnmarshalJSON(b []byte) error {
	var list []string
	if err := json.Unmarshal(b, &list); err == nil {
		for _, text := range list {
			*s = append(*s, Secret{Value: NewSecretString(text)})
		}
		return nil
	}
	var labelled map[string]string
	if err := json.Unmarshal(b, &labelled); err != nil {
		return errors.New("secrets: want a list of texts or an object of them")
	}
	for _, label := range slices.Sorted(maps.Keys(labelled)) {
		*s = append(*s, Secret{ID: label, Value: NewSecretString(labelled[label])})
	}
	return nil
}

// expectedResponse is an older spelling of what a handshake answers.
type expectedResponse struct {
	Status []int           `json:"status"`
	Body   *string         `json:"body"`
	JSON   json.RawMessage `json:"json"`
}

// RunVectors runs a file of test vectors, a JSON array, against the built-in rows
// and those in opt. The error is about the file; what a vector says about a
// provider is in the report.
//
// Without `auth` (or `options.version`) a vector runs in the first mode that takes
// its key material and finds its signature in the request, or else in the first
// that takes the key material.
func RunVectors(r io.Reader, opt VectorOptions) (Report, error) {
	var rep Report
	dec := json.NewDecoder(r)
	var raw []json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return rep, fmt.Errorf("read vectors: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return rep, errors.New("read vectors: text after the array")
	}
	for i, msg := range raw {
		var head struct {
			Provider string `json:"provider"`
			Case     string `json:"case"`
		}
		if err := json.Unmarshal(msg, &head); err != nil {
			return rep, fmt.Errorf("read vector %d: %w", i+1, err)
		}
		row, ok := opt.lookup(head.Provider)
		if !ok {
			rep.Skipped++
			continue
		}
		if err := runVector(msg, row); err != nil {
			rep.Failed++
			rep.Mismatches = append(rep.Mismatches, fmt.Sprintf("%s: %q: %v", head.Provider, head.Case, err))
			continue
		}
		rep.Passed++
	}
	return rep, nil
}

// runVector reads and runs one vector; one that can't be read has failed.
func runVector(msg json.RawMessage, row Row) error {
	var v vector
	if err := json.Unmarshal(msg, &v); err != nil {
		return fmt.Errorf("read vector: %w", err)
	}
	return v.run(row)
}

func (o VectorOptions) lookup(name string) (Row, bool) {
	for _, r := range o.Rows {
		if r.Name == name {
			return r.clone(), true
		}
	}
	return Lookup(name)
}

// run verifies the vector's request and holds the result against what it wants.
func (v *vector) run(row Row) error {
	req := v.request()
	res := refuse(ReasonNoSecret, "")
	ver, err := v.verifier(row, req)
	switch {
	case err == nil:
		res = ver.Verify(req)
	case !errors.Is(err, errEmptySecret): // an empty secret is one that matches nothing
		return err
	}
	got := outcome(res)
	if got != v.Want && !slices.Contains(v.WantAlt, got) && !v.pinged(got, res.Handshake) {
		return fmt.Errorf("got %s (%s), want %s", got, res.Reason, v.Want)
	}
	if got != v.Want {
		return nil // an acceptable other answer; the details belong to the first
	}
	switch got {
	case "ok":
		if err := v.checkEvents(res.Events); err != nil {
			return err
		}
		return v.checkAnswer(acceptedAnswer(ver, &res))
	case "challenge":
		if err := v.checkAction(res.Action); err != nil {
			return err
		}
		return v.checkAnswer(res.Handshake)
	default:
		return nil
	}
}

// pinged reports whether a request that need not verify was answered 2xx and
// brought no event, where the vector allows a positive answer.
func (v *vector) pinged(got string, a *Answer) bool {
	return got == "challenge" && a != nil && a.Status/100 == 2 && slices.Contains(v.WantAlt, "ok")
}

// acceptedAnswer is what a provider is answered with an event.
func acceptedAnswer(ver *Verifier, res *Result) *Answer {
	a := ver.Row().Answer
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	if len(res.Echo) > 0 {
		h := maps.Clone(res.Echo)
		maps.Copy(h, a.Header)
		a.Header = h
	}
	return &a
}

// checkAction compares what has to happen beside the answer.
func (v *vector) checkAction(a *Action) error {
	if v.WantOutbound != nil && (a == nil || a.Kind != ActionConfirm || a.URL != v.WantOutbound.URL) {
		return errors.New("the wanted call is not asked for")
	}
	if v.WantStored != nil && (a == nil || a.Kind != ActionCapture || a.Secret.Reveal() != *v.WantStored) {
		return errors.New("the wanted secret is not handed over")
	}
	return nil
}

// outcome names a result as vectors do.
func outcome(res Result) string {
	switch res.Reason {
	case OK:
		if res.Handshake != nil {
			return "challenge"
		}
		return "ok"
	case ReasonSignatureMissing, ReasonTimestampMissing, ReasonSignedPartMissing:
		return "missing_signature"
	case ReasonTimestampOld, ReasonTimestampFuture:
		return "expired"
	case ReasonSignatureMalformed, ReasonTimestampMalformed, ReasonBodyMalformed, ReasonBatchTooLarge:
		return "malformed"
	default:
		return "bad_signature"
	}
}

// rawText returns a JSON string decoded and any other value as it is written.
func rawText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// request builds the request byte for byte.
func (v *vector) request() *Request {
	h := http.Header{}
	for name, raw := range v.Headers {
		var many []string
		if json.Unmarshal(raw, &many) != nil {
			many = []string{rawText(raw)}
		}
		for _, val := range many {
			h.Add(name, val)
		}
	}
	method := v.Method
	if method == "" {
		method = http.MethodPost
	}
	sec := int64(v.Now)
	nsec := int64((v.Now - float64(sec)) * 1e9)
	_, query, _ := strings.Cut(v.URL, "?")
	return &Request{Method: method, URL: v.URL, RawQuery: query, Header: h, Body: []byte(v.Body), Now: time.Unix(sec, nsec)}
}

// checkEvents compares IDs and types, in order, where the vector names them.
func (v *vector) checkEvents(events []Event) error {
	var ids, types []string
	for _, e := range events {
		ids, types = append(ids, e.ID), append(types, e.Type)
	}
	wantIDs, err := v.wantedIDs()
	if err != nil {
		return err
	}
	if len(ids) == 1 && len(wantIDs) > 1 {
		wantIDs = []string{JoinID(wantIDs...)} // a batch that is kept whole
	}
	wantTypes := v.WantEventTypes
	if v.WantEventType != nil {
		wantTypes = []string{*v.WantEventType}
		if len(types) > 1 {
			types = types[:1] // of a batch, the first one's
		}
	}
	if wantIDs != nil && !slices.Equal(ids, wantIDs) {
		return fmt.Errorf("event IDs are %q, want %q", ids, wantIDs)
	}
	if wantTypes != nil && !slices.Equal(types, wantTypes) {
		return fmt.Errorf("event types are %q, want %q", types, wantTypes)
	}
	return nil
}

// wantedIDs returns the IDs the vector asks for, nil for none. Parts come as a
// list for one event or a list of lists for a batch.
func (v *vector) wantedIDs() ([]string, error) {
	switch {
	case v.WantEventID != nil:
		return []string{*v.WantEventID}, nil
	case v.WantEventIDs != nil:
		return v.WantEventIDs, nil
	case v.WantEventIDParts == nil:
		return nil, nil
	}
	var lists [][]string
	if json.Unmarshal(v.WantEventIDParts, &lists) != nil {
		var one []string
		if err := json.Unmarshal(v.WantEventIDParts, &one); err != nil {
			return nil, fmt.Errorf("want_event_id_parts: %w", err)
		}
		lists = [][]string{one}
	}
	ids := make([]string, len(lists))
	for i, parts := range lists {
		ids[i] = JoinID(parts...)
	}
	return ids, nil
}

// checkAnswer compares a handshake's answer.
func (v *vector) checkAnswer(a *Answer) error {
	if v.WantStatus != 0 && a.Status != v.WantStatus {
		return fmt.Errorf("answer has status %d, want %d", a.Status, v.WantStatus)
	}
	if v.Expect != nil {
		if len(v.Expect.Status) > 0 && !slices.Contains(v.Expect.Status, a.Status) {
			return fmt.Errorf("answer has status %d, want one of %d", a.Status, v.Expect.Status)
		}
		if v.Expect.Body != nil && string(a.Body) != *v.Expect.Body {
			return errors.New("answer has another body")
		}
		if v.Expect.JSON != nil && !sameJSON(a.Body, v.Expect.JSON) {
			return errors.New("answer has another body")
		}
	}
	if err := v.checkBody(a.Body); err != nil {
		return err
	}
	if v.WantContentType != "" && mediaType(a.ContentType) != mediaType(v.WantContentType) {
		return fmt.Errorf("answer has content type %q, want %q", a.ContentType, v.WantContentType)
	}
	return v.checkAnswerHeaders(a)
}

func (v *vector) checkBody(body []byte) error {
	if v.WantBody != nil && string(body) != *v.WantBody && !(v.WantBodyIsJSON && sameJSON(body, []byte(*v.WantBody))) {
		return errors.New("answer has another body")
	}
	if v.WantBodyIsJSON && !json.Valid(body) {
		return errors.New("answer's body is not JSON")
	}
	if v.WantBodyContains == nil {
		return nil
	}
	var parts []string
	if json.Unmarshal(v.WantBodyContains, &parts) != nil {
		parts = []string{rawText(v.WantBodyContains)}
	}
	for _, p := range parts {
		if !strings.Contains(string(body), p) {
			return errors.New("answer's body lacks a wanted part")
		}
	}
	return nil
}

func (v *vector) checkAnswerHeaders(a *Answer) error {
	h := http.Header{}
	for name, val := range a.Header {
		h.Set(name, val)
	}
	for name, val := range v.WantHeaders {
		if got := h.Get(name); got != val {
			return fmt.Errorf("answer has another header %s", name)
		}
	}
	for _, name := range v.WantPresent {
		if h.Get(name) == "" {
			return fmt.Errorf("answer lacks header %s", name)
		}
	}
	for _, name := range v.WantAbsent {
		if _, ok := h[http.CanonicalHeaderKey(name)]; ok {
			return fmt.Errorf("answer has header %s", name)
		}
	}
	return nil
}

// mediaType returns a content type without its parameters.
func mediaType(s string) string {
	mt, _, err := mime.ParseMediaType(s)
	if err != nil {
		return s
	}
	return mt
}

// sameJSON reports whether two texts hold the same value.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	ax, _ := json.Marshal(x) // what was decoded encodes
	by, _ := json.Marshal(y)
	return string(ax) == string(by)
}
