package gateway

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/dedupe/postgres"
)

// StoreConfig says where the ledger is. Not reloadable.
type StoreConfig struct {
	// Driver is the engine: "badger", the default, is in a directory of this
	// gateway alone; "postgres" is a database that several gateways share.
	Driver string `toml:"driver,omitzero"`
	// MemoryLimit is what the process may hold in memory that no file backs
	// (RssAnon in /proc/PID/status): heap, stacks, and the memtables, caches and
	// compactions of the embedded ledger. Bodies in flight may come on top,
	// together 64 MiB at most, and a fifth of all that for a moment. The pages of
	// the ledger's files that the process has touched (RssFile) are not counted:
	// the kernel takes them back whenever it needs them. A ledger of more than 32 GiB
	// takes more while it is compacted, in proportion to its size: set a higher limit
	// for it. Default "512MiB", at least "64MiB".
	MemoryLimit Size `toml:"memory_limit,omitzero"`

	// Path is the ledger's directory, made with mode 0700 when it is missing.
	// Relative paths start at the config file's directory. Default "data".
	// Losing it loses every claim, event and open delivery. This key and those
	// up to max_size are the driver badger's.
	Path string `toml:"path,omitzero"`
	// Reserve is the free disk space below which intake answers 503. Default
	// 0: the engine chooses by the size of the disk.
	Reserve Size `toml:"reserve,omitzero"`
	// Ballast is disk space held back so that a full disk can still be
	// cleaned. Default 0: the engine chooses.
	Ballast Size `toml:"ballast,omitzero"`
	// BodySize is how much disk the bodies of one retention may take, about:
	// past it the oldest go before their time, those of open events excepted.
	// Default 0: no limit.
	BodySize Size `toml:"body_size,omitzero"`
	// MaxSize is the size of the ledger on disk from which on intake answers
	// 503. Default 0: no limit but the reserve.
	MaxSize Size `toml:"max_size,omitzero"`

	// DSN names the database, as a URL or key=value pairs. Required. This key
	// and those below are the driver postgres's.
	DSN SecretConfig `toml:"dsn,omitzero"`
	// Schema is where the ledger's tables are. Default "onceward".
	Schema string `toml:"schema,omitzero"`
	// Gateway is this gateway's name, different from that of any other on the
	// database; a process that starts under a name takes it over. Default: the
	// host's name.
	Gateway string `toml:"gateway,omitzero"`
	// ExecMode is "prepare", the default, or "describe", for poolers in
	// transaction mode that know no prepared statements.
	ExecMode string `toml:"exec_mode,omitzero"`
	// MaxConns is how many connections the gateway has at most. Default 8.
	MaxConns int `toml:"max_conns,omitzero"`
	// StatementTimeout and LockTimeout bound what one statement may take, and how
	// long it may wait for a lock. Defaults "10s" and "5s".
	StatementTimeout Duration `toml:"statement_timeout,omitzero"`
	LockTimeout      Duration `toml:"lock_timeout,omitzero"`
	// Migrate lets the start of a gateway make the schema or bring it up to date.
	// Default false: `onceward ledger migrate --apply` does.
	Migrate bool `toml:"migrate,omitzero"`
}

// DefaultMemory is the memory limit of a configuration that names none.
const DefaultMemory = Size(512 << 20)

// The drivers, and the keys that are of one alone.
const (
	driverBadger   = "badger"
	driverPostgres = "postgres"
)

var (
	badgerKeys   = []string{"path", "reserve", "ballast", "body_size", "max_size"}
	postgresKeys = []string{"dsn", "schema", "gateway", "exec_mode", "max_conns", "statement_timeout", "lock_timeout", "migrate"}
)

// The bounds of a configuration of the postgres driver.
const (
	minConns, maxConns         = 2, 1000
	minStatement, maxStatement = time.Second, 10 * time.Minute
	minLock                    = 100 * time.Millisecond
)

// fill sets the defaults of the driver; n is the table store.
func (s *StoreConfig) fill(n *node) {
	if s.Driver != driverPostgres {
		return
	}
	if n.get("path") == nil {
		s.Path = ""
	}
	if n.get("dsn") != nil {
		s.DSN.ID = "dsn"
	}
	if n.get("gateway") == nil {
		s.Gateway, _ = os.Hostname() // without one the check asks for a name
	}
	for _, d := range []struct {
		key   string
		value *string
		def   string
	}{{"schema", &s.Schema, "onceward"}, {"exec_mode", &s.ExecMode, string(postgres.ExecPrepare)}} {
		if n.get(d.key) == nil {
			*d.value = d.def
		}
	}
	if n.get("max_conns") == nil {
		s.MaxConns = 8
	}
	orDefault(&s.StatementTimeout, 10*time.Second)
	orDefault(&s.LockTimeout, min(5*time.Second, time.Duration(s.StatementTimeout)))
}

