package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward/admin"
	"github.com/onceward/onceward/event"
)

const listenHelp = `Streams a running gateway's events to a service on this machine, exactly as a
target gets them: same method, headers, bytes and Idempotency-Key. It never
affects deliveries; the gateway does not know of it.

Where it is, is kept in a file (--cursor; by default one per gateway and URL in
the user's cache directory). It goes on from there after it, the gateway or the
service was away: each event is sent once, in order. When listen is killed while
a request is out, nobody can say whether it arrived: that one event is sent again,
with the same Idempotency-Key and "Onceward-Attempt: 2".

A service that can't be reached is waited for. Whatever it answers is printed and
counts as received.`

func (a *app) listenCmd() *cobra.Command {
	var f followFlags
	var to, file string
	var c *cobra.Command
	c = leaf("listen --forward-to URL", "Stream events to a service on this machine", listenHelp, cobra.NoArgs,
		func(ctx context.Context, _ []string) error {
			f.set = c.Flags().Changed("from")
			return a.listen(ctx, f, to, file)
		})
	f.register(c.Flags())
	c.Flags().StringVar(&to, "forward-to", "", "`URL` of the service")
	c.Flags().StringVar(&file, "cursor", "", "`file` that keeps the place")
	return c
}

func (a *app) listen(ctx context.Context, f followFlags, to, file string) error {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return usage("--forward-to %q: want a URL like http://localhost:3000/webhooks", to)
	}
	at, err := a.find()
	if err != nil {
		return err
	}
	if file == "" {
		if file, err = cursorFile(at.addr, to, f); err != nil {
			return err
		}
	}
	place, err := openBookmark(file, f.cursor(), f.set)
	if err != nil {
		return err
	}
	defer place.close()
	return a.call(ctx, func(c *admin.Client) error {
		l := &listener{app: a, to: u, place: place, http: &http.Client{
			// One event is one request: no connection is used again, so that
			// nothing is sent a second time behind our back.
			Transport:     &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Timeout:       time.Minute,
		}}
		fmt.Fprintf(a.Stderr, "forwarding to %s; the place is kept in %s\n", withoutQuery(u), file)
		err := l.run(ctx, &follower{app: a, client: c, query: admin.TailQuery{
			Cursor: place.cursor, Source: f.source, Type: f.typ, Wait: followWait, Limit: 50, Exact: true}})
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
}

// cursorFile is the default place of one stream.
func cursorFile(addr, to string, f followFlags) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", usage("%w; --cursor names a file to keep the place in", err)
	}
	sum := event.HashOf([]byte(strings.Join([]string{addr, to, f.source, f.typ}, "\x00"))).String()
	return filepath.Join(dir, "onceward", "listen-"+sum[:16]), nil
}

// listener sends events to one service.
type listener struct {
	app   *app
	to    *url.URL
	place *bookmark
	http  *http.Client
}

func (l *listener) run(ctx context.Context, f *follower) error {
	if f.query.Cursor == admin.TailEnd { // which moves: the place needs one that stays
		page, err := f.client.Tail(ctx, admin.TailQuery{Cursor: admin.TailEnd})
		if err != nil {
			return err
		}
		f.query.Cursor = page.Next
		if err := l.place.done(page.Next); err != nil {
			return err
		}
	}
	for {
		before := f.query.Cursor
		events, err := f.next(ctx)
		if err != nil {
			return err
		}
		for i := range events {
			if err := l.forward(ctx, &events[i], before); err != nil {
				return err
			}
			before = events[i].Cursor
		}
		if err := l.place.done(f.query.Cursor); err != nil { // past what the filter left out
			return err
		}
	}
}

// forward sends one event and waits for a service that is away.
func (l *listener) forward(ctx context.Context, e *admin.Live, before string) error {
	ref := e.Ref.String()
	if e.Withheld {
		fmt.Fprintf(l.app.Stderr, "%s: fields of its source's bodies are redacted, it takes a token of the role admin; it is passed over\n", ref)
		return l.place.done(e.Cursor)
	}
	if e.Exact == nil || e.Exact.Gone {
		fmt.Fprintf(l.app.Stderr, "%s: its body is gone, it is passed over\n", ref)
		return l.place.done(e.Cursor)
	}
	attempt := 1
	if l.place.sending == ref {
		attempt = 2
	}
	for waited := false; ; waited = true {
		if err := l.place.send(before, ref); err != nil {
			return err
		}
		start := time.Now()
		status, err := l.post(ctx, e, attempt)
		switch {
		case ctx.Err() != nil:
			return ctx.Err() // the place says that it was out
		case err != nil && refused(err):
			if !waited {
				fmt.Fprintf(l.app.Stderr, "%s can't be reached, waiting for it (%v)\n", l.to.Host, unwrapURL(err))
			}
			if err := rest(ctx, followRetry); err != nil {
				return errors.Join(l.place.done(before), err)
			}
			continue
		case err != nil:
			status = escape(unwrapURL(err).Error())
		}
		fmt.Fprintf(l.app.Stdout, "%s  %s  %s  %s  -> %s in %s\n", stamp(time.Now()), ref, escape(e.Source),
			escape(clip(dash(e.Type), 32)), status, short(time.Since(start)))
		return l.place.done(e.Cursor)
	}
}

