package audit

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// cursor is where a listing goes on: the time bounds of its first page and
// the ledger's own position.
type cursor struct {
	From   time.Time `json:"f,omitzero"`
	To     time.Time `json:"t,omitzero"`
	Engine string    `json:"c"`
}

// sumSize is how much of the hash a cursor carries. It guards against
// mistakes; whoever may list events could forge nothing worth having.
const sumSize = 8

// open checks the query's cursor. Without one it is the first page.
func (q Query) open() (cursor, error) {
	if q.Cursor == "" {
		return cursor{From: q.Filter.From, To: q.Filter.To}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err != nil || len(raw) < sumSize {
		return cursor{}, invalid("cursor is not one that a listing gave: start again without it")
	}
	payload := raw[sumSize:]
	if string(raw[:sumSize]) != q.sum(payload) {
		return cursor{}, invalid("cursor belongs to another listing: use it with the filter it came from, or start again without it")
	}
	var c cursor
	if err := json.Unmarshal(payload, &c); err != nil {
		return cursor{}, invalid("cursor is not one that a listing gave: start again without it")
	}
	return c, nil
}

// seal makes the cursor of the page that follows.
func (q Query) seal(c cursor, engine string) string {
	c.Engine = engine
	payload, err := json.Marshal(c)
	if err != nil { // two times and a string always encode, but for years beyond 9999
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append([]byte(q.sum(payload)), payload...))
}

// LookedTo is when the event was accepted down to which a page has looked that
// ended with a cursor of q. It is false for what is no such cursor.
func (q Query) LookedTo(next string) (time.Time, bool) {
	q.Cursor = next
	c, err := q.open()
	if err != nil {
		return time.Time{}, false
	}
	text, _, _ := strings.Cut(c.Engine, ".")
	ref, err := event.ParseRef(text)
	return ref.Time(), err == nil
}

// sum ties a payload to the kind and conditions of its listing. The time
// bounds stand in the payload itself: relative ones differ from page to page.
func (q Query) sum(payload []byte) string {
	f := q.Filter
	h := sha256.New()
	for _, s := range []string{
		"onceward cursor 1", string(q.Kind), f.Source, f.Type, string(f.Status), f.State, f.Target, f.ID, f.Field, f.Value, string(payload),
	} {
		h.Write([]byte(s))
		h.Write([]byte{0xff}) // in no valid UTF-8, so that fields cannot run together
	}
	return string(h.Sum(nil)[:sumSize])
}

// filterAt is the query's filter with the time bounds of its first page.
func (q Query) filterAt(c cursor) dedupe.Filter {
	f := q.Filter
	f.From, f.To = c.From, c.To
	return f
}
