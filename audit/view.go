package audit

import (
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// Event is the view of an event that people and programs get: masked, flat,
// its field names a contract. Zero times are left out of its JSON.
type Event struct {
	Ref        event.Ref     `json:"ref"`
	Source     string        `json:"source"`
	Provider   string        `json:"provider"`
	ID         string        `json:"event_id"`
	Type       string        `json:"type"`
	Caller     string        `json:"caller,omitempty"`
	Secret     string        `json:"secret,omitempty"` // label of the secret that matched
	Key        string        `json:"key"`              // idempotency key sent to targets
	ReceivedAt time.Time     `json:"received_at"`
	Method     string        `json:"method"`
	Path       string        `json:"path,omitempty"`
	Query      string        `json:"query,omitempty"` // masked
	Header     []event.Field `json:"header"`          // masked
	BodySHA256 event.Hash    `json:"body_sha256"`
	BodyBytes  int64         `json:"body_bytes"`
	BodyPruned bool          `json:"body_pruned"`
	Answered   int           `json:"answered"` // status the provider was given
	// Index are the fields it can be found by, by name.
	Index      map[string]string `json:"index,omitempty"`
	Trace      string            `json:"trace,omitempty"`
	Flags      []string          `json:"flags"`
	Related    event.Ref         `json:"related,omitzero"` // the earlier event of a conflict or guard hit
	Status     event.Status      `json:"status"`
	Unrouted   event.Unrouted    `json:"unrouted_reason,omitempty"` // why it has no target; "" when it has one
	Targets    []string          `json:"targets"`
	Deliveries []Delivery        `json:"deliveries"`
	Repeats    uint64            `json:"repeats"`
	Conflicts  uint64            `json:"conflicts"`
	RepeatedAt time.Time         `json:"repeated_at,omitzero"` // of the last repeat or conflict
}

// Detail is an Event with all its attempts.
type Detail struct {
	Event
	Attempted []Attempt `json:"attempts"`
}

// Delivery is the view of one delivery, with what a list shows of its event.
type Delivery struct {
	ID         string      `json:"id"` // ref, target and generation
	Ref        event.Ref   `json:"ref"`
	Source     string      `json:"source"`
	EventID    string      `json:"event_id"`
	Type       string      `json:"type"`
	Target     string      `json:"target"`
	Generation uint16      `json:"generation"`
	State      event.State `json:"state"`
	Attempts   uint32      `json:"attempts"` // of this generation
	Key        string      `json:"key"`      // idempotency key of its attempts
	ReceivedAt time.Time   `json:"received_at"`
	DueAt      time.Time   `json:"due_at,omitzero"` // left out when closed
	OpenedAt   time.Time   `json:"opened_at,omitzero"`
	UpdatedAt  time.Time   `json:"updated_at,omitzero"`
	LastStatus int         `json:"last_status"`
	LastError  string      `json:"last_error,omitempty"`
}

// Attempt is the view of one attempt.
type Attempt struct {
	Ref        event.Ref     `json:"ref"`
	Target     string        `json:"target"`
	Generation uint16        `json:"generation"`
	Number     uint32        `json:"number"`
	StartedAt  time.Time     `json:"started_at"`
	Duration   float64       `json:"duration_s"`
	Phases     Phases        `json:"phases"`
	Status     int           `json:"status"` // 0 when no answer came
	Outcome    event.Outcome `json:"outcome"`
	Error      string        `json:"error,omitempty"`
	Response   string        `json:"response,omitempty"` // head of the answer, masked
	State      event.State   `json:"state"`              // of the delivery after it
	RetryIn    float64       `json:"retry_in_s,omitempty"`
	Late       bool          `json:"late,omitempty"`
}

// standardStatus is what the zero event.Answer tells the provider.
const standardStatus = 200

func viewEvent(rec *dedupe.Record) Event {
	ev := &rec.Event
	v := Event{
		Ref: ev.Ref, Source: ev.Source, Provider: ev.Provider, ID: ev.ID, Type: ev.Type, Caller: ev.Caller,
		Secret: ev.Secret, Key: ev.Key, ReceivedAt: ev.ReceivedAt.UTC(), Method: ev.Method, Path: ev.Path,
		Query: MaskQuery(ev.Query), Header: MaskHeader(ev.Header), BodySHA256: ev.BodyHash, BodyBytes: ev.Body.Length,
		BodyPruned: rec.BodyGone, Answered: ev.Answer.Status, Trace: ev.Trace, Flags: orEmpty(ev.Flags.Names()),
		Related: ev.Related, Status: rec.Status, Targets: orEmpty(ev.Targets), Deliveries: make([]Delivery, len(rec.Deliveries)),
		Repeats: rec.Tally.Repeats, Conflicts: rec.Tally.Conflicts, RepeatedAt: utc(rec.Tally.LastAt),
	}
	if v.Answered == 0 {
		v.Answered = standardStatus
	}
	if rec.Status == event.StatusUnrouted {
		v.Unrouted = ev.Unrouted()
	}
	for _, f := range ev.Index {
		if v.Index == nil {
			v.Index = make(map[string]string, len(ev.Index))
		}
		v.Index[f.Name] = f.Value
	}
	for i, d := range rec.Deliveries {
		v.Deliveries[i] = viewRow(&dedupe.DeliveryRow{
			Delivery: d, ID: d.DeliveryID(), Key: d.Key(ev), Source: ev.Source, EventID: ev.ID, Type: ev.Type,
			ReceivedAt: ev.ReceivedAt,
		})
	}
	return v
}

func viewRow(r *dedupe.DeliveryRow) Delivery {
	d := &r.Delivery
	return Delivery{
		ID: r.ID, Ref: d.Event, Source: r.Source, EventID: r.EventID, Type: r.Type, Target: d.Target,
		Generation: d.Generation, State: d.State, Attempts: d.Attempts, Key: r.Key, ReceivedAt: r.ReceivedAt.UTC(),
		DueAt: utc(d.DueAt), OpenedAt: utc(d.OpenedAt), UpdatedAt: utc(d.UpdatedAt), LastStatus: d.LastStatus,
		LastError: d.LastError,
	}
}

func viewAttempt(a *event.Attempt) Attempt {
	return Attempt{
		Ref: a.Event, Target: a.Target, Generation: a.Generation, Number: a.Number, StartedAt: a.StartedAt.UTC(),
		Duration: a.Duration.Seconds(), Phases: viewPhases(a.Phases), Status: a.Status, Outcome: a.Outcome, Error: a.Error,
		Response: MaskResponse(a.Response), State: a.State, RetryIn: a.RetryIn.Seconds(), Late: a.Late,
	}
}

// Phases are the parts of an attempt's duration, in seconds and in their order;
// what was not needed or not reached is left out.
type Phases struct {
	DNS       float64 `json:"dns_s,omitempty"`
	Connect   float64 `json:"connect_s,omitempty"`
	TLS       float64 `json:"tls_s,omitempty"`
	FirstByte float64 `json:"first_byte_s,omitempty"` // from the request written to the answer's first byte
}

func viewPhases(p event.Phases) Phases {
	return Phases{p.DNS.Seconds(), p.Connect.Seconds(), p.TLS.Seconds(), p.FirstByte.Seconds()}
}

// orEmpty keeps a list a list in JSON.
func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}
