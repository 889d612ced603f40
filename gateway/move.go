package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/dedupe/postgres"
)

// Place is where a ledger is, for what moves whole ones.
type Place struct {
	badger   *badgerdb.Config
	postgres *postgres.Config
}

// StorePlace is where the ledger of a configuration is.
func StorePlace(cfg *Config) Place {
	log := slog.New(slog.DiscardHandler)
	if cfg.Store.Driver == driverPostgres {
		c := shared(cfg, log)
		return Place{postgres: &c}
	}
	c := embedded(cfg, log, nil)
	return Place{badger: &c}
}

// ParsePlace reads "badger:DIRECTORY", "postgres:DSN", "postgres:env:NAME" and
// "postgres:file:PATH"; with the last two no password stands in the text. schema
// is that of a database, "" the default.
func ParsePlace(text, schema string, env Env) (Place, error) {
	driver, at, _ := strings.Cut(text, ":")
	switch {
	case driver == driverBadger && at != "" && schema == "":
		return Place{badger: &badgerdb.Config{Dir: at}}, nil
	case driver == driverPostgres && at != "":
		dsn, err := reveal(at, env)
		return Place{postgres: &postgres.Config{URL: dsn, Schema: schema}}, err
	}
	return Place{}, fmt.Errorf("want badger:DIRECTORY, postgres:env:NAME, postgres:file:PATH or postgres:DSN")
}

// reveal is a DSN, or the one that env:NAME or file:PATH stands for.
func reveal(at string, env Env) (string, error) {
	scheme, name, _ := strings.Cut(at, ":")
	switch scheme {
	case "env":
		if v, ok := env.lookup(name); ok && v != "" {
			return v, nil
		}
		return "", fmt.Errorf("environment variable %q is not set", name)
	case "file":
		b, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("file of the DSN: %w", err)
		}
		return strings.TrimSpace(string(b)), nil
	}
	return at, nil
}

// String names the place, without a password.
func (p Place) String() string {
	switch {
	case p.badger != nil:
		return "directory " + p.badger.Dir
	case p.postgres != nil:
		return postgres.Where(*p.postgres)
	}
	return "nowhere"
}

// AuditKeyFile is the file of the key that signed the account of an embedded
// ledger, "" when there is none beside it.
func (p Place) AuditKeyFile() string {
	if p.badger == nil {
		return ""
	}
	path, err := filepath.Abs(filepath.Join(p.badger.Dir, auditKeyFile))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		return ""
	}
	return path
}

// Move says how a ledger is moved.
type Move struct {
	SkipDamaged bool                     // leave damaged records out, and count them
	Keep        bool                     // of CopyLedger: gateways may go on with the source
	Resume      bool                     // of LoadLedger: don't hold what is open
	Progress    func(done, total uint64) // called now and then, if it is set: events of about total
}

// reading is a whole ledger being read.
type reading interface {
	Each(ctx context.Context, fault func(dedupe.Fault) error, put func(dedupe.Moved) error) error
	Close() error
}

// moving is a move under way.
type moving struct {
	Move
	total, events uint64
	sent          dedupe.MoveTally
	report        dedupe.MoveReport
}

func (m *moving) fault(f dedupe.Fault) error {
	if !m.SkipDamaged {
		return &damage{f}
	}
	m.report.Skipped = append(m.report.Skipped, f)
	return nil
}

// damage is a damaged record that ended a move.
type damage struct{ dedupe.Fault }

func (d *damage) Error() string {
	return d.Where + ": " + d.What + "; restore a backup, or leave damaged records out with --skip-damaged"
}
func (d *damage) Is(target error) bool { return target == dedupe.ErrDamaged }

func (m *moving) saw(rec dedupe.Moved) {
	if _, ok := rec.(*dedupe.MovedEvent); !ok || m.Progress == nil {
		return
	}
	if m.events++; m.events%100 == 0 {
		m.Progress(m.events, m.total)
	}
}

