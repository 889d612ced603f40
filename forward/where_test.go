package forward

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/onceward/onceward/event"
)

// judge compiles a condition and asks it about one event.
func judge(tb testing.TB, text string, ev *event.Event, body string) (bool, error) {
	tb.Helper()
	w, err := CompileWhere(text)
	if err != nil {
		tb.Fatalf("compile %s: %v", text, err)
	}
	s := NewSubject(ev, []byte(body))
	defer s.Close()
	return w.Match(s)
}

func TestWhere(t *testing.T) {
	t.Parallel()
	ev := &event.Event{
		Source: "stripe", Type: "invoice.paid", ID: "evt_1", Query: "a=1&a=2&b=",
		Header: []event.Field{{Name: "X-Kind", Value: "one"}, {Name: "x-kind", Value: "two"}, {Name: "Content-Type", Value: "application/json"}},
	}
	body := `{"data":{"object":{"amount":1500,"currency":"eur","lines":[{"sku":"x"},{"sku":"y"}],"none":null,"rate":0.25}},"livemode":true}`
	for text, want := range map[string]bool{
		`source == "stripe" && type.startsWith("invoice.") && id == "evt_1" && method == "POST"`: true,
		`type in ["a", "invoice.paid"]`:                                 true,
		`type.matches("^invoice\\.(paid|void)$")`:                       true,
		`headers["x-kind"] == "one, two"`:                               true,
		`"x-other" in headers`:                                          false,
		`"2" in query.a && query.b == [""] && !("c" in query)`:          true,
		`body.data.object.amount > 1000`:                                true,
		`body.data.object.amount == 1500.0`:                             true,
		`body.data.object.rate == 0.25`:                                 true,
		`body.data.object.lines.exists(l, l.sku == "y")`:                true,
		`body.data.object.lines.all(l, l.sku == "y")`:                   false,
		`body.data.object.none == null`:                                 true,
		`has(body.data.object.nothing)`:                                 false,
		`has(body.data.object.amount) && body.livemode`:                 true,
		`body.livemode`:                                                 true,
		`body.data.object.currency == 5`:                                false,
		`size(body.data.object.lines) == 2`:                             true,
		`body.data.object.lines[1].sku == "y"`:                          true,
		`body.data["object"]["currency"].upperAscii() == "EUR" || true`: true,
	} {
		if strings.Contains(text, "upperAscii") {
			if _, err := CompileWhere(text); err == nil {
				t.Errorf("%s: compiled, want only the standard functions", text)
			}
			continue
		}
		if got, err := judge(t, text, ev, body); got != want || err != nil {
			t.Errorf("%s = %v, %v; want %v", text, got, err, want)
		}
	}
}

// A condition that can't be answered is an error of a class that quotes
// nothing of the event, and no match.
func TestWhereErrors(t *testing.T) {
	t.Parallel()
	ev := &event.Event{Type: "a"}
	big := `{"l":[` + strings.Repeat("1,", 2000) + `1]}`
	for _, tt := range []struct {
		name, text, body string
		want             error
	}{
		{"missing key", `body.canary4711.x == 1`, `{}`, ErrWhereEval},
		{"no such header", `headers.canary == "a"`, `{}`, ErrWhereEval},
		{"field of a text", `body.a.b == 1`, `{"a":"canary"}`, ErrWhereEval},
		{"text against number", `body.a > 1`, `{"a":"canary"}`, ErrWhereEval},
		{"no number", `int(body.a) > 1`, `{"a":"canary4711"}`, ErrWhereEval},
		{"neither true nor false", `body.a`, `{"a":"true"}`, ErrWhereEval},
		{"division", `1 / body.a == 1`, `{"a":0}`, ErrWhereEval},
		{"index", `body.a[3] == 1`, `{"a":[1]}`, ErrWhereEval},
		{"pattern", `type.matches(body.a)`, `{"a":"canary("}`, ErrWhereEval},
		{"field of no document", `body.a == 1`, `a=1`, ErrWhereEval},
		{"cost", `body.l.all(a, body.l.all(b, a + b > 0))`, big, ErrWhereCost},
		{"cost of text", `body.a.matches("(x+)+y") || body.a.contains("q") || [1,2,3,4,5,6,7,8,9].all(i, body.a.contains(string(i)))`,
			`{"a":"` + strings.Repeat("x", MaxWhereBody-100) + `"}`, ErrWhereCost},
		{"size", `body.a == 1`, `{"a":1}` + strings.Repeat(" ", MaxWhereBody), ErrWhereSize},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := judge(t, tt.text, ev, tt.body)
			if got || !errors.Is(err, tt.want) {
				t.Errorf("%v, %v; want false and %v", got, err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("error %q quotes the event or the condition", err)
			}
		})
	}
	// What looks into no body costs none.
	if got, err := judge(t, `type == "a"`, ev, strings.Repeat(" ", 2*MaxWhereBody)); !got || err != nil {
		t.Errorf("without body: %v, %v; want true", got, err)
	}
}

