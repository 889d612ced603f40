package receiver

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/event"
	"github.com/onceward/onceward/verify"
)

// vector is what the edge needs of a provider's test vector.
type vector struct {
	Provider    string
	Case        string
	Options     map[string]json.RawMessage
	Method      string
	URL         string
	Headers     map[string]json.RawMessage
	Body        string
	Now         float64
	Want        string
	WantAlt     []string              `json:"want_alt"`
	WantStatus  int                   `json:"want_status"`
	WantBody    *string               `json:"want_body"`
	WantIsJSON  bool                  `json:"want_body_is_json"`
	WantHeaders map[string]string     `json:"want_headers"`
	Outbound    *struct{ URL string } `json:"want_outbound"`
	Stored      *string               `json:"want_stored_secret"`

	text []byte // as it stands in the file
}

// atRoot are the vectors whose signed URL has no path, by provider. A source
// has one, so that they can't be sent to any; package verify runs them.
var atRoot = map[string]int{"messagebird": 9, "plivo": 1}

// TestVectors sends every vector of every provider through the real edge:
// what is authentic is answered as the row says and stored byte for byte, what
// is not gets the one refusal of its row and leaves nothing, a handshake gets
// its answer, and what it asks for is carried out.
func TestVectors(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../testdata/vectors/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	hand := &handRecorder{calls: make(chan [2]string, 1)}
	f := setup(t, nil, func(c *Config) { c.Handover = hand })
	sent, rooted := 0, map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var cases []json.RawMessage
		if err := json.Unmarshal(text, &cases); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		taken := 0
		for _, text := range cases {
			v := vector{text: text}
			if err := json.Unmarshal(text, &v); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if v.atRoot(t) {
				rooted[v.Provider]++
				continue
			}
			sent++
			got, err := v.send(t, f, hand, "s"+strconv.Itoa(sent))
			if err != "" {
				t.Errorf("%s: %s: %s", v.Provider, v.Case, err)
			}
			if got != "refused" {
				taken++
			}
		}
		if taken == 0 {
			t.Errorf("%s: nothing was taken", file)
		}
	}
	for name, want := range atRoot {
		if rooted[name] != want {
			t.Errorf("%s: %d vectors without a path, want %d", name, rooted[name], want)
		}
		delete(rooted, name)
	}
	if len(rooted) > 0 {
		t.Errorf("vectors without a path: %v", rooted)
	}
	t.Logf("%d vectors of %d files sent", sent, len(files))
}

func (v *vector) atRoot(t *testing.T) bool {
	t.Helper()
	if url, ok := v.Options["notification_url"]; ok {
		v.URL = strings.Trim(string(url), `"`)
	}
	u, err := url.Parse(v.URL)
	if err != nil {
		t.Fatalf("%s: %v", v.Case, err)
	}
	return u.Host != "" && (u.Path == "" || u.Path == "/")
}

// send gives the vector a source of its own and returns what became of it and
// what is wrong with that, "" for nothing.
func (v *vector) send(t *testing.T, f *fixture, hand *handRecorder, name string) (class, fault string) {
	t.Helper()
	src := v.source(t, name)
	if err := f.r.SetSources([]*Source{src}, nil); err != nil {
		t.Fatal(err)
	}
	sec := int64(v.Now)
	f.now.Store(time.Unix(sec, int64((v.Now-float64(sec))*1e9)).UnixNano())
	before := f.events(t)
	got := f.send(t, v.message("/in/"+name))
	stored := f.events(t) - before
	class = classOf(f.r.SourceStats()[0].Counts)
	wants := append([]string{v.Want}, v.WantAlt...)
	fits := class == "ok" && slices.Contains(wants, "ok") || class == "challenge" && slices.Contains(wants, "challenge") ||
		class == "refused" && slices.ContainsFunc(wants, func(w string) bool { return w != "ok" && w != "challenge" })
	row := src.Verifier.Row()
	switch {
	case !fits:
		return class, "got " + class + " " + strconv.Itoa(got.status) + " " + got.body + ", want " + strings.Join(wants, " or ")
	case class == "refused":
		return class, refusedFault(row, v, got, stored)
	case class != v.Want:
		return class, "" // the details belong to what is wanted first
	case class == "challenge":
		return class, v.challengeFault(got, stored, hand, name)
	}
	return class, v.takenFault(t, f, row, got, stored)
}

// classOf is what became of the one request of a source.
func classOf(counts map[string]uint64) string {
	for outcome, class := range map[string]string{"accepted": "ok", "empty": "ok", "repeat": "ok", "conflict": "ok", "handshake": "challenge", "refused": "refused", "offline": "refused", "overloaded": "refused"} {
		if counts[outcome] > 0 {
			return class
		}
	}
	return "error"
}

