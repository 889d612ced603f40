package badgerdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
	"golang.org/x/sync/errgroup"

	"github.com/onceward/onceward/dedupe"
)

// survey is what the files of a ledger say before Badger is let at them. Badger
// repairs as it opens: it cuts write-ahead files off at the first place that
// does not verify and removes tables that its manifest does not list, so that
// damage it was shown is damage made final. A ledger that would lose anything
// known to be on disk that way is refused untouched.
type survey struct {
	dir    string // the data directory
	tables []tableFile
	logs   []logFile
	faults []dedupe.Fault
	// repair, when not nil, is a manifest without tables that came to nothing.
	repair []byte
}

type tableFile struct {
	id     uint64
	path   string
	newest uint64 // head in it
	err    error
}

type logFile struct {
	path  string
	heads []uint64 // of whole transactions, in the order of writing
	stop  int      // where the first entry stands that does not verify
	rest  int      // bytes from there on, less the zeros at the end
}

// precheck refuses a ledger of which Badger would make less than there is.
func precheck(cfg *Config) error {
	if !guarded {
		return nil
	}
	s, err := look(cfg.Dir)
	if err != nil {
		return err
	}
	if len(s.faults) == 0 {
		if err := s.removeEmpty(); err != nil || s.repair == nil {
			return err
		}
		cfg.Log.Warn("the last run ended with a failed write; tables that came to nothing are left out, every batch is there without them")
		return s.writeRepair()
	}
	f := s.faults[0]
	if n := len(s.faults) - 1; n > 0 {
		return fmt.Errorf("%s: %s; and %d more faults", f.Where, f.What, n)
	}
	return fmt.Errorf("%s: %s", f.Where, f.What)
}

// look reads and verifies every file of the ledger in a data directory. Faults
// are in the survey; an error says that it could not be made.
func look(dir string) (*survey, error) {
	s := &survey{dir: dir}
	if _, err := os.Stat(ledgerDir(dir)); errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err := s.manifest(); err != nil {
		return nil, err
	}
	s.readTables()
	if err := s.readLogs(); err != nil {
		return nil, err
	}
	s.heads()
	if s.repair != nil && len(s.faults) == 0 {
		return s, s.accounted()
	}
	return s, nil
}

func (s *survey) fault(where, format string, args ...any) {
	s.faults = append(s.faults, dedupe.Fault{Where: where, What: fmt.Sprintf(format, args...)})
}

// manifest reads which tables there are. Only those count: a process that is
// killed while it writes one leaves an unfinished file, which Badger removes.
func (s *survey) manifest() error {
	dir := ledgerDir(s.dir)
	path := filepath.Join(dir, badger.ManifestFilename)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
		if err == nil && len(files) > 0 {
			s.fault(path, "is missing and there are %d tables", len(files))
			s.adopt(files)
		}
		return err
	}
	if err != nil {
		return err
	}
	listed, _, err := badger.ReplayManifestFile(f, 0, badger.DefaultOptions(dir).WithLogger(nil))
	if err == nil {
		err = noEmptyChange(f)
	}
	if cerr := f.Close(); cerr != nil {
		return cerr
	}
	if err != nil {
		s.fault(path, "%v", err)
		files, gerr := filepath.Glob(filepath.Join(dir, "*.sst"))
		s.adopt(files)
		return gerr
	}
	missing := map[uint64]bool{}
	for id := range listed.Tables {
		if _, err := os.Stat(s.addTable(id)); errors.Is(err, fs.ErrNotExist) {
			missing[id] = true
		}
	}
	if _, err := os.Stat(failedPath(s.dir)); err == nil && len(missing) > 0 {
		return s.rollBack(path, missing)
	}
	return nil
}

func (s *survey) addTable(id uint64) (path string) {
	path = table.NewFilename(id, ledgerDir(s.dir))
	s.tables = append(s.tables, tableFile{id: id, path: path})
	return path
}

// adopt takes all tables there are where nothing says which count.
func (s *survey) adopt(files []string) {
	for _, path := range files {
		if id, ok := table.ParseFileID(path); ok {
			s.tables = append(s.tables, tableFile{id: id, path: path})
		}
	}
}

