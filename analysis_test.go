package main

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// secretWord matches names of what must be compared in constant time.
var secretWord = regexp.MustCompile(`^(mac|hmac|sig|signature|token|secret|password|passwd|pass|credential|[A-Za-z0-9]*(Mac|MAC|Sig|Signature|Token|Secret|Password|Credential))(s|Hash)?$|^(Token|Secret)Hash$`)

// comparedPlainly are comparisons that were read and found harmless: no sender
// can time them, or what has the name of a secret is none.
var comparedPlainly = map[string]bool{
	`admin: c.TokenHash == [sha256.Size]byte{}`:             true, // is one configured?
	`admin: c.TokenHash == HashToken("")`:                   true, // the same, once at start
	`dedupe/badgerdb: [32]byte(f.sum.Sum(nil)) != want.sum`: true, // a checksum without a key
	`receiver: slices.Contains(c.pass, name)`:               true, // names of headers that pass
	`verify: before.Secret != k.ID`:                         true, // labels of secrets
	`verify: r.Secret == k.ID`:                              true, // labels of secrets
	`verify: slices.Contains(optionsHMAC, name)`:            true, // names of options
	`verify: text == s.Value.Reveal()`:                      true, // two forms of the operator's own secret
	`verify: a.Secret.Reveal() != *v.WantStored`:            true, // test vectors
}

// secretly reports whether an operand is by its name or its origin a secret.
func secretly(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.Ident:
		return secretWord.MatchString(x.Name)
	case *ast.SelectorExpr:
		return secretWord.MatchString(x.Sel.Name)
	case *ast.ParenExpr:
		return secretly(x.X)
	case *ast.StarExpr:
		return secretly(x.X)
	case *ast.SliceExpr:
		return secretly(x.X)
	case *ast.CallExpr:
		if sel, ok := x.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Reveal" || sel.Sel.Name == "Sum") {
			return true
		}
		// A conversion is what it converts; string(mac), []byte(token).
		_, slice := x.Fun.(*ast.ArrayType)
		id, named := x.Fun.(*ast.Ident)
		return len(x.Args) == 1 && (slice || named && id.Name == "string") && secretly(x.Args[0])
	}
	return false
}

// fixed reports whether an operand is known to everybody: a literal, nil.
func fixed(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		return x.Name == "nil" || x.Name == "true" || x.Name == "false"
	}
	return false
}

// plainEquals are functions that stop at the first difference.
var plainEquals = []string{"bytes.Equal", "bytes.EqualFold", "bytes.Compare", "bytes.HasPrefix", "strings.EqualFold", "strings.Compare",
	"strings.HasPrefix", "slices.Equal", "slices.Contains", "reflect.DeepEqual", "maps.Equal"}

// plainComparisons lists the comparisons of secrets that take longer the more
// of them is right. text says whether an operand is text or bytes that are not
// known when the program is built.
func plainComparisons(f *ast.File, text func(ast.Expr) bool) (found []ast.Expr) {
	secret := func(e ast.Expr) bool { return secretly(e) && text(e) }
	known := func(e ast.Expr) bool { return fixed(e) || !text(e) }
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.BinaryExpr:
			if (x.Op == token.EQL || x.Op == token.NEQ) && !known(x.X) && !known(x.Y) && (secret(x.X) || secret(x.Y)) {
				found = append(found, x)
			}
		case *ast.CallExpr:
			if slices.Contains(plainEquals, types.ExprString(x.Fun)) && !slices.ContainsFunc(x.Args, fixed) && slices.ContainsFunc(x.Args, secretly) {
				found = append(found, x)
			}
		case *ast.SwitchStmt:
			if x.Tag != nil && secret(x.Tag) && slices.ContainsFunc(x.Body.List, func(c ast.Stmt) bool {
				return slices.ContainsFunc(c.(*ast.CaseClause).List, func(e ast.Expr) bool { return !known(e) })
			}) {
				found = append(found, x.Tag)
			}
		}
		return true
	})
	return found
}

// checkedPackage is a package of ours with its types.
type checkedPackage struct {
	name  string
	files []*ast.File
	info  *types.Info
}

// checkedPackages checks the types of all packages of the program, against
// what the compiler exported of those they import.
func checkedPackages(t *testing.T) (all []checkedPackage) {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export,Module", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports, dirs := map[string]string{}, map[string][]string{}
	var order []string
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p struct {
			ImportPath, Dir, Export string
			GoFiles                 []string
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if own, is := ours(p.ImportPath); is && own != "torture" && own != "dedupe/ledgertest" {
			order = append(order, own)
			for _, f := range p.GoFiles {
				dirs[own] = append(dirs[own], filepath.Join(p.Dir, f))
			}
		}
	}
	set := token.NewFileSet()
	imports := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, name := range order {
		p := checkedPackage{name: name, info: &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}}
		for _, file := range dirs[name] {
			f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			p.files = append(p.files, f)
		}
		if _, err := (&types.Config{Importer: imports}).Check(name, set, p.files, p.info); err != nil {
			t.Fatalf("types of %s: %v", name, err)
		}
		all = append(all, p)
	}
	return all
}