// post makes the request a target would get.
func (l *listener) post(ctx context.Context, e *admin.Live, attempt int) (string, error) {
	u := *l.to
	if e.Path != "" {
		u = *u.JoinPath(e.Path)
	}
	u.RawQuery = strings.Trim(u.RawQuery+"&"+e.Exact.Query, "&")
	req, err := http.NewRequestWithContext(ctx, e.Method, u.String(), bytes.NewReader(e.Exact.Body))
	if err != nil {
		return "", err
	}
	for _, f := range e.Exact.Header {
		req.Header.Add(f.Name, f.Value)
	}
	for name, value := range map[string]string{
		"Idempotency-Key": e.Key, "Onceward-Event": e.Ref.String(), "Onceward-Source": e.Source, "Onceward-Event-Id": e.ID,
		"Onceward-Event-Type": e.Type, "Onceward-Attempt": strconv.Itoa(attempt), "Onceward-Received-At": e.ReceivedAt.UTC().Format(time.RFC3339Nano),
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	return strconv.Itoa(resp.StatusCode), err
}

// refused reports whether nothing went out: the service is not there.
func refused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// withoutQuery is a URL without what in it may be a credential.
func withoutQuery(u *url.URL) string {
	shown := *u
	shown.RawQuery = ""
	return shown.Redacted()
}

// unwrapURL leaves the URL, which may be long, out of an error.
func unwrapURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// bookmark is the file that keeps the place of a listener: the cursor of what
// was received, and what is out. It is written in place before and after each
// request, so that a kill at any moment leaves one of the two.
type bookmark struct {
	f       *os.File
	cursor  string
	sending string // was out when the last run was killed
}

// bookmarkSize is the one size of the file. A cursor has 27 bytes for each
// gateway that ever wrote to the ledger.
const bookmarkSize = 4096

// openBookmark opens the place kept in a file, or makes one at cursor; with
// again the one kept is given up.
func openBookmark(path, cursor string, again bool) (*bookmark, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	b := &bookmark{f: f, cursor: cursor}
	buf := make([]byte, bookmarkSize)
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, f.Close())
	}
	if n == 0 || again {
		if cursor == admin.TailEnd { // which is not known yet
			return b, nil
		}
		return b, b.done(cursor)
	}
	words := strings.Fields(string(buf[:n]))
	switch {
	case len(words) == 2 && words[0] == "received":
		b.cursor = words[1]
	case len(words) == 3 && words[0] == "sending":
		b.cursor, b.sending = words[1], words[2]
	default:
		return nil, errors.Join(fail(exitFailed, "%s holds no place; remove it, or name another file with --cursor", path), f.Close())
	}
	if b.cursor == "start" {
		b.cursor = ""
	}
	return b, nil
}

// send says that ref, which follows cursor, goes out.
func (b *bookmark) send(cursor, ref string) error { return b.write("sending", start(cursor), ref) }

// done says that everything up to cursor was received.
func (b *bookmark) done(cursor string) error { return b.write("received", start(cursor)) }

// start names the empty cursor.
func start(cursor string) string {
	if cursor == "" {
		return "start"
	}
	return cursor
}

func (b *bookmark) write(words ...string) error {
	line := fmt.Sprintf("%-*s\n", bookmarkSize-1, strings.Join(words, " "))
	if len(line) > bookmarkSize {
		return fmt.Errorf("keep the place: a cursor over %d gateways is too long for its file", strings.Count(line, "."))
	}
	if _, err := b.f.WriteAt([]byte(line), 0); err != nil {
		return fmt.Errorf("keep the place: %w", err)
	}
	return nil
}

func (b *bookmark) close() { _ = b.f.Close() } // nothing is buffered