// A body that is no JSON is null, which a condition can ask for.
func TestWhereNoDocument(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "a=1&b=2", `{"a":1} {}`, `{"a":1`, "\xef\xbb\xbf{}", "null", strings.Repeat("[", 20_000)} {
		if got, err := judge(t, `body == null`, &event.Event{}, body); !got || err != nil {
			t.Errorf("%.20q: %v, %v; want null", body, got, err)
		}
	}
	if got, err := judge(t, `body == "x"`, &event.Event{}, `"x"`); !got || err != nil {
		t.Errorf("a document need not be an object: %v, %v", got, err)
	}
}

func TestCompileWhereFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text         string
		line, column int
		want         string
	}{
		{`body.a ==`, 1, 10, "Syntax error"},
		{"type == \"a\" &&\n  tpye == \"b\"", 2, 3, "undeclared reference to 'tpye'"},
		{`type > 5`, 1, 6, "no matching overload"},
		{`type`, 1, 1, "is a string"},
		{`body.n == 9007199254740992.0`, 1, 11, "whole number"},
		{`"ä" == type && body.n in [1, 1e16]`, 1, 30, "whole number"},
		{`type.matches("(")`, 1, 1, "missing closing"},
		{strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200), 1, 1, "recursion"},
		{`type == "` + strings.Repeat("x", MaxWhere) + `"`, 1, 1, "longer than"},
	} {
		_, err := CompileWhere(tt.text)
		var faults WhereError
		if !errors.As(err, &faults) {
			t.Errorf("%.60q: %v, want faults", tt.text, err)
			continue
		}
		f := faults[0]
		if !strings.Contains(f.Problem, tt.want) || tt.want != "recursion" && tt.want != "missing closing" && (f.Line != tt.line || f.Column != tt.column) {
			t.Errorf("%.60q: %d:%d %s; want %d:%d %s", tt.text, f.Line, f.Column, f.Problem, tt.line, tt.column, tt.want)
		}
	}
}

// numbers are pairs that differ by less than a double can tell.
func TestWhereNumbers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		number, text string
		want         bool
	}{
		{"9007199254740993", "body.n == 9007199254740993", true},
		{"9007199254740993", "body.n == 9007199254740992", false},
		{"9007199254740992", "body.n == 9007199254740993", false},
		{"9007199254740993", "body.n > 9007199254740992", true},
		{"9007199254740993.0", "body.n == 9007199254740993", true},
		{"9007199254740993.0", "body.n == 9007199254740992", false},
		{"9007199254740992.5", "body.n == 9007199254740992", false},
		{"9007199254740993e0", "body.n == 9007199254740993", true},
		{"900719925474099.3e1", "body.n == 9007199254740993", true},
		{"-9007199254740993", "body.n == -9007199254740993", true},
		{"9223372036854775807", "body.n == 9223372036854775807", true},
		{"9223372036854775806", "body.n == 9223372036854775807", false},
		{"18446744073709551615", "body.n == 18446744073709551615u", true},
		{"18446744073709551614", "body.n == 18446744073709551615u", false},
		{"18446744073709551616", `body.n == "18446744073709551616"`, true},
		{"18446744073709551617", `body.n == "18446744073709551616"`, false},
		{"18446744073709551616", "body.n == 18446744073709551615u", false},
		{"1e400", "body.n == 1", false},
		{"1e-999999999", "body.n == 0", false},
		{"1e2", "body.n == 100", true},
		{"0.1", "body.n == 0.1", true},
		{"0.1", "body.n < 1", true},
		{"-0.0", "body.n == 0", true},
		{"0e700", "body.n == 0", true},
		{"-0.00E-999999999", "body.n == 0", true},
		{"1152921504606846977", "body.n in [1152921504606846976]", false},
		{"1152921504606846977", "body.n in [1152921504606846977]", true},
		{"1152921504606846977", "1152921504606846977 == body.n && body.n != 1152921504606846976", true},
	} {
		got, err := judge(t, tt.text, &event.Event{}, `{"n":`+tt.number+`}`)
		if got != tt.want || err != nil {
			t.Errorf("n = %s: %s is %v, %v; want %v", tt.number, tt.text, got, err, tt.want)
		}
	}
	if got, err := judge(t, "body.n > 1", &event.Event{}, `{"n":18446744073709551616}`); got || !errors.Is(err, ErrWhereEval) {
		t.Errorf("size of a number beyond 64 bits: %v, %v; want no result", got, err)
	}
}