// noEmptyChange is an error when changes stand behind a change of no bytes
// other than the first, which a new manifest begins with: zeroed parts verify
// as such, and hide what stood there.
func noEmptyChange(f *os.File) error {
	all, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	if err != nil {
		return err
	}
	const magic, frame = 8, 8
	empty := 0
	for at := magic; at+frame <= len(all); {
		n := int(binary.BigEndian.Uint32(all[at:]))
		if n == 0 && empty == 0 && at > magic {
			empty = at
		}
		if n > 0 && empty > 0 {
			return fmt.Errorf("holds nothing at %d and changes behind it", empty)
		}
		at += frame + n
	}
	return nil
}

// readTables verifies every block of every table.
func (s *survey) readTables() {
	g := errgroup.Group{}
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range s.tables {
		t := &s.tables[i]
		g.Go(func() error {
			t.newest, t.err = verifyTable(t.path)
			return nil
		})
	}
	_ = g.Wait()
	for _, t := range s.tables {
		switch {
		case errors.Is(t.err, fs.ErrNotExist): // a list that was cut names tables that are gone for good
			s.fault(t.path, "is not there, and %s names it: one of the two was lost or cut", badger.ManifestFilename)
		case t.err != nil:
			s.fault(t.path, "%v", t.err)
		}
	}
}

func verifyTable(path string) (newest uint64, err error) {
	t, err := openRawTable(path)
	if err != nil {
		return 0, err
	}
	newest, err = t.verify()
	return newest, errors.Join(err, t.close())
}

func (s *survey) readLogs() error {
	files, err := filepath.Glob(filepath.Join(ledgerDir(s.dir), "*.mem"))
	if err != nil {
		return err
	}
	slices.Sort(files) // by number: names are padded
	for _, path := range files {
		f := logFile{path: path}
		l, err := openRawLog(path)
		if err == nil {
			f.stop = l.committed(func(e rawEntry) {
				if no := headNumber(e); no > 0 {
					f.heads = append(f.heads, no)
				}
			})
			f.rest = max(0, len(l.data)-f.stop)
		} else {
			s.fault(path, "%v", err)
		}
		s.logs = append(s.logs, f)
	}
	return nil
}

// registry is the file of Badger's encryption keys, of which there are none.
const registry = "KEYREGISTRY"

// removeEmpty removes what holds nothing and what Badger would not open for:
// write-ahead files and value logs of no bytes, which a stop between making one
// and giving it its size leaves, and a damaged list of keys, which is made again.
func (s *survey) removeEmpty() error {
	path := filepath.Join(ledgerDir(s.dir), registry)
	b, err := os.ReadFile(path)
	if err == nil && (len(b) != 28 || string(b[16:]) != "Hello Badger") {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	files, err := filepath.Glob(filepath.Join(ledgerDir(s.dir), "*.vlog"))
	if err != nil {
		return err
	}
	for _, l := range s.logs {
		files = append(files, l.path)
	}
	for _, path := range files {
		st, err := os.Stat(path)
		if err == nil && st.Size() == 0 {
			err = os.Remove(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// heads holds the numbers of the batches that can be read against each other
// and against the mark: a number that is missing was in a file that is gone or
// behind damage.
func (s *survey) heads() {
	newest := uint64(0)
	for _, t := range s.tables {
		newest = max(newest, t.newest)
	}
	before := "the tables"
	for _, l := range s.logs {
		for _, no := range l.heads {
			if no > newest+1 && newest > 0 {
				s.fault(l.path, "begins with batch %d, and %s end with batch %d: a write-ahead file or a table is gone", no, before, newest)
			}
			newest = max(newest, no)
		}
		if len(l.heads) > 0 {
			before = filepath.Base(l.path)
		}
	}
	mark, known, err := readHighWater(s.dir)
	switch {
	case err != nil:
		s.fault(highWaterPath(s.dir), "%v", err)
	case known && newest < mark:
		s.fault(s.where(), "batches %d to %d were on disk and are gone", newest+1, mark)
	case !known && newest > 0:
		s.fault(highWaterPath(s.dir), "is missing; without it nobody can say whether the ledger is whole")
	}
}

// where names the write-ahead file behind whose damage the newest batches are,
// or else the directory.
func (s *survey) where() string {
	for _, l := range s.logs {
		if l.rest > 0 {
			return fmt.Sprintf("%s at %d of %d bytes", l.path, l.stop, l.stop+l.rest)
		}
	}
	return ledgerDir(s.dir)
}
