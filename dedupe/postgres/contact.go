package postgres

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/dedupe"
)

// The pauses between two looks at a database that is away.
const (
	minLook = 20 * time.Millisecond
	maxLook = time.Second
)

// awayError says in one sentence that the database is away, and why.
type awayError struct {
	why string
	err error // what the driver said; it may name host and user
}

func (e *awayError) Error() string   { return dedupe.ErrAway.Error() + ": " + e.why }
func (e *awayError) Unwrap() []error { return []error{dedupe.ErrAway, e.err} }

// contact is what is known of whether the database is there. While it is not,
// calls are refused at once, but for one now and then that looks.
type contact struct {
	log  *slog.Logger
	look func(context.Context) error // asks the database whether it takes writes

	// mu guards what follows; held for bookkeeping only.
	mu    sync.Mutex
	gone  *awayError // nil: it is there
	since time.Time
	looks int
	next  time.Time // of the next look
}

// ask is nil when a call may go to the database.
func (c *contact) ask(ctx context.Context) error {
	c.mu.Lock()
	if c.gone == nil {
		c.mu.Unlock()
		return nil
	}
	now := time.Now()
	if now.Before(c.next) {
		defer c.mu.Unlock()
		return c.gone
	}
	c.looks++
	most := min(minLook<<min(c.looks, 8), maxLook)
	c.next = now.Add(most/2 + rand.N(most/2))
	c.mu.Unlock()
	return c.try(ctx)
}

// try looks whether the database is there.
func (c *contact) try(ctx context.Context) error {
	err := c.look(ctx)
	if err == nil {
		c.found()
		return nil
	}
	var e *awayError
	if errors.As(err, &e) {
		return c.lose(e)
	}
	return c.heard(ctx, err)
}

func (c *contact) found() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone != nil {
		c.log.Info("database is back", "event", "database.back", "away", time.Since(c.since))
	}
	c.gone, c.looks = nil, 0
}

// away is why the database is away, nil when it is there as far as is known.
func (c *contact) away() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone != nil {
		return c.gone
	}
	return nil
}

// heard takes note of what a call under ctx came back with, and returns it as
// an awayError if it says that the database is away.
func (c *contact) heard(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, dedupe.ErrAway) {
		return err
	}
	why := absent(err)
	if why == "" || ctx.Err() != nil && isTimeout(err) {
		return err
	}
	return c.lose(&awayError{why: why, err: err})
}

// lose takes note that the database is away.
func (c *contact) lose(e *awayError) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone == nil {
		c.since, c.next = time.Now(), time.Time{}
		c.log.Warn("database is away", "event", "database.away", "reason", e.why, "error", e.err)
	}
	c.gone = e
	return e
}

func isTimeout(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err)
}

// absent says in a few words why an error means that the database is away, ""
// when it does not.
func absent(err error) string {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	var dns *net.DNSError
	var network net.Error
	connecting := errors.As(err, &connect)
	switch {
	case errors.As(err, &pg):
		return refusal(pg, connecting)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT) && connecting:
		return "connection refused"
	case errors.As(err, &dns):
		return "its host can't be resolved"
	case connecting && isTimeout(err):
		return "no connection in time"
	case connecting:
		return "no connection"
	case isTimeout(err):
		return "no answer in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, pgconn.ErrConnClosed),
		errors.As(err, &network), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection lost"
	}
	return ""
}

// refusal is what the server itself says, when that means that it is away.
func refusal(pg *pgconn.PgError, connecting bool) string {
	switch pg.Code {
	case "25006":
		return ErrStandby.Error()
	case "53300":
		return "it takes no more connections"
	case "57P01", "57P02", "57P03", "57P05": // a shutdown, a crash, a start; the connection idle for too long
		return pg.Message
	}
	switch {
	case connecting: // no such user, or database, or whatever else: somebody can set it right meanwhile
		return pg.Message
	case strings.HasPrefix(pg.Code, "08"):
		return "connection lost"
	case strings.HasPrefix(pg.Code, "53"), strings.HasPrefix(pg.Code, "58"): // no disk, no memory, input/output errors
		return pg.Message
	}
	return ""
}

// contended reports whether an error says that the database gave a transaction up
// because of what goes on beside it, or took too long.
func contended(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code {
		case "40001", "40P01", "55P03", "57014", "23505":
			return true
		}
		return false
	}
	return errors.Is(err, errAgain)
}

// cut reports whether an error is that of a connection that was made and broke.
func cut(err error) bool {
	var connect *pgconn.ConnectError
	return absent(err) != "" && !errors.As(err, &connect) && !isTimeout(err) && !errors.Is(err, dedupe.ErrAway)
}
