package admin

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestIndentJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, want string }{
		{"numbers stay", `{"a":1152921506151679042,"b":1.0e+5,"c":-0.10}`, "{\n  \"a\": 1152921506151679042,\n  \"b\": 1.0e+5,\n  \"c\": -0.10\n}"},
		{"escapes stay", `["\u00e9\"x","Gr\u00f6ße"]`, "[\n  \"\\u00e9\\\"x\",\n  \"Gr\\u00f6ße\"\n]"},
		{"empty", `{"a":{ },"b":[ ]}`, "{\n  \"a\": {},\n  \"b\": []\n}"},
		{"keys twice", `{"a":1,"a":2}`, "{\n  \"a\": 1,\n  \"a\": 2\n}"},
		{"cut", `{"a":[1,2,{"b":"un`, "{\n  \"a\": [\n    1,\n    2,\n    {\n      \"b\": \"un"},
		{"already laid out", "{\n\t\"a\" : 1\n}", "{\n  \"a\": 1\n}"},
		{"no JSON", "hello", "hello"},
		{"nothing", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got, _ := indentJSON(tt.in); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// FuzzIndentJSON: laying out changes white space between tokens and nothing
// else, and what is JSON stays the same JSON.
func FuzzIndentJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.50,{"b":"\"c\\"}],"d":null}`, `[]`, `{"a`, `[1 2]`, `{"k":"` + strings.Repeat("x", 99) + `"}`, "{\"a\":\xff}"} {
		f.Add(s)
	}
	squeeze := func(s string) string { return strings.NewReplacer(" ", "", "\n", "", "\t", "", "\r", "").Replace(s) }
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := indentJSON(s)
		if squeeze(got) != squeeze(s) {
			t.Errorf("%q became %q", s, got)
		}
		if json.Valid([]byte(s)) && ok && !json.Valid([]byte(got)) {
			t.Errorf("%q is JSON, %q is not", s, got)
		}
	})
}

// FuzzShown: nothing that is shown holds a character that would not show, and
// what is plain stays as it is.
func FuzzShown(f *testing.F) {
	for _, s := range []string{"plain", "a\u202eb", "\x1b[0m", "\xff", "e\u0301", "\U000e0041", "\u200b", "\uFFFD", "日本"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := shown(s)
		if !utf8.ValidString(got) {
			t.Errorf("%q is shown as %q, which is no UTF-8", s, got)
		}
		for _, r := range got {
			if hidden(r, false) {
				t.Errorf("%q is shown with %U", s, r)
			}
		}
		if shown(got) != got {
			t.Errorf("%q changes again", got)
		}
	})
}

func TestHexDump(t *testing.T) {
	t.Parallel()
	want := "00000000  48 65 6c 6c 6f 2c 20 77  6f 72 6c 64 21 00 ff 0a  Hello, world!...\n" +
		"00000010  78                                                x\n"
	if got := hexDump([]byte("Hello, world!\x00\xff\nx")); got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

func TestCutUTF8(t *testing.T) {
	t.Parallel()
	s := []byte(strings.Repeat("ö", 10))
	for n := 1; n <= 20; n++ {
		if got := cutUTF8(s, n); len(got) > n || n > 1 && !utf8.Valid(got) || len(got) < n-1 {
			t.Errorf("cut at %d = %d bytes, valid %v", n, len(got), utf8.Valid(got))
		}
	}
	if got := cutUTF8([]byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x80}, 5); len(got) != 5 {
		t.Errorf("bytes that are no text were cut to %d", len(got))
	}
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"a b": "'a b'", "it's": `'it'\''s'`, "$(x)`y`": "'$(x)`y`'", "a\nb": `'a\x0ab'`} {
		if got := shellQuote(in); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestWordsOfNumbers(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 2, 14, 7, 0, time.UTC)
	for got, want := range map[string]string{
		span(184 * time.Millisecond): "184 ms", span(5 * time.Second): "5.00 s", span(21*time.Minute + 27*time.Second): "21 min 27 s",
		span(12*24*time.Hour + 4*time.Hour): "12 d 4 h", span(3900 * time.Microsecond): "3.9 ms", span(90 * time.Minute): "1 h 30 min",
		bytesOf(2914): "2,914 bytes", bytesOf(1): "1 byte", bytesOf(19756849562): "18.4 GiB", grouped(-1234567): "-1,234,567",
		percent(992, 1000): "99.2 %", percent(999999, 1000000): "99.9 %", percent(0, 0): "", rate(41.23): "41.2", rate(0.04): "0.04", rate(0): "0.0",
		count(1, "delivery"): "1 delivery", count(1204, "delivery"): "1,204 deliveries",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for at, want := range map[time.Time]string{
		now.Add(-time.Hour): ">01:14:07<", now.Add(-11 * time.Hour): ">Sat 15:14<", now.Add(30 * time.Hour): ">Mon 08:14<",
		now.Add(-30 * 24 * time.Hour): ">30 Oct 2026, 02:14:07<",
	} {
		if got := string(when(at, now)); !strings.Contains(got, want) {
			t.Errorf("when(%s) = %s, want %s", at, got, want)
		}
	}
}
