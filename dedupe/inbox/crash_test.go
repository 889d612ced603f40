package inbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/dedupe/inbox"
)

// A target under test is this test's own program, started anew after every
// crash. These variables say what it is to be.
const (
	envDSN     = "INBOX_TARGET_DSN"
	envDialect = "INBOX_TARGET_DIALECT"
	envSeed    = "INBOX_TARGET_SEED"    // of its crash; 0 is none
	envOutside = "INBOX_TARGET_OUTSIDE" // the effect has a transaction of its own
)

func TestMain(m *testing.M) {
	if os.Getenv(envDSN) != "" {
		if err := serveTarget(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// target is a service that does an effect once for each event, and dies now
// and then.
type target struct {
	box     *inbox.Inbox
	db      *sql.DB
	outside bool
	left    atomic.Int64 // points to pass until the crash
}

// point is where a crash may come. SIGKILL leaves no time for anything.
func (s *target) point() {
	if s.left.Add(-1) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
}

func serveTarget() error {
	dialect, _ := strconv.Atoi(os.Getenv(envDialect))
	seed, _ := strconv.ParseUint(os.Getenv(envSeed), 10, 64)
	d := database{inbox.Dialect(dialect), os.Getenv(envDSN)}
	db, err := d.connect()
	if err != nil {
		return err
	}
	b, err := inbox.New(inbox.Config{Dialect: d.dialect})
	if err != nil {
		return err
	}
	s := &target{box: b, db: db, outside: os.Getenv(envOutside) != ""}
	if r := rand.New(rand.NewPCG(seed, 1)); seed != 0 && r.IntN(2) == 0 {
		s.left.Store(1 + r.Int64N(40)) // at one of the points
	} else if seed != 0 {
		time.AfterFunc(time.Duration(r.Int64N(int64(15*time.Millisecond))), func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	}
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	return http.Serve(l, s)
}

func (s *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.point()
	if err := s.handle(r.Context(), inbox.Key(r)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.point()
	w.WriteHeader(http.StatusNoContent)
}

// handle does the effect of key once, or with outside tries to.
func (s *target) handle(ctx context.Context, key string) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	s.point()
	if s.outside {
		return s.handleOutside(ctx, tx, key)
	}
	first, err := s.box.Once(ctx, tx, key)
	if err != nil {
		return err
	}
	s.point()
	if first {
		if _, err := tx.ExecContext(ctx, "INSERT INTO effects (event) VALUES ('"+key+"')"); err != nil {
			return err
		}
	}
	s.point()
	return tx.Commit()
}

// handleOutside is how not to do it: the effect is committed, then the key.
func (s *target) handleOutside(ctx context.Context, tx *sql.Tx, key string) error {
	first, err := s.box.Once(ctx, tx, key)
	if err != nil {
		return err
	}
	if err := tx.Rollback(); err != nil { // what was asked is known; nothing is written yet
		return err
	}
	if first {
		if _, err := s.db.ExecContext(ctx, "INSERT INTO effects (event) VALUES ('"+key+"')"); err != nil {
			return err
		}
	}
	s.point()
	again, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = again.Rollback() }()
	if _, err := s.box.Once(ctx, again, key); err != nil {
		return err
	}
	return again.Commit()
}

// run is a target that crashes, and senders that send each event until it is
// answered, as the gateway does.
type run struct {
	d        database
	outside  bool
	listener *os.File
	url      string
	crashes  atomic.Int64
	events   atomic.Int64
	requests atomic.Int64
}

// crash lets the target crash n times under load, then lets everything land.
func (r *run) crash(t *testing.T, n int) {
	t.Helper()
	db := r.d.open(t)
	box(t, inbox.Config{Dialect: r.d.dialect}, db)
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE effects (event text NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + l.Addr().String()
	if r.listener, err = l.(*net.TCPListener).File(); err != nil {
		t.Fatal(err)
	}
	l.Close() // the file keeps it listening: senders wait while the target is down
	defer r.listener.Close()

	done := make(chan struct{})
	var senders sync.WaitGroup
	for range 6 {
		senders.Go(func() { r.send(t, done) })
	}
	for i := range n {
		r.live(t, uint64(i)+1, nil)
	}
	close(done)
	stop := make(chan struct{})
	var last sync.WaitGroup
	last.Go(func() { r.live(t, 0, stop) })
	senders.Wait()
	close(stop)
	last.Wait()
}

// live is one life of the target, until it crashes or stop is closed.
func (r *run) live(t *testing.T, seed uint64, stop <-chan struct{}) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envDSN+"="+r.d.dsn, envDialect+"="+strconv.Itoa(int(r.d.dialect)), envSeed+"="+strconv.FormatUint(seed, 10))
	if r.outside {
		cmd.Env = append(cmd.Env, envOutside+"=1")
	}
	var said strings.Builder
	cmd.ExtraFiles, cmd.Stderr = []*os.File{r.listener}, &said
	cmd.SysProcAttr = withParent(syscall.SIGKILL)
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	if stop != nil {
		<-stop
		_ = cmd.Process.Kill()
	}
	_ = cmd.Wait()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		t.Errorf("the target ended by itself: %v %s", cmd.ProcessState, said.String())
	}
	r.crashes.Add(1)
}

// send sends one event after the other, each until it is answered, and half
// of them once more.
func (r *run) send(t *testing.T, done <-chan struct{}) {
	c := &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}
	defer c.CloseIdleConnections()
	for {
		select {
		case <-done:
			return
		default:
		}
		n := r.events.Add(1)
		for landed := int64(0); landed < 1+n%2; {
			r.requests.Add(1)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, io.NopCloser(strings.NewReader("{}")))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Idempotency-Key", "shop:evt_"+strconv.FormatInt(n, 10))
			resp, err := c.Do(req)
			if err != nil {
				continue // crashed: the next connection waits for the next life
			}
			if text, _ := io.ReadAll(resp.Body); resp.StatusCode == http.StatusNoContent {
				landed++
			} else if resp.StatusCode != http.StatusInternalServerError {
				t.Errorf("answer %d %s", resp.StatusCode, text)
			}
			resp.Body.Close()
		}
	}
}

