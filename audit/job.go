package audit

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// JobState is where a replay job stands.
type JobState string

// The states of a job. Counting and running jobs go on by themselves, also
// after a restart; the others have ended.
const (
	JobCounting  JobState = "counting" // what it selects is counted; nothing is sent yet
	JobRunning   JobState = "running"
	JobDone      JobState = "done"
	JobCancelled JobState = "cancelled"
	JobFailed    JobState = "failed"
)

// Open reports whether the job goes on.
func (s JobState) Open() bool { return s == JobCounting || s == JobRunning }

// JobCount is what a job selects, or has done.
type JobCount struct {
	Events int   `json:"events"`
	Opened int   `json:"opened"`      // deliveries
	Open   int   `json:"still_open"`  // skipped: not closed
	Pruned int   `json:"body_pruned"` // events that can't be sent any more
	Bytes  int64 `json:"bytes"`       // of the bodies of the deliveries opened
}

func (c *JobCount) add(n dedupe.ReplayCount) {
	c.Events += n.Events
	c.Opened += n.Opened
	c.Open += n.Open
	c.Pruned += n.Pruned
	c.Bytes += n.Bytes
}

// Job is a replay of many events that goes on in the background: first it
// counts what it selects, then it opens the deliveries at its rate. Where it
// stands is kept in the ledger in the same transaction as what it opened, so
// that a restart goes on exactly behind it.
type Job struct {
	ID    string   `json:"id"`
	State JobState `json:"state"`
	JobCount
	// Total is what the job selects, exact when it begins to run; nil before.
	Total   *JobCount `json:"total,omitempty"`
	Filter  Args      `json:"filter"`
	Target  string    `json:"target,omitempty"` // only this one
	NewKey  bool      `json:"new_key,omitempty"`
	Reroute bool      `json:"reroute,omitempty"`
	Rate    JobRate   `json:"rate,omitzero"`
	// Actor started it, for a Reason.
	Actor  string `json:"actor"`
	Reason string `json:"reason,omitempty"`
	// Error is why a job failed, or waits.
	Error     string    `json:"error,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	StartedAt time.Time `json:"started_at,omitzero"` // when it began to run
	UpdatedAt time.Time `json:"updated_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
}

// By is who started the job.
func (j *Job) By() dedupe.By { return dedupe.By{Actor: j.Actor, Reason: j.Reason} }

// Left is about how long the job still takes, as far as its pace so far and
// its rate tell; false when nothing does.
func (j *Job) Left() (time.Duration, bool) {
	if j.State != JobRunning || j.Total == nil {
		return 0, false
	}
	left := max(j.Total.Opened-j.Opened, 0)
	least, bounded := j.Rate.Time(left)
	if took := j.UpdatedAt.Sub(j.StartedAt); j.Opened > 0 && took > 0 {
		return max(time.Duration(float64(took)/float64(j.Opened)*float64(left)), least), true
	}
	return least, bounded
}

// JobRate bounds how many deliveries a job opens in a length of time. The
// zero rate is none. As text it is "20/s", "300/m" or "1000/h".
type JobRate struct {
	Count int
	Per   time.Duration
}

var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// maxRate is far above what one process forwards.
const maxRate = 1_000_000

// ParseRate reads a rate; "" is none.
func ParseRate(s string) (JobRate, error) {
	if s == "" {
		return JobRate{}, nil
	}
	count, unit, _ := strings.Cut(s, "/")
	n, err := strconv.ParseUint(count, 10, 32)
	per := rateUnits[unit]
	if err != nil || n == 0 || n > maxRate || per == 0 {
		return JobRate{}, invalid("rate %q: want one such as 20/s, 300/m or 1000/h", s)
	}
	return JobRate{int(n), per}, nil
}

// IsZero reports whether there is no bound.
func (r JobRate) IsZero() bool { return r == JobRate{} }

// String writes what ParseRate reads.
func (r JobRate) String() string {
	for unit, per := range rateUnits {
		if per == r.Per {
			return strconv.Itoa(r.Count) + "/" + unit
		}
	}
	return ""
}

// MarshalText writes String.
func (r JobRate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (r *JobRate) UnmarshalText(b []byte) (err error) {
	*r, err = ParseRate(string(b))
	return err
}

// Time is how long n deliveries take at the rate, false when there is none.
func (r JobRate) Time(n int) (time.Duration, bool) {
	if r.IsZero() {
		return 0, false
	}
	return time.Duration(float64(n) / float64(r.Count) * float64(r.Per)), true
}

// noteKind is the kind of a job's note.
const noteKind = "replay"

// kept is a job as its note holds it.
type kept struct {
	Job
	Cursor string `json:"cursor,omitempty"` // where it goes on; the ledger's own
	// Owner works on the job until Until; then another gateway may.
	Owner string    `json:"owner,omitempty"`
	Until time.Time `json:"until,omitzero"`

	version uint64
}

func (k *kept) note() dedupe.Note {
	text, err := json.Marshal(k)
	if err != nil { // names, times and numbers always encode
		text = nil
	}
	return dedupe.Note{Kind: noteKind, Name: k.ID, Version: k.version, Value: text}
}

func readJob(n dedupe.Note) (*kept, error) {
	k := &kept{version: n.Version}
	if err := json.Unmarshal(n.Value, k); err != nil {
		return nil, fmt.Errorf("replay job %s: %w: %w", n.Name, dedupe.ErrDamaged, err)
	}
	return k, nil
}

// selection is the ledger's filter of the job. Its times are absolute.
func (k *kept) selection() (dedupe.Selection, error) {
	q, err := k.Filter.Query(KindReplay, k.CreatedAt)
	return dedupe.Selection{Filter: q.Filter}, err
}

// absolute are conditions that mean the same at any time: ages become dates,
// and what comes after now is left out.
func absolute(a Args, now time.Time) (Args, error) {
	q, err := a.Query(KindReplay, now)
	if err != nil {
		return a, err
	}
	a.Since, a.From, a.To = "", "", now.UTC().Format(time.RFC3339Nano)
	if !q.Filter.From.IsZero() {
		a.From = q.Filter.From.UTC().Format(time.RFC3339Nano)
	}
	if to := q.Filter.To; !to.IsZero() && to.Before(now) {
		a.To = to.UTC().Format(time.RFC3339Nano)
	}
	return a, nil
}

// newJobID is a name that sorts by time.
func newJobID(now time.Time, entropy uint64) string {
	return "replay_" + strings.ToLower(event.NewRef(uint64(now.UnixMilli()), 0, entropy).String())
}
