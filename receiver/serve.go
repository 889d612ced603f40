package receiver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// farewell is how long connections are told to close before they are closed:
// a sender in the middle of a burst learns it from an answer and not from a
// broken connection.
const farewell = 250 * time.Millisecond

// unused is how long a stop waits for the first byte on a connection.
const unused = 2 * time.Second

// maxAnswer bounds the time from the end of the header block to the end of
// the answer, beside the time the body may take.
const maxAnswer = maxAdmission + 10*time.Second

// Serve answers requests from ln until ctx is done, then tells every
// connection to close, stops accepting, and returns when the requests under
// way are answered. Those that take longer than the drain time-out are cut,
// which is an error. Serve closes ln.
func (r *Receiver) Serve(ctx context.Context, ln net.Listener) error {
	limited := newLimiter(ln, r.cfg.MaxConns, func() bool { return !r.gen.Load().sync })
	defer ln.Close() // an error of the server may have left it open
	srv := &http.Server{
		ConnState:         limited.track,
		Handler:           r.Handler(),
		ReadHeaderTimeout: r.cfg.HeaderTimeout,
		ReadTimeout:       r.cfg.BodyTimeout,
		WriteTimeout:      r.cfg.BodyTimeout + maxAnswer,
		IdleTimeout:       r.cfg.IdleTimeout,
		MaxHeaderBytes:    r.cfg.MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
		// OPTIONS * is answered like every other path that is nobody's.
		DisableGeneralOptionsHandler: true,
	}
	if !edgeLimits {
		srv.ReadHeaderTimeout, srv.ReadTimeout, srv.WriteTimeout, srv.IdleTimeout, srv.MaxHeaderBytes = 0, 0, 0, 0, 1<<30
	}
	var from net.Listener = limited
	if r.cfg.TLS != nil {
		srv.TLSConfig = serverTLS(r.cfg.TLS)
		srv.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams}
		srv.Handler = secured(srv.Handler)
		shaken := newSecure(limited, srv.TLSConfig, r.cfg.HeaderTimeout, r.log)
		defer shaken.end()
		from = shaken
	}
	if r.cfg.Keys != nil {
		count, stop := context.WithCancel(context.WithoutCancel(ctx))
		var counting sync.WaitGroup
		counting.Go(func() { r.countReplays(count) })
		defer counting.Wait()
		defer stop()
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(from) }()
	r.log.Info("ingest listens", "event", "ingest.listen", "addr", ln.Addr().String(), "tls", r.cfg.TLS != nil, "version", r.cfg.Version)
	select {
	case err := <-done:
		r.settleCalls()
		return fmt.Errorf("serve ingest on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	err := r.drain(srv, limited)
	if end := <-done; !errors.Is(end, net.ErrClosed) && !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve ingest on %s: %w", ln.Addr(), end))
	}
	return err
}

// drain tells connections to close, stops accepting, and waits for what was
// begun. net/http is told to shut down last: from there on it drops requests
// whose header block it has just read.
func (r *Receiver) drain(srv *http.Server, l *limiter) error {
	if !drains {
		return srv.Close()
	}
	r.draining.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.DrainTimeout)
	defer cancel()
	wait := time.NewTimer(min(farewell, r.cfg.DrainTimeout/2))
	<-wait.C
	err := l.Close()
	if err != nil {
		err = errors.Join(fmt.Errorf("stop accepting: %w", err), srv.Close())
	} else {
		l.quiet(ctx, min(unused, r.cfg.DrainTimeout/2))
		if err = srv.Shutdown(ctx); err != nil {
			err = errors.Join(fmt.Errorf("drain ingest within %v: %w", r.cfg.DrainTimeout, err), srv.Close())
		}
	}
	// Calls go on although their callers left.
	err = errors.Join(err, r.flights.drain(ctx, r.patience))
	r.settleCalls()
	if err == nil {
		r.log.Info("ingest drained", "event", "ingest.drained")
	}
	return err
}

// settleCalls ends what synchronous routes have under way and writes what was
// counted.
func (r *Receiver) settleCalls() {
	if r.cfg.Keys == nil {
		return
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.flights.drain(now, r.patience) // nothing is left after a drain; else it is cut, and logged by each job
	last, giveUp := context.WithTimeout(context.Background(), r.patience())
	defer giveUp()
	r.flushReplays(last)
}

// patience is how long a stop waits for the ledger once nothing is under way.
func (r *Receiver) patience() time.Duration {
	if l, ok := r.cfg.Admit.(interface{ Full() bool }); ok && l.Full() {
		return roomTime
	}
	return storeTime
}
