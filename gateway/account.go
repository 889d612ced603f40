package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/onceward/onceward/audit"
	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/dedupe/badgerdb"
	"github.com/onceward/onceward/event"
)

// auditKey is the key of the config, or the one that is kept beside the ledger,
// in a shared one under the gateway's name. It is made at the first start.
func (g *Gateway) auditKey(ctx context.Context) (*audit.Key, error) {
	private := g.start.Audit.Key.Value.Reveal()
	switch {
	case private != "":
		return audit.ParseKey(private)
	case g.start.Shared():
		return g.keptKey(ctx)
	}
	return keyBeside(g.start, g.log)
}

// keyBeside reads the key from a file that only its owner reads.
func keyBeside(cfg *Config, log *slog.Logger) (*audit.Key, error) {
	path := filepath.Join(cfg.StorePath(), auditKeyFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		_, private, err := audit.GenerateKey()
		if err != nil {
			return nil, err
		}
		if err := writeNew(path, private+"\n"); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("keep audit key %q: %w", path, err)
		}
		log.Info("audit key made", "event", "audit.key", "file", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("audit key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		log.Warn("audit key is readable by others", "event", "audit.key", "file", path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("audit key: %w", err)
	}
	key, err := audit.ParseKey(string(b))
	if err != nil {
		return nil, fmt.Errorf("audit key %q: %w", path, err)
	}
	return key, nil
}

// errKeyInside says that only the gateway can say which key it has.
var errKeyInside = errors.New("audit key: is in the database, and the running gateway says what it is")

// AuditKey is the public key of the configured gateway's account, read beside
// its ledger or made of the config. It makes nothing, and for keys that are in a
// shared ledger it is an error: the running gateway knows them.
func AuditKey(cfg *Config) (string, error) {
	private := cfg.Audit.Key.Value.Reveal()
	switch {
	case cfg.Shared():
		return "", errKeyInside
	case private == "":
		return AuditKeyIn(cfg.StorePath())
	}
	key, err := audit.ParseKey(private)
	if err != nil {
		return "", err
	}
	return key.Public(), nil
}

// AuditKeyIn is the public key that stands beside a ledger.
func AuditKeyIn(dir string) (string, error) {
	path := filepath.Join(dir, auditKeyFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("audit key: %w", err)
	}
	key, err := audit.ParseKey(string(b))
	if err != nil {
		return "", fmt.Errorf("audit key %q: %w", path, err)
	}
	return key.Public(), nil
}

// makeAccount builds the transparency log.
func (g *Gateway) makeAccount(ctx context.Context) error {
	key, err := g.auditKey(ctx)
	if err != nil {
		return err
	}
	g.account, err = audit.NewLog(audit.LogConfig{
		Ledger: g.ledger, Key: key, Witness: g.start.witness(), Now: g.opts.Now, Log: g.log.With("component", "audit"), Registerer: g.opts.Registry,
	})
	if err != nil {
		return fmt.Errorf("make audit log: %w", err)
	}
	if g.start.Shared() {
		return g.account.Announce(ctx)
	}
	return nil
}

// OpenAccount opens the account of a ledger that no gateway has open, to be
// read and not signed. The ledger is closed with it.
func OpenAccount(dir string, log *slog.Logger) (*audit.Log, func() error, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, nil, fmt.Errorf("open ledger: %w", err)
	}
	db, err := badgerdb.Open(badgerdb.Config{Dir: dir, Log: log, Reserve: 1, Ballast: -1})
	if err != nil {
		return nil, nil, err
	}
	account, err := audit.NewLog(audit.LogConfig{Ledger: db, Log: log})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return account, db.Close, nil
}

// recordEvery is how often what is only counted is recorded.
const recordEvery = time.Minute

// counts records once a minute, and when it is told to end, what is only
// counted: refused requests, and failures at the admin listener. A kill loses
// the counts of its minute.
func (g *Gateway) counts(ctx context.Context) error {
	tick := time.NewTicker(recordEvery)
	defer tick.Stop()
	before := map[[2]string]uint64{}
	since := g.opts.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			acts := g.counted(before, since)
			acts = append(acts, &dedupe.Act{Kind: dedupe.ActConfigured, Outcome: "stopped", Hash: g.configHash(), By: dedupe.By{Actor: actorGateway}})
			g.recordSoon(lastPatience, acts...)
			return nil
		}
		g.record(ctx, g.counted(before, since)...)
		since = g.opts.Now()
	}
}

// The names under which the gateway itself acts. No token can be called so:
// they hold a character that names don't.
const (
	actorGateway = "(gateway)"
	actorSignal  = "(signal)"
	actorAPI     = "(api)" // who it was stands in the act of the request
)

// counted is what was counted since a time; before has the counts up to then.
func (g *Gateway) counted(before map[[2]string]uint64, since time.Time) []*dedupe.Act {
	var out []*dedupe.Act
	since = since.Truncate(time.Second)
	now := g.receiver.RefusedCounts()
	for _, k := range slices.SortedFunc(maps.Keys(now), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		if fresh := now[k] - before[k]; fresh > 0 {
			out = append(out, &dedupe.Act{Kind: dedupe.ActRefused, Source: k[0], Outcome: k[1], Number: fresh, Time: since})
		}
		before[k] = now[k]
	}
	for _, a := range g.admin.Failures() {
		a.Time = since
		out = append(out, a)
	}
	return out
}

// record writes acts that no request waits for. What can't be written is said
// in the log: the ledger failed, and says so itself.
func (g *Gateway) record(ctx context.Context, acts ...*dedupe.Act) {
	if err := g.writer.Record(ctx, acts...); err != nil {
		g.log.Error("acts were not recorded", "event", "audit.unrecorded", "acts", len(acts), "error", err)
	}
}

const (
	// recordPatience is how long a start or a reload waits for its act.
	recordPatience = 5 * time.Second
	// lastPatience is how long a stop does, after it waited for results.
	lastPatience = time.Second
)

// configured records what became of a configuration. On a disk that is nearly
// full acts wait for room; a start or a reload doesn't wait with them for ever, or
// nobody could look at the gateway to see why.
func (g *Gateway) configured(outcome, detail, actor string) {
	act := &dedupe.Act{Kind: dedupe.ActConfigured, Outcome: outcome, Hash: g.configHash(), Detail: detail, By: dedupe.By{Actor: actor}}
	g.recordSoon(recordPatience, act)
}

// recordSoon records acts, and comes back when they are recorded or its patience
// is over; in that case they still wait for the ledger.
func (g *Gateway) recordSoon(patient time.Duration, acts ...*dedupe.Act) {
	done := make(chan struct{})
	g.telling.Go(func() {
		defer close(done)
		g.record(context.Background(), acts...)
	})
	patience := time.NewTimer(patient)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
		g.log.Warn("acts wait for the ledger", "event", "audit.waits", "acts", len(acts))
	}
}

// configHash is the hash of the configuration in effect.
func (g *Gateway) configHash() (h event.Hash) {
	_ = h.UnmarshalText([]byte(g.gen.Load().cfg.Hash())) // it is one
	return h
}
