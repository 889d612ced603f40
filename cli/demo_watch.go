package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

// demoWatch follows the accepted events in the gateway's own account and tells
// how their deliveries go.
type demoWatch struct {
	client *admin.Client
	view   *demoView
	now    func() time.Time

	// mu guards what the sender hands over.
	mu      sync.Mutex
	stories map[storyKey]*story
	sending bool
}

type storyKey struct{ source, id string }

// story is what has been told of one event.
type story struct {
	sent
	told  bool   // its first line is out
	tries uint32 // attempts that the line spoke of
	over  bool
}

// errDemoSlow says that something was not delivered in time.
var errDemoSlow = errors.New("not everything was delivered in time")

func newDemoWatch(client *admin.Client, view *demoView, now func() time.Time) *demoWatch {
	return &demoWatch{client: client, view: view, now: now, stories: map[storyKey]*story{}, sending: true}
}

// accepted hands over an event that the gateway said it has accepted.
func (w *demoWatch) accepted(s sent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stories[storyKey{s.provider.source, s.id}] = &story{sent: s}
}

// last says that no further event comes: Run ends when all are delivered.
func (w *demoWatch) last() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sending = false
}

// Run tells until every event is delivered, or until demoPatience is over.
func (w *demoWatch) Run(ctx context.Context) error {
	deadline := w.now().Add(demoPatience)
	for {
		if err := w.look(ctx); err != nil {
			return err
		}
		if w.over() {
			return nil
		}
		if w.now().After(deadline) {
			return errDemoSlow
		}
		if err := pauseFor(ctx, demoPoll); err != nil {
			return err
		}
	}
}

func (w *demoWatch) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sending {
		return false
	}
	for _, s := range w.stories {
		if !s.over {
			return false
		}
	}
	return true
}

// look reads the account once and tells what is new.
func (w *demoWatch) look(ctx context.Context) error {
	return eachEvent(ctx, w.client, func(e admin.Event) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if s := w.stories[storyKey{e.Source, e.ID}]; s != nil && !s.over && len(e.Deliveries) > 0 {
			w.tell(s, e.Deliveries[0])
		}
		return nil
	})
}

// tell prints what has changed in a story, if anything has.
func (w *demoWatch) tell(s *story, d admin.Delivery) {
	failed := d.State.Open() && d.Attempts > s.tries
	switch {
	case d.State == event.Delivered:
		w.line(s, "delivered", deliveredHow(d, s))
		s.over = true
	case !d.State.Open():
		w.line(s, "dead", "given up: "+lastOf(d))
		s.over = true
	case failed:
		w.line(s, "retry", "target "+failureWords(d)+"; will retry")
	default:
		return
	}
	s.told, s.tries = true, d.Attempts
}

// line puts an event's first line under "accepted".
func (w *demoWatch) line(s *story, what, detail string) {
	if !s.told {
		what = string(fateAccepted)
	}
	w.view.line(s.shot, what, detail)
}

func deliveredHow(d admin.Delivery, s *story) string {
	switch {
	case d.Attempts > 1 && !s.told:
		return fmt.Sprintf("delivered at attempt %d", d.Attempts)
	case d.Attempts > 1:
		return fmt.Sprintf("at attempt %d, same Idempotency-Key", d.Attempts)
	}
	return fmt.Sprintf("answered in %s, delivered", s.took.Round(100*time.Microsecond))
}

// failureWords is how a delivery's last attempt failed.
func failureWords(d admin.Delivery) string {
	switch {
	case d.LastStatus != 0:
		return fmt.Sprintf("answered %d", d.LastStatus)
	case strings.Contains(d.LastError, string(event.OutcomeTimeout)):
		return "did not answer in time"
	}
	return "broke the connection"
}

// eachEvent calls f with every event on record, newest first.
func eachEvent(ctx context.Context, c *admin.Client, f func(admin.Event) error) error {
	cursor := ""
	for {
		var p dedupe.Page[admin.Event]
		p, err := c.Events(ctx, admin.Filter{}, cursor, maxPage)
		if err != nil {
			return apiErr(err)
		}
		for _, e := range p.Items {
			if err := f(e); err != nil {
				return err
			}
		}
		if p.Next == "" {
			return nil
		}
		cursor = p.Next
	}
}

// countLedger takes the gateway's account over its admin API.
func countLedger(ctx context.Context, c *admin.Client) (gatewayCount, error) {
	var n gatewayCount
	err := eachEvent(ctx, c, func(e admin.Event) error {
		n.accepted++
		n.repeats += int(e.Repeats)
		n.conflicts += int(e.Conflicts)
		for _, d := range e.Deliveries {
			n.deliveries++
			if d.State == event.Delivered {
				n.delivered++
			}
		}
		attempts, err := c.Attempts(ctx, e.Ref.String(), "")
		if err != nil {
			return apiErr(err)
		}
		for _, at := range attempts {
			n.attempts++
			if at.State != event.Delivered {
				n.failures++
			}
		}
		return nil
	})
	if err != nil {
		return n, err
	}
	refused, err := c.Refusals(ctx, admin.RefusalFilter{Limit: maxPage})
	n.refused = len(refused)
	return n, apiErr(err)
}
