package admin

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
)

// The kinds of long answers whose progress is shown.
const (
	TransferBackup = "backup"
	TransferAudit  = "audit export"
	TransferEvents = "export"
)

const (
	// keptTransfers is how many that ended are shown.
	keptTransfers = 20
	// transferQuiet is after how long an export in pages of which no more is asked
	// for counts as left off.
	transferQuiet = 2 * time.Minute
)

// exportHeader names an export that is fetched page by page, so that its pages are
// known to belong together. Its value is chosen by who fetches it.
const exportHeader = "Onceward-Export"

// Transfer is a backup or an export that a client fetches or has fetched. It is
// known to this process alone, and forgotten with it.
type Transfer struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"`
	Actor     string    `json:"actor"`
	StartedAt time.Time `json:"started_at"`
	// EndedAt is zero while it goes on.
	EndedAt time.Time `json:"ended_at,omitzero"`
	// Whole is set on one that was given to its end.
	Whole bool  `json:"whole"`
	Bytes int64 `json:"bytes"`
	// Events is how many events an export has given.
	Events int64 `json:"events,omitempty"`
	// Total is about how many there will be: bytes of a backup, events of an
	// export of all; 0 when nobody knows.
	Total int64 `json:"total,omitempty"`
	// Rate is bytes a second, of an export events a second, since it began.
	Rate float64 `json:"rate"`
	// LeftSeconds is about how long it still takes; absent when nobody knows.
	LeftSeconds *float64 `json:"left_s,omitempty"`

	seen time.Time
}

// done is what Total counts.
func (t *Transfer) done() int64 {
	if t.Kind == TransferEvents {
		return t.Events
	}
	return t.Bytes
}

// transfers are those of this process, the newest last.
type transfers struct {
	now func() time.Time

	mu   sync.Mutex
	n    int
	list []*Transfer
}

// begin adds one. mu is held.
func (ts *transfers) begin(id, kind, actor string, total int64) *Transfer {
	ts.n++
	if id == "" {
		id = strconv.Itoa(ts.n)
	}
	t := &Transfer{ID: id, Kind: kind, Actor: actor, StartedAt: ts.now(), Total: total, seen: ts.now()}
	ts.list = append(ts.list, t)
	for i := 0; i < len(ts.list) && len(ts.list) > keptTransfers; {
		if ts.over(ts.list[i]) {
			ts.list = slices.Delete(ts.list, i, i+1)
			continue
		}
		i++
	}
	return t
}

// over reports whether one goes on no more. mu is held.
func (ts *transfers) over(t *Transfer) bool {
	if t.EndedAt.IsZero() && t.Kind == TransferEvents && ts.now().Sub(t.seen) > transferQuiet {
		t.EndedAt = t.seen // left off; it may be gone on with
	}
	return !t.EndedAt.IsZero()
}

// follow counts what f writes to w as a transfer.
func (ts *transfers) follow(kind, actor string, total int64, w io.Writer, f func(io.Writer) error) error {
	ts.mu.Lock()
	t := ts.begin("", kind, actor, total)
	ts.mu.Unlock()
	err := context.Canceled // what panics has not come to its end
	defer func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		t.EndedAt, t.Whole = ts.now(), err == nil
	}()
	err = f(&counter{ts, t, w})
	return err
}

// counter adds up what is written.
type counter struct {
	ts *transfers
	t  *Transfer
	w  io.Writer
}

// Write writes on.
func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.ts.mu.Lock()
	defer c.ts.mu.Unlock()
	c.t.Bytes += int64(n)
	return n, err
}

// page counts one page of an export that is fetched in pages.
func (ts *transfers) page(id, actor string, total, events, bytes int64, last bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	i := slices.IndexFunc(ts.list, func(t *Transfer) bool { return t.ID == id && t.Kind == TransferEvents && t.Actor == actor })
	var t *Transfer
	if i >= 0 {
		t = ts.list[i]
	} else {
		t = ts.begin(id, TransferEvents, actor, total)
	}
	t.Events += events
	t.Bytes += bytes
	t.seen, t.EndedAt, t.Whole = ts.now(), time.Time{}, last
	if last {
		t.EndedAt = t.seen
	}
}

// all are the transfers, newest first.
func (ts *transfers) all() []Transfer {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	out := make([]Transfer, 0, len(ts.list))
	for _, t := range slices.Backward(ts.list) {
		end := ts.now()
		if ts.over(t) {
			end = t.EndedAt
		}
		v := *t
		if took := end.Sub(t.StartedAt).Seconds(); took > 0 {
			v.Rate = float64(t.done()) / took
		}
		if left := t.Total - t.done(); t.EndedAt.IsZero() && t.Total > 0 && left > 0 && v.Rate > 0 {
			s := float64(left) / v.Rate
			v.LeftSeconds = &s
		}
		out = append(out, v)
	}
	return out
}

// exportID is what exportHeader may hold.
var exportID = regexp.MustCompile(`^[0-9A-Za-z]{8,64}$`)

// exported counts a page of an export. How many events there will be is known where
// all are asked for.
func (a *Admin) exported(c echo.Context, id string, q *audit.Query, events int, last bool) {
	total := int64(0)
	if st, err := a.cfg.Account.Stats(c.Request().Context()); err == nil && q.Filter == (dedupe.Filter{}) {
		total = int64(st.Events)
	}
	a.transfers.page(id, who(c).Name, total, int64(events), c.Response().Size, last)
}

func (a *Admin) listTransfers(c echo.Context) error {
	if _, err := only(c.QueryParams()); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, Page[Transfer]{Items: a.transfers.all()})
}

// Transfers lists the backups and exports that clients fetch, newest first; those
// that ended are shown for a while.
func (c *Client) Transfers(ctx context.Context) ([]Transfer, error) {
	p, err := get[Page[Transfer]](ctx, c, "/transfers", nil)
	return p.Items, err
}
