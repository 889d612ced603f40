package forward

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"github.com/onceward/onceward/event"
)

// The bounds of a condition.
const (
	MaxWhere      = 4 << 10 // bytes of its text
	MaxWhereBody  = 1 << 20 // bytes of a body that conditions look into
	whereCost     = 100_000 // units of one evaluation; a unit is about one step
	whereNesting  = 64
	whereRegex    = 1000    // instructions of one compiled pattern
	whereExact    = 1 << 53 // from here on a double is not every whole number
	whereParallel = 2 * MaxWhereBody
)

// The classes of what ends an evaluation without a result.
var (
	ErrWhereCost = errors.New("condition costs too much")
	ErrWhereSize = fmt.Errorf("body is larger than the %d bytes that conditions look into", MaxWhereBody)
	ErrWhereEval = errors.New("condition has no result")
)

// WhereFault is one thing wrong with the text of a condition.
type WhereFault struct {
	Line, Column int // in characters, from 1
	Problem      string
}

// WhereError is everything wrong with the text of a condition, in its order.
type WhereError []WhereFault

// Error is one line per fault.
func (e WhereError) Error() string {
	lines := make([]string, len(e))
	for i, f := range e {
		lines[i] = fmt.Sprintf("%d:%d: %s", f.Line, f.Column, f.Problem)
	}
	return strings.Join(lines, "\n")
}

// Where is a compiled condition over an event, in CEL. It is read-only and safe
// for concurrent use.
//
// It sees source, type, id and method as strings, headers as a map from
// lower-case names to values, query as a map from names to lists of values, and
// body: the JSON document, or null when the body is none.
type Where struct {
	program cel.Program
	body    bool
}

// Body reports whether the condition looks into the body.
func (w *Where) Body() bool { return w.body }

// whereEnv is what conditions are checked against.
var whereEnv = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("source", cel.StringType), cel.Variable("type", cel.StringType),
		cel.Variable("id", cel.StringType), cel.Variable("method", cel.StringType),
		cel.Variable("headers", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("query", cel.MapType(cel.StringType, cel.ListType(cel.StringType))),
		cel.Variable("body", cel.DynType),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(MaxWhere), cel.ParserRecursionLimit(whereNesting),
		cel.RegexProgramSizeLimit(whereRegex),
	)
})

// CompileWhere reads and checks a condition. The error is a WhereError.
func CompileWhere(text string) (*Where, error) {
	env, err := whereEnv()
	if err != nil {
		return nil, fmt.Errorf("make environment of conditions: %w", err)
	}
	if len(text) > MaxWhere {
		return nil, WhereError{{1, 1, fmt.Sprintf("is longer than %d bytes", MaxWhere)}}
	}
	tree, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, whereFaults(issues)
	}
	if t := tree.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, WhereError{{1, 1, fmt.Sprintf("is a %s; a condition is true or false", t)}}
	}
	if faults := inexact(tree.NativeRep()); len(faults) > 0 {
		return nil, faults
	}
	program, err := env.Program(tree, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(whereCost))
	if err != nil { // a literal pattern that is none, for example
		return nil, WhereError{{1, 1, err.Error()}}
	}
	return &Where{program: program, body: reads(tree.NativeRep(), "body")}, nil
}

func whereFaults(issues *cel.Issues) WhereError {
	var out WhereError
	for _, e := range issues.Errors() {
		out = append(out, WhereFault{max(e.Location.Line(), 1), max(e.Location.Column(), 0) + 1, e.Message})
	}
	return out
}

// inexact reports literals that a comparison would round: a double from 2^53 on
// equals several whole numbers.
func inexact(tree *ast.AST) (faults WhereError) {
	visit(tree, func(e ast.Expr) {
		if e.Kind() != ast.LiteralKind {
			return
		}
		if d, is := e.AsLiteral().(types.Double); is && math.Abs(float64(d)) >= whereExact {
			at := tree.SourceInfo().GetStartLocation(e.ID())
			faults = append(faults, WhereFault{at.Line(), at.Column() + 1, "a number with a point or an exponent is rounded from 2^53 on; write it as a whole number"})
		}
	})
	return faults
}

func reads(tree *ast.AST, name string) (found bool) {
	visit(tree, func(e ast.Expr) { found = found || e.Kind() == ast.IdentKind && e.AsIdent() == name })
	return found
}

func visit(tree *ast.AST, f func(ast.Expr)) {
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(f))
}

// Match evaluates the condition. An error, which quotes nothing of the event,
// is one of the classes: it has no result, and that is no match.
func (w *Where) Match(s *Subject) (bool, error) {
	if w.body {
		if err := s.open(); err != nil {
			return false, err
		}
	}
	out, _, err := w.program.Eval(s)
	if err != nil {
		return false, whereClass(err)
	}
	b, is := out.(types.Bool)
	if !is {
		return false, fmt.Errorf("%w: it is neither true nor false", ErrWhereEval)
	}
	return bool(b), nil
}

// whereClasses are beginnings of what the evaluator says that quote nothing.
var whereClasses = []string{"no such key", "no such overload", "no such attribute", "index out of bounds", "division by zero",
	"modulus by zero", "integer overflow", "unsigned integer overflow", "invalid_argument"}

func whereClass(err error) error {
	text := err.Error()
	if strings.Contains(text, "cost limit") {
		return ErrWhereCost
	}
	for _, class := range whereClasses {
		if strings.HasPrefix(text, class) {
			return fmt.Errorf("%w: %s", ErrWhereEval, class)
		}
	}
	return ErrWhereEval
}

// whereBudget bounds the bytes of bodies that are open at once: a document may
// take some thirty times its text. Waiting is short: there is only computing
// between open and Close.
var whereBudget = newBudget(whereParallel)

// budget is a number of bytes shared by who takes of them.
type budget struct {
	mu   sync.Mutex
	cond sync.Cond
	left int
}

func newBudget(n int) *budget {
	b := &budget{left: n}
	b.cond.L = &b.mu
	return b
}

// take waits until n bytes, which are no more than all, are there.
func (b *budget) take(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.left < n {
		b.cond.Wait()
	}
	b.left -= n
}

func (b *budget) give(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += n
	b.cond.Broadcast()
}

// Conditions are those of a source's routes, nil where a route has none.
type Conditions []*Where

// On prepares an event, of which nothing may change until done is called, for
// the conditions: match is Match of the n-th. The body is parsed once, and only
// when a condition looks into it.
func (c Conditions) On(ev *event.Event, body []byte) (match func(n int) (bool, error), done func()) {
	s := NewSubject(ev, body)
	return func(n int) (bool, error) { return c[n].Match(s) }, s.Close
}
