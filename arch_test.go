package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/onceward/onceward"

// allowed says which of our packages a package may import. "" is main. One
// that is missing here may not exist.
var allowed = map[string][]string{
	"":                       {"cli"},
	"cli":                    {"gateway", "verify", "admin", "audit", "dedupe", "event", "receiver/conform"},
	"gateway":                {"trace", "receiver", "forward", "admin", "audit", "verify", "dedupe", "dedupe/badgerdb", "dedupe/postgres", "event"},
	"receiver":               {"verify", "dedupe", "event", "trace"},
	"receiver/conform":       {},
	"forward":                {"dedupe", "event", "trace"},
	"forward/client":         {},
	"admin":                  {"audit", "dedupe", "event"},
	"audit":                  {"dedupe", "event"},
	"dedupe":                 {"event"},
	"dedupe/badgerdb":        {"dedupe", "event"},
	"dedupe/inbox":           {},
	"dedupe/ledgertest":      {"dedupe", "event"},
	"dedupe/postgres":        {"dedupe", "event"},
	"dedupe/postgres/pgtest": {}, // for tests alone
	"event":                  {},
	"trace":                  {},
	"verify":                 {},
	"torture":                {},
	"simulation":             {}, // tests alone: they may import anything
}

// alone are the packages whose tests, too, import nothing else of ours.
var alone = []string{"receiver/conform", "event", "trace", "verify", "torture", "forward/client", "dedupe/inbox"}

// homes says who may import what others made. Prefixes of module paths. Tests
// may import more: dedupe/inbox speaks database/sql alone, and its tests hold
// it against the databases it is for, so modernc.org/sqlite (no C compiler
// needed) is a requirement of the module that no program links for it.
var homes = map[string][]string{
	"cel.dev/cel-go":                      {"forward"},
	"github.com/labstack/echo/":           {"receiver", "admin"},
	"github.com/dgraph-io/badger/":        {"dedupe/badgerdb"},
	"github.com/dgraph-io/ristretto/":     {"dedupe/badgerdb"},
	"github.com/klauspost/compress/":      {"dedupe/badgerdb"},
	"golang.org/x/sync/":                  {"dedupe/badgerdb", "forward"},
	"google.golang.org/protobuf/":         {"dedupe/badgerdb", "trace"},
	"go.opentelemetry.io/proto/otlp/":     {"trace"},
	"golang.org/x/sys/":                   {"dedupe/badgerdb", "forward", "cli", "receiver"},
	"github.com/golang-jwt/jwt/":          {"verify"},
	"golang.org/x/text/":                  {"verify"},
	"github.com/stripe/stripe-go/":        {"verify"},
	"github.com/tidwall/":                 {"verify"},
	"github.com/pelletier/go-toml/":       {"gateway", "cli"},
	"github.com/coreos/go-systemd/":       {"gateway"},
	"github.com/spf13/":                   {"cli"},
	"github.com/jedib0t/go-pretty/":       {"cli"},
	"golang.org/x/term":                   {"cli"},
	"github.com/schollz/progressbar/":     {"cli"},
	"github.com/oklog/ulid/":              {"event"},
	"code.dny.dev/ssrf":                   {"forward"},
	"golang.org/x/mod/":                   {"audit"},
	"golang.org/x/net/":                   {"forward", "receiver", "gateway"},
	"pgregory.net/rapid":                  {"dedupe/ledgertest"},
	"github.com/jackc/pgx/":               {"dedupe/postgres"},
	"github.com/prometheus/client_golang": {"trace", "dedupe", "dedupe/badgerdb", "dedupe/postgres", "receiver", "forward", "audit", "admin", "gateway"},
}

// source is one Go file of the module.
type source struct {
	name, pkg string // pkg is the directory, "" for main
	test      bool
	file      *ast.File
}

// sources parses every Go file of the module, for every build tag.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && name != "." && (base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(name))
		if pkg == "." {
			pkg = ""
		}
		all = append(all, source{name: name, pkg: pkg, test: strings.HasSuffix(name, "_test.go"), file: f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("found %d Go files: this is not the module's root", len(all))
	}
	return all
}

// imports calls f with every import of a file.
func (s source) imports(f func(path string, blank bool)) {
	for _, im := range s.file.Imports {
		p, _ := strconv.Unquote(im.Path.Value)
		f(p, im.Name != nil && im.Name.Name == "_")
	}
}

// ours is the package within the module, false for one of others.
func ours(p string) (string, bool) {
	if p == module {
		return "", true
	}
	return strings.CutPrefix(p, module+"/")
}

// TestImports holds the packages to the arrows of DESIGN.md.
func TestImports(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range sources(t) {
		may, known := allowed[s.pkg]
		if !known {
			t.Errorf("%s: package %q is not in the plan", s.name, s.pkg)
		}
		seen[s.pkg] = true
		s.imports(func(p string, blank bool) {
			if own, is := ours(p); is {
				if own != s.pkg && !slices.Contains(may, own) && (!s.test || slices.Contains(alone, s.pkg)) {
					t.Errorf("%s imports %s: not an arrow of the plan", s.name, own)
				}
				return
			}
			if blank && p != "embed" {
				t.Errorf("%s imports %s for its side effects", s.name, p)
			}
			if strings.Contains(strings.SplitN(p, "/", 2)[0], ".") && !s.test {
				checkHome(t, s, p)
			}
		})
	}
	for pkg := range allowed {
		if !seen[pkg] {
			t.Errorf("package %q of the plan is not there", pkg)
		}
	}
}