// text reports whether an operand is text or bytes that are not a constant.
func (p checkedPackage) text(e ast.Expr) bool {
	tv := p.info.Types[e]
	if tv.Type == nil || tv.Value != nil {
		return false
	}
	of := func(t types.Type, kind types.BasicKind) bool {
		b, ok := t.Underlying().(*types.Basic)
		return ok && b.Kind() == kind
	}
	switch t := tv.Type.Underlying().(type) {
	case *types.Basic:
		return t.Kind() == types.String
	case *types.Slice:
		return of(t.Elem(), types.Byte) || of(t.Elem(), types.String)
	case *types.Array:
		return of(t.Elem(), types.Byte)
	}
	return false
}

// TestConstantTime: nothing that is a MAC, a signature, a token or a secret is
// compared but in constant time.
func TestConstantTime(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, p := range checkedPackages(t) {
		for _, f := range p.files {
			for _, e := range plainComparisons(f, p.text) {
				what := p.name + ": " + types.ExprString(e)
				if used[what] = true; !comparedPlainly[what] {
					t.Errorf("a secret is compared in a time that tells of it, or something has a name for one: %q", what)
				}
			}
		}
	}
	for what := range comparedPlainly {
		if !used[what] {
			t.Errorf("%q is on the list of harmless comparisons and nowhere in the code", what)
		}
	}
}

// outliving lists the places where a request's echo.Context goes to something
// that may outlive the handler: Echo gives it to the next request then.
func outliving(f *ast.File) (found []ast.Node) {
	look := func(params *ast.FieldList, body *ast.BlockStmt) {
		if params == nil || body == nil {
			return
		}
		for _, p := range params.List {
			if types.ExprString(p.Type) != "echo.Context" {
				continue
			}
			for _, name := range p.Names {
				found = append(found, escapes(name.Name, body)...)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.FuncDecl:
			look(x.Type.Params, x.Body)
		case *ast.FuncLit:
			look(x.Type.Params, x.Body)
		}
		return true
	})
	return found
}

// escapes lists where the name goes to a goroutine, a channel, a field or a
// timer.
func escapes(name string, body *ast.BlockStmt) (found []ast.Node) {
	names := func(n ast.Node) (is bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.Name == name {
				is = true
			}
			return !is
		})
		return is
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.GoStmt:
			if names(x.Call) {
				found = append(found, x)
			}
		case *ast.SendStmt:
			if names(x.Value) {
				found = append(found, x)
			}
		case *ast.AssignStmt:
			for i, to := range x.Lhs {
				_, field := to.(*ast.SelectorExpr)
				_, item := to.(*ast.IndexExpr)
				if id, ok := x.Rhs[min(i, len(x.Rhs)-1)].(*ast.Ident); ok && (field || item) && id.Name == name {
					found = append(found, x)
				}
			}
		case *ast.CallExpr:
			if fun := types.ExprString(x.Fun); (fun == "time.AfterFunc" || fun == "context.AfterFunc" || strings.HasSuffix(fun, ".Go")) && slices.ContainsFunc(x.Args, func(e ast.Expr) bool { return names(e) }) {
				found = append(found, x)
			}
		}
		return true
	})
	return found
}

// TestEchoContext: no echo.Context goes where it may outlive its handler.
func TestEchoContext(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, s := range sources(t) {
		s.imports(func(p string, _ bool) {
			if strings.HasPrefix(p, "github.com/labstack/echo/") {
				seen++
			}
		})
		for range outliving(s.file) {
			t.Errorf("%s: an echo.Context goes to a goroutine, a channel, a field or a timer", s.name)
		}
	}
	if seen < 2 {
		t.Errorf("%d files import Echo: this test looks at nothing", seen)
	}
}

// TestAnalysis: both analyses see what they are for, and nothing else.
func TestAnalysis(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{
		`mac == sent`:                               1,
		`sent != string(h.mac)`:                     1,
		`bytes.Equal(h.Sum(nil), got)`:              1,
		`strings.EqualFold(wantSignature, got)`:     1,
		`s.Reveal() == got`:                         1,
		`token == "bearer"`:                         0,
		`token != nil`:                              0,
		`len(token) == n`:                           0,
		`hmac.Equal(mac, got)`:                      0,
		`subtle.ConstantTimeCompare(mac, got) == 1`: 0,
		`macro == other`:                            0,
		`slices.Contains(tokens, sent)`:             1,
		`sha256.Sum256(token) == want`:              0, // a hash of it tells nothing
	} {
		if got := len(plainComparisons(parsed(t, "_ = "+code), func(ast.Expr) bool { return true })); got != want {
			t.Errorf("%s: %d found, want %d", code, got, want)
		}
	}
	for code, want := range map[string]int{
		`go func() { c.Request() }()`:            1,
		`go serve(c)`:                            1,
		`ch <- c`:                                1,
		`x.ctx = c`:                              1,
		`time.AfterFunc(d, func() { c.Path() })`: 1,
		`wg.Go(func() { c.Path() })`:             1,
		`req := c.Request(); go serve(req)`:      0,
		`return next(c)`:                         0,
		`local := c; _ = local`:                  0,
	} {
		if got := len(outliving(parsed(t, code))); got != want {
			t.Errorf("%s: %d found, want %d", code, got, want)
		}
	}
}

func parsed(t *testing.T, body string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f(c echo.Context) error {\n"+body+"\n}\n", 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