func (v *vector) source(t *testing.T, name string) *Source {
	t.Helper()
	row, ok := verify.Lookup(v.Provider)
	if !ok {
		t.Fatalf("no provider %q", v.Provider)
	}
	ver, err := verify.VectorVerifier(v.text, row)
	if err != nil && !strings.Contains(err.Error(), "is empty") {
		t.Fatalf("%s: %s: %v", v.Provider, v.Case, err)
	}
	public, _, _ := strings.Cut(v.URL, "?")
	if u, err := url.Parse(v.URL); err != nil || u.Host == "" {
		public = ""
	}
	return &Source{Name: name, Row: row, Verifier: ver, PublicURL: public}
}

// message is the vector's request as text for the wire.
func (v *vector) message(path string) message {
	m := message{method: v.Method, path: path, body: v.Body}
	where, query, ok := strings.Cut(v.URL, "?")
	if strings.HasSuffix(where, "/") {
		m.path += "/"
	}
	if ok {
		m.path += "?" + query
	}
	for name, raw := range v.Headers {
		var many []string
		if json.Unmarshal(raw, &many) != nil {
			var one string
			if err := json.Unmarshal(raw, &one); err != nil {
				one = string(raw)
			}
			many = []string{one}
		}
		for _, value := range many {
			if !strings.EqualFold(name, "Content-Length") && !strings.EqualFold(name, "Host") {
				m.lines = append(m.lines, name+": "+value)
			}
		}
	}
	return m
}

func refusedFault(row verify.Row, v *vector, got reply, stored uint64) string {
	status, body := http.StatusUnauthorized, `{"error":"not authentic"}`
	if row.Refusal != nil {
		status, body = firstOf(row.Refusal.Status, status), string(row.Refusal.Body)
	}
	switch {
	case stored != 0:
		return "a refused request left an event"
	case got.status == status && got.body == body:
	case got.status == http.StatusBadRequest && (v.Want == "malformed" || len(v.WantAlt) > 0):
	case got.body == "" && slices.ContainsFunc(row.Handshake, func(h verify.Handshake) bool { return h.Fail == got.status }):
	case got.status == http.StatusServiceUnavailable && got.header.Get("Retry-After") != "" && strings.Contains(got.body, "try again later"):
	default:
		return "refused with " + strconv.Itoa(got.status) + " " + got.body
	}
	return ""
}

func (v *vector) challengeFault(got reply, stored uint64, hand *handRecorder, name string) string {
	switch {
	case got.status != firstOf(v.WantStatus, 200) || stored != 0:
		return "handshake answered " + strconv.Itoa(got.status) + " " + got.body
	case v.WantBody != nil && !v.WantIsJSON && got.body != *v.WantBody:
		return "handshake answered " + got.body + ", want " + *v.WantBody
	case v.Outbound != nil && hand.called(name) != v.Outbound.URL, v.Stored != nil && hand.of(name) != *v.Stored:
		return "what the handshake asks for was not carried out"
	}
	return headerFault(v.WantHeaders, got)
}

func headerFault(want map[string]string, got reply) string {
	for name, value := range want {
		if got.header.Get(name) != value {
			return "header " + name + " is " + got.header.Get(name) + ", want " + value
		}
	}
	return ""
}

// takenFault compares the answer with the row's, and what was stored with what
// was sent.
func (v *vector) takenFault(t *testing.T, f *fixture, row verify.Row, got reply, stored uint64) string {
	t.Helper()
	if want := firstOf(v.WantStatus, row.Answer.Status, 200); got.status != want {
		return "answered " + strconv.Itoa(got.status) + " " + got.body + ", want " + strconv.Itoa(want)
	}
	if stored > 0 {
		ev := f.all(t)[0].Event
		_, query, _ := strings.Cut(v.URL, "?")
		if !strings.Contains(v.Body, "\x00") && ev.BodyHash != event.HashOf([]byte(v.Body)) && row.Batch == nil {
			return "the stored body is not what was sent"
		}
		if ev.Query != query || ev.Method != firstOf(v.Method, "POST") {
			return "stored as " + ev.Method + " ?" + ev.Query
		}
	}
	return headerFault(v.WantHeaders, got)
}

// handRecorder remembers what it was asked for, by source.
type handRecorder struct {
	mu  sync.Mutex
	got map[string]string
	err error // what it answers

	calls chan [2]string // source and URL of what was begun
}

// called is the address that a source's handshake had called, once the answer
// was sent.
func (h *handRecorder) called(source string) string {
	select {
	case c := <-h.calls:
		if c[0] == source {
			return c[1]
		}
	case <-time.After(20 * time.Second):
	}
	return ""
}

func (h *handRecorder) of(source string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.got[source]
}

func (h *handRecorder) note(source, what string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.got == nil {
		h.got = map[string]string{}
	}
	h.got[source] += what
	return h.err
}

func (h *handRecorder) Capture(source string, secret verify.SecretString) error {
	return h.note(source, secret.Reveal())
}

func (h *handRecorder) Confirm(source, url string) (func(), error) {
	h.mu.Lock()
	err := h.err
	h.mu.Unlock()
	return func() { h.calls <- [2]string{source, url} }, err
}