func checkHome(t *testing.T, s source, p string) {
	t.Helper()
	for prefix, pkgs := range homes {
		if strings.HasPrefix(p, prefix) {
			if !slices.Contains(pkgs, s.pkg) {
				t.Errorf("%s imports %s, whose home is %v", s.name, p, pkgs)
			}
			return
		}
	}
	t.Errorf("%s imports %s, which has no home", s.name, p)
}

// TestForwardIsAlone: verification, deduplication and the forwarder's HTTP
// never see each other but through the ledger's contract.
func TestForwardIsAlone(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{{"forward", "verify"}, {"forward", "receiver"}, {"dedupe", "verify"}, {"dedupe", "forward"}, {"verify", "dedupe"}} {
		if reach(t, pair[0])[module+"/"+pair[1]] {
			t.Errorf("%s reaches %s", pair[0], pair[1])
		}
	}
}

// reach is every import path that the production code of pkg leads to.
func reach(t *testing.T, pkg string) map[string]bool {
	t.Helper()
	edges := map[string][]string{}
	for _, s := range sources(t) {
		if !s.test {
			s.imports(func(p string, _ bool) { edges[s.pkg] = append(edges[s.pkg], p) })
		}
	}
	seen, queue := map[string]bool{}, []string{pkg}
	for len(queue) > 0 {
		for _, p := range edges[queue[0]] {
			if seen[p] {
				continue
			}
			seen[p] = true
			if own, is := ours(p); is {
				queue = append(queue, own)
			}
		}
		queue = queue[1:]
	}
	return seen
}

// TestCarriers: the three libraries the product stands on are direct
// requirements, and the program that is built uses them.
func TestCarriers(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	used := slices.Collect(maps.Keys(reach(t, "")))
	for _, lib := range []string{"github.com/labstack/echo/v4", "github.com/dgraph-io/badger/v4", "github.com/stripe/stripe-go/v76"} {
		direct := regexp.MustCompile(`(?m)^\s*(require )?` + regexp.QuoteMeta(lib) + ` v\S+$`)
		if !direct.Match(mod) {
			t.Errorf("%s is not a direct requirement of go.mod", lib)
		}
		if !slices.ContainsFunc(used, func(p string) bool { return p == lib || strings.HasPrefix(p, lib+"/") }) {
			t.Errorf("main does not reach %s", lib)
		}
	}
}

// TestNoInit: nothing happens before main, and packages say what they promise.
func TestNoInit(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if fn, is := d.(*ast.FuncDecl); is && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s has an init function", s.name)
			}
		}
		if s.file.Doc != nil && !s.test {
			documented[s.pkg] = true
		}
	}
	for pkg := range allowed {
		if !documented[pkg] {
			t.Errorf("package %q has no package comment", pkg)
		}
	}
}

// TestMainIsShort: main wires nothing.
func TestMainIsShort(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n >= 60 {
		t.Errorf("main.go has %d lines, want fewer than 60", n)
	}
}

// TestReadmeTable: every file that the first table of the README names is
// there.
func TestReadmeTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	files := tableFiles(string(text))
	if len(files) < 5 {
		t.Errorf("the first table of the README names %d files, want one for each part: %v", len(files), files)
	}
	for _, f := range files {
		if _, err := os.Stat(filepath.FromSlash(f)); err != nil {
			t.Errorf("the README's first table names %s: %v", f, err)
		}
	}
}

var (
	tableRow  = regexp.MustCompile(`^\s*\|.*\|\s*$`)
	fileInRow = regexp.MustCompile("(?:`|\\]\\()((?:[a-z_]+/)*[A-Za-z_]+(?:\\.[a-z]+|/))[`)]")
)

// tableFiles is every file or directory, in code or as a link, of the first
// table of a Markdown text.
func tableFiles(text string) []string {
	var files []string
	in := false
	for line := range strings.Lines(text) {
		if row := tableRow.MatchString(line); !row && in {
			break
		} else if in = row; !in {
			continue
		}
		for _, m := range fileInRow.FindAllStringSubmatch(line, -1) {
			files = append(files, strings.TrimSuffix(m[1], "/"))
		}
	}
	return slices.Compact(files)
}

func TestTableFiles(t *testing.T) {
	t.Parallel()
	text := "# x `a.go`\n\n| a | b |\n| --- | --- |\n| `verify/stripe.go` | [once](dedupe/decide.go) |\n| `dedupe/badgerdb/` and `k=v` | `go run . demo` |\n\n| `later.go` | |\n"
	if got, want := tableFiles(text), []string{"verify/stripe.go", "dedupe/decide.go", "dedupe/badgerdb"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