// gatewayName is what a gateway may be called on a shared ledger: as hosts are.
var gatewayName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$`)

// inText matches a password that stands in the name of a database.
var inText = regexp.MustCompile(`(?i)://[^@/]*:[^@/]+@|\bpassword\s*=`)

func (c *checker) store() {
	s, n := &c.cfg.Store, c.cfg.tree.or("store")
	switch s.Driver {
	case driverBadger:
		c.otherDriver(n, s.Driver, postgresKeys)
		if s.Path == "" {
			c.rep.at(n.or("path"), "the path is empty", `name a directory, such as "data"`)
		}
	case driverPostgres:
		c.otherDriver(n, s.Driver, badgerKeys)
		c.postgres(s, n)
	default:
		c.rep.at(n.or("driver"), "unknown driver "+strconv.Quote(s.Driver),
			meant(s.Driver, []string{driverBadger, driverPostgres}, `use driver = "badger" or "postgres"`))
	}
	if s.MemoryLimit < minMemory {
		c.rep.at(n.or("memory_limit"), "a memory limit of "+s.MemoryLimit.String()+" is too small", "want at least "+minMemory.String())
	}
}

// otherDriver reports keys that mean nothing to the driver.
func (c *checker) otherDriver(n *node, driver string, keys []string) {
	for _, key := range keys {
		if v := n.get(key); v != nil {
			at := v
			if v.key != nil {
				at = v.key
			}
			c.rep.at(at, key+" means nothing to the "+driver+" driver", "remove it")
			v.bad = true // what else is wrong with it is no matter
		}
	}
}

func (c *checker) postgres(s *StoreConfig, n *node) {
	switch dsn := n.get("dsn"); {
	case dsn == nil:
		c.rep.at(n, "the postgres driver needs a dsn", `write dsn = "${env:DATABASE_URL}", or ${file:path}`)
	case s.DSN.unset || dsn.bad:
	default:
		c.dsn(s, dsn)
	}
	if !postgres.ValidSchema(s.Schema) {
		c.rep.at(n.or("schema"), "schema "+strconv.Quote(s.Schema)+" is not allowed", "want up to 40 of a-z, 0-9 and _, not beginning with a digit")
	}
	if !gatewayName.MatchString(s.Gateway) {
		c.rep.at(n.or("gateway"), strconv.Quote(s.Gateway)+" can't be a gateway's name", `write gateway = "…": up to 200 letters, digits, ., _ and -, different for each gateway`)
	}
	c.oneOf(n.or("exec_mode"), "exec_mode", s.ExecMode, string(postgres.ExecPrepare), string(postgres.ExecDescribe))
	if s.MaxConns < minConns || s.MaxConns > maxConns {
		c.rep.at(n.or("max_conns"), "max_conns = "+strconv.Itoa(s.MaxConns)+" is out of bounds", "want "+strconv.Itoa(minConns)+" to "+strconv.Itoa(maxConns))
	}
	c.between(n.get("statement_timeout"), "statement_timeout", s.StatementTimeout, minStatement, maxStatement)
	most := time.Duration(s.StatementTimeout)
	if most < minStatement || most > maxStatement { // which was reported
		most = maxStatement
	}
	c.between(n.get("lock_timeout"), "lock_timeout", s.LockTimeout, minLock, most)
}

// dsn checks the name of the database.
func (c *checker) dsn(s *StoreConfig, n *node) {
	if v := n.get("value"); v != nil {
		n = v
	}
	text := s.DSN.Value.Reveal()
	if strings.TrimSpace(text) == "" {
		c.rep.at(n, "the dsn is empty", `write dsn = "${env:DATABASE_URL}", or ${file:path}`)
		return
	}
	if err := postgres.CheckURL(text); err != nil {
		c.rep.at(n, "the dsn can't be read", "want postgres://user@host:port/database or key=value pairs, and its files to be there")
		return
	}
	if !n.expanded && inText.MatchString(text) {
		c.rep.warn(n, "the password stands in the file itself", "write ${env:NAME} or ${file:path}, or keep it in ~/.pgpass")
	}
}

// StorePath is the directory of the embedded ledger, as the process sees it; ""
// with another driver.
func (c *Config) StorePath() string {
	if c.Store.Driver == driverPostgres {
		return ""
	}
	return c.path(c.Store.Path)
}

// StorePlace says in words where the ledger is.
func (c *Config) StorePlace() string {
	if c.Store.Driver == driverPostgres {
		return "schema " + c.Store.Schema + " of the database, as gateway " + c.Store.Gateway
	}
	return c.StorePath()
}

// Shared reports whether the ledger is one that several gateways share.
func (c *Config) Shared() bool { return c.Store.Driver == driverPostgres }