// FuzzWhereNumber holds equality with a whole number against arithmetic that
// doesn't round.
func FuzzWhereNumber(f *testing.F) {
	for _, s := range []string{"9007199254740993", "9007199254740993.0", "1e17", "-1.5e3", "0.30000000000000004", "123456789012345678901234567890", "4e-5"} {
		f.Add(s, int64(9007199254740993))
	}
	w, err := CompileWhere(`body == int(id)`)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string, n int64) {
		if !json.Valid([]byte(text)) || strings.Trim(text, "0123456789.eE+-") != "" || len(text) > 30 {
			return
		}
		if i := strings.IndexAny(text, "eE"); i >= 0 && len(text)-i > 5 {
			return
		}
		r, ok := new(big.Rat).SetString(text)
		if !ok {
			return
		}
		for _, k := range []int64{n, n + 1, r.Num().Int64()} {
			s := NewSubject(&event.Event{ID: fmt.Sprint(k)}, []byte(text))
			got, err := w.Match(s)
			s.Close()
			if want := r.Cmp(new(big.Rat).SetInt64(k)) == 0; got != want || err != nil {
				t.Fatalf("%s == %d: %v, %v; want %v", text, k, got, err, want)
			}
		}
	})
}

// FuzzWhere: no condition and no body make it fail other than by an error of a
// known class, and all that is held is given back.
func FuzzWhere(f *testing.F) {
	for _, s := range [][2]string{
		{`body.a == 1`, `{"a":1}`}, {`body.all(x, x > 0)`, `[1,2,"3"]`}, {`type.matches(body.a)`, `{"a":"(a+)+$"}`},
		{`body.map(x, body.map(y, x + y)).size() > 1`, `[1,2,3]`}, {`headers[body.a] == "b"`, `{"a":"b"}`},
		{`timestamp(body.t) < timestamp("2026-01-01T00:00:00Z")`, `{"t":"x"}`}, {`{body.a: 1}[body.b] == 1`, `{"a":1,"b":1.0}`},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, text, body string) {
		w, err := CompileWhere(text)
		var faults WhereError
		if err != nil && !errors.As(err, &faults) {
			t.Fatalf("%q: %v", text, err)
		}
		if err != nil {
			if len(faults) == 0 || faults[0].Line < 1 || faults[0].Column < 1 {
				t.Fatalf("%q: faults without a place: %v", text, faults)
			}
			return
		}
		s := NewSubject(&event.Event{Source: "s", Type: "t", Query: "a=b"}, []byte(body))
		ok, err := w.Match(s)
		s.Close()
		if err != nil && (ok || !errors.Is(err, ErrWhereCost) && !errors.Is(err, ErrWhereSize) && !errors.Is(err, ErrWhereEval)) {
			t.Fatalf("%q over %q: %v, %v", text, body, ok, err)
		}
		if s.held != 0 {
			t.Fatalf("%d bytes are still held", s.held)
		}
	})
}

// Many at once hold no more than the budget, and none waits for ever.
func TestWhereBudget(t *testing.T) {
	t.Parallel()
	b := newBudget(10)
	var wg sync.WaitGroup
	var mu sync.Mutex
	held, most := 0, 0
	for i := range 100 {
		wg.Go(func() {
			n := i%10 + 1
			b.take(n)
			mu.Lock()
			held += n
			most = max(most, held)
			mu.Unlock()
			runtime.Gosched()
			mu.Lock()
			held -= n
			mu.Unlock()
			b.give(n)
		})
	}
	wg.Wait()
	if most > 10 || b.left != 10 {
		t.Errorf("%d held at once and %d left, want at most 10 and 10", most, b.left)
	}
}

func BenchmarkWhere(b *testing.B) {
	body := []byte(`{"id":"evt_1","type":"invoice.paid","data":{"object":{"amount":1500,"lines":[{"sku":"x"},{"sku":"y"}]}},"pad":"` + strings.Repeat("x", 900) + `"}`)
	for name, text := range map[string]string{"type": `type == "invoice.paid"`, "body": `body.data.object.amount > 1000`} {
		w, err := CompileWhere(text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s := NewSubject(&event.Event{Type: "invoice.paid"}, body)
				if ok, err := w.Match(s); !ok || err != nil {
					b.Fatal(ok, err)
				}
				s.Close()
			}
		})
	}
}