// CopyLedger copies an embedded ledger whose gateway is stopped into a database
// schema that holds none, and holds what arrived against what was sent. A copy
// that was cut is gone on with by the same call. The source is left as it is, but
// for a mark that it was moved: no gateway goes on with it.
func CopyLedger(ctx context.Context, from, to Place, how Move) (report dedupe.MoveReport, err error) {
	if from.badger == nil || to.postgres == nil {
		return report, errors.New("ledgers are copied from a directory to a database; from one database to another a dump is loaded; the way back to a directory there is not")
	}
	src, err := badgerdb.OpenSource(ctx, *from.badger)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	m := &moving{Move: how, total: src.Events()}
	if err := m.sound(ctx, src); err != nil {
		return m.report, err
	}
	l, err := postgres.NewLoader(ctx, *to.postgres, src.ID())
	if err != nil {
		return m.report, noLedger{err}
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	err = src.Each(ctx, m.fault, func(rec dedupe.Moved) error {
		m.saw(rec)
		m.sent.Add(rec)
		return l.Put(ctx, rec)
	})
	if err == nil {
		err = m.finish(ctx, l, &m.sent, false)
	}
	if err == nil && !how.Keep {
		err = src.MarkMoved(to.String())
	}
	return m.report, err
}

// sound checks the source first: a record that is missing is found by no
// reading of those that are there.
func (m *moving) sound(ctx context.Context, src *badgerdb.Source) error {
	rep, err := src.Check(ctx)
	if err != nil || m.SkipDamaged {
		return err
	}
	for _, f := range rep.Faults {
		return &damage{f}
	}
	return nil
}

func (m *moving) finish(ctx context.Context, l *postgres.Loader, sent *dedupe.MoveTally, hold bool) error {
	m.report.Resumed = l.Resumed()
	got, err := l.Finish(ctx, sent, hold)
	m.report.From, m.report.Equal = sent.Counts(), err == nil
	if got != nil {
		m.report.To = got.Counts()
	}
	return err
}

// DumpLedger writes a whole ledger as a dump: of a directory whose gateway is
// stopped, or of a database as it is at this moment.
func DumpLedger(ctx context.Context, from Place, w io.Writer, how Move) (dedupe.MoveReport, error) {
	src, total, err := from.open(ctx)
	m := &moving{Move: how, total: total}
	if err != nil {
		return m.report, err
	}
	err = m.dump(ctx, src, w, from.String())
	return m.report, errors.Join(err, src.Close())
}

func (m *moving) dump(ctx context.Context, src reading, w io.Writer, of string) error {
	out, err := dedupe.NewDumpWriter(w, dedupe.DumpHead{ID: rand.Text(), Of: of, At: time.Now().UTC()})
	if err != nil {
		return err
	}
	err = src.Each(ctx, m.fault, func(rec dedupe.Moved) error {
		m.saw(rec)
		return out.Put(rec)
	})
	if err != nil {
		return err
	}
	tally, err := out.End()
	m.report.From, m.report.Equal = tally.Counts(), err == nil
	return err
}

func (p Place) open(ctx context.Context) (reading, uint64, error) {
	if p.postgres != nil {
		src, err := postgres.OpenSource(ctx, *p.postgres)
		if err != nil {
			return nil, 0, noLedger{err}
		}
		total, err := src.Events(ctx)
		if err != nil {
			return nil, 0, errors.Join(err, src.Close())
		}
		return src, total, nil
	}
	src, err := badgerdb.OpenSource(ctx, *p.badger)
	if err != nil {
		return nil, 0, err
	}
	return src, src.Events(), nil
}

// LoadLedger makes a ledger of a dump, in a database schema that holds none. A
// load that was cut is gone on with by the same call. What was open at the dump is
// held, unless how says otherwise.
func LoadLedger(ctx context.Context, r io.Reader, to Place, how Move) (report dedupe.MoveReport, err error) {
	if to.postgres == nil {
		return report, errors.New("dumps are loaded into a database; an embedded ledger is restored from what onceward backup wrote")
	}
	in, err := dedupe.NewDumpReader(r)
	if err != nil {
		return report, err
	}
	l, err := postgres.NewLoader(ctx, *to.postgres, in.Head().ID)
	if err != nil {
		return report, noLedger{err}
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	m := &moving{Move: how}
	tally, err := in.Each(func(rec dedupe.Moved) error {
		m.saw(rec)
		return l.Put(ctx, rec)
	})
	if err == nil {
		err = m.finish(ctx, l, tally, !how.Resume)
	}
	return m.report, err
}

// VerifyDump reads a whole dump and checks it.
func VerifyDump(ctx context.Context, r io.Reader) (dedupe.DumpHead, dedupe.MoveReport, error) {
	in, err := dedupe.NewDumpReader(r)
	if err != nil {
		return dedupe.DumpHead{}, dedupe.MoveReport{}, err
	}
	tally, err := in.Each(func(dedupe.Moved) error { return ctx.Err() })
	return in.Head(), dedupe.MoveReport{From: tally.Counts(), Equal: err == nil}, err
}

// HoldLedger is postgres.Hold: for a database that its own tools restored.
func HoldLedger(ctx context.Context, at Place) (int64, error) {
	if at.postgres == nil {
		return 0, errors.New("an embedded ledger holds what was open when onceward restore makes it")
	}
	n, err := postgres.Hold(ctx, *at.postgres)
	if err != nil {
		err = noLedger{err}
	}
	return n, err
}

// ResumeLedger makes the deliveries due that a ledger in a database holds.
func ResumeLedger(ctx context.Context, at Place) (int64, error) {
	if at.postgres == nil {
		return 0, errors.New("an embedded ledger makes what it holds when it is started with serve --resume-deliveries")
	}
	n, err := postgres.Resume(ctx, *at.postgres)
	if err != nil {
		err = noLedger{err}
	}
	return n, err
}
