package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Bounds of calling the addresses that handshakes name.
const (
	maxConfirmations = 64 // that wait at once
	confirmWorkers   = 4
	confirmTimeout   = 10 * time.Second
)

// confirmPauses are the pauses between the tries of one confirmation.
var confirmPauses = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}

var errConfirmationsFull = errors.New("too many confirmations wait")

// confirmation is one address that a provider wants to have called, on a host
// that its row names.
type confirmation struct{ source, url string }

// confirmer calls such addresses, each until it is answered with 2xx or a few
// tries failed. What waits at a stop is lost: the provider is asked to send
// its confirmation again.
type confirmer struct {
	client *http.Client
	log    *slog.Logger
	met    *instruments
	slots  chan struct{} // one for each confirmation that waits or is under way
	queue  chan confirmation
}

func newConfirmer(rt http.RoundTripper, log *slog.Logger, met *instruments) *confirmer {
	return &confirmer{
		client: &http.Client{Transport: rt, Timeout: confirmTimeout, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
		log: log, met: met, slots: make(chan struct{}, maxConfirmations), queue: make(chan confirmation, maxConfirmations),
	}
}

// reserve makes room for a confirmation; start queues it and never blocks.
func (c *confirmer) reserve(source, url string) (start func(), err error) {
	select {
	case c.slots <- struct{}{}:
		return func() { c.queue <- confirmation{source, url} }, nil
	default:
		c.met.confirms.WithLabelValues(source, "dropped").Inc()
		return nil, errConfirmationsFull
	}
}

// Run calls what is queued until ctx ends.
func (c *confirmer) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for range confirmWorkers {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case job := <-c.queue:
					c.confirm(ctx, job)
					<-c.slots
				}
			}
		})
	}
	wg.Wait()
	for range len(c.queue) {
		c.ended(<-c.queue, 0, ctx.Err())
		<-c.slots
	}
	return nil
}

// confirm calls one address until that succeeds or is given up.
func (c *confirmer) confirm(ctx context.Context, job confirmation) {
	for try := 1; ; try++ {
		again, err := c.call(ctx, job.url)
		if err == nil || !again || try > len(confirmPauses) {
			c.ended(job, try, err)
			return
		}
		timer := time.NewTimer(confirmPauses[try-1])
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			c.ended(job, try, err)
			return
		}
	}
}

// ended says what became of a confirmation. Of the address, which holds a
// token, only the host is logged.
func (c *confirmer) ended(job confirmation, tries int, err error) {
	if err != nil {
		c.met.confirms.WithLabelValues(job.source, "failed").Inc()
		c.log.Error("confirmation failed, ask the provider to send it again", "event", "source.confirm_failed", "source", job.source,
			"host", hostOf(job.url), "tries", tries, "error", err)
		return
	}
	c.met.confirms.WithLabelValues(job.source, "ok").Inc()
	c.log.Info("confirmed", "event", "source.confirmed", "source", job.source, "host", hostOf(job.url), "tries", tries)
}

// maxConfirmAnswer bounds what is read of an answer.
const maxConfirmAnswer = 64 << 10

// call asks once; again says that another try may succeed.
func (c *confirmer) call(ctx context.Context, url string) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, errors.New("the address can't be called")
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return !errors.Is(err, errNotPublic), withoutURL(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxConfirmAnswer)) // the status counts
	if resp.StatusCode/100 == 2 {
		return false, nil
	}
	again = resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout
	return again, fmt.Errorf("answered %d", resp.StatusCode)
}