// effects counts the events with an effect, and those with more than one.
func (r *run) effects(t *testing.T) (events, doubles int64) {
	t.Helper()
	const query = "SELECT count(*), coalesce(sum(CASE WHEN n > 1 THEN 1 ELSE 0 END), 0) FROM (SELECT count(*) AS n FROM effects GROUP BY event) AS e"
	if err := r.d.open(t).QueryRowContext(t.Context(), query).Scan(&events, &doubles); err != nil {
		t.Fatal(err)
	}
	return events, doubles
}

// TestCrashes: a target that is killed 1,000 times, anywhere, half of them over
// each database, has had the effect of every event exactly once.
func TestCrashes(t *testing.T) {
	n := 500
	if testing.Short() {
		n = 60
	}
	each(t, func(t *testing.T, d database) {
		r := &run{d: d}
		r.crash(t, n)
		events, doubles := r.effects(t)
		t.Logf("%d crashes, %d events, %d requests, %d effects, %d doubled", n, r.events.Load(), r.requests.Load(), events, doubles)
		if events != r.events.Load() || doubles != 0 {
			t.Errorf("%d events sent: %d have an effect, %d of them more than one", r.events.Load(), events, doubles)
		}
		if again := r.requests.Load() - r.events.Load()*3/2; again < int64(n)/4 {
			t.Errorf("%d requests were sent again over %d crashes: the crashes hit nothing", again, n)
		}
	})
}

// TestCrashesOutside is the control: with the effect outside the transaction
// of its key the same crashes double effects.
func TestCrashesOutside(t *testing.T) {
	r := &run{d: sqliteIn(t.TempDir()), outside: true}
	r.crash(t, 60)
	events, doubles := r.effects(t)
	t.Logf("%d events, %d effects doubled", events, doubles)
	if doubles == 0 {
		t.Error("no effect was doubled: the crashes of this test prove nothing")
	}
}
