package verify

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestParseTimestamp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		unit Unit
		want int64 // unix milliseconds; -1: not a timestamp
	}{
		{"0", Seconds, 0}, {"1767225600", Seconds, 1767225600000}, {"1767225600123", Milliseconds, 1767225600123},
		{"00001", Seconds, 1000}, {strings.Repeat("9", 20), Seconds, lastSecond * 1000},
		{strings.Repeat("9", 19), Milliseconds, lastSecond * 1000}, {"18446744073709551615", Seconds, lastSecond * 1000},
		{"18446744073709551616", Seconds, lastSecond * 1000},
		{"", Seconds, -1}, {"-1", Seconds, -1}, {"1e3", Seconds, -1}, {"1 ", Seconds, -1}, {"\n1", Seconds, -1},
		{strings.Repeat("1", 21), Seconds, -1}, {strings.Repeat("0", 400), Seconds, -1}, {"٣", Seconds, -1},
	} {
		got, ok := parseTimestamp(tt.in, tt.unit)
		if ok != (tt.want >= 0) || ok && got.UnixMilli() != tt.want {
			t.Errorf("parseTimestamp(%q, %s) = %v, %t, want %d", tt.in, tt.unit, got.UnixMilli(), ok, tt.want)
		}
	}
}

func TestParseTemplate(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"{body}", "{timestamp}.{body}", "v0:{timestamp}:{body}", "{method}{url}{body}{timestamp}", "{id}.{body}",
		"{header:X-A}{query:a b}{json:a.b.0}{form:x}", "literal", "{url_decoded}{form}{secret}",
	} {
		if _, err := parseTemplate(good); err != nil {
			t.Errorf("parseTemplate(%q): %v", good, err)
		}
	}
	for _, bad := range []string{
		"{", "}", "{}", "{bdoy}", "{body", "body}", "{{body}}", "{Body}", "{header:}", "{header:X_A}", "{header:X A}",
		"{json:}", "{json:a..b}", "{json:a.#.b}", "{json:a|b}", "{env:HOME}", "{ body }",
	} {
		if _, err := parseTemplate(bad); err == nil {
			t.Errorf("parseTemplate(%q) took it", bad)
		}
	}
}

func TestSplitComposite(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"json:a": "json:a", "json:a+json:b": "json:a|json:b", "query:a+b": "query:a+b",
		"form:a+b+header:X": "form:a+b|header:X", "+json:a": "|json:a",
	} {
		if got := strings.Join(splitComposite(in), "|"); got != want {
			t.Errorf("splitComposite(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestJoinID(t *testing.T) {
	t.Parallel()
	if a, b := JoinID("a:b", "c"), JoinID("a", "b:c"); a == b {
		t.Errorf("different parts give the same ID %q", a)
	}
	if a, b := JoinID("a%3Ab", "c"), JoinID("a:b", "c"); a == b {
		t.Errorf("escaped and plain parts give the same ID %q", a)
	}
	if got := JoinID("a:b"); got != "a:b" {
		t.Errorf("one part became %q", got)
	}
}

func TestLocators(t *testing.T) {
	t.Parallel()
	const body = `{"s":" x ","n":12345678901234567890123,"f":1.0,"e":1e3,"t":true,"z":null,"empty":"","o":{"a":1},"l":[1,"two"],` +
		`"dup":"first","dup":"last","u":"\u00e9\n","nested":{"deep":{"id":"d"}}}`
	req := &Request{Method: "POST", Body: []byte(body), RawQuery: "a=1&b=2&b=3&c=&%zz=1", Header: http.Header{
		"X-One": {"v"}, "X-Two": {"v", "w"}, "X-Empty": {""}}}
	form := &Request{Method: "POST", Body: []byte("a=1&b=2&b=3&p=%7B%22id%22%3A7%7D&bad=%7B"),
		Header: http.Header{"Content-Type": {"Application/X-WWW-Form-Urlencoded; charset=utf-8"}}}
	for _, tt := range []struct {
		req  *Request
		loc  string
		want string
		p    presence
	}{
		{req, "json:s", " x ", once}, {req, "json:n", "12345678901234567890123", once}, {req, "json:f", "1.0", once},
		{req, "json:e", "1e3", once}, {req, "json:t", "true", once}, {req, "json:z", "", absent}, {req, "json:empty", "", once},
		{req, "json:o", "", absent}, {req, "json:l", "", absent}, {req, "json:l.1", "two", once}, {req, "json:o.a", "1", once},
		{req, "json:dup", "first", once}, {req, "json:u", "é\n", once}, {req, "json:nested.deep.id", "d", once}, {req, "json:none", "", absent},
		{req, "header:x-one", "v", once}, {req, "header:X-Two", "", many}, {req, "header:X-Empty", "", once}, {req, "header:X-None", "", absent},
		{req, "query:a", "1", once}, {req, "query:b", "", many}, {req, "query:c", "", once}, {req, "form:a", "", absent},
		{form, "form:a", "1", once}, {form, "form:b", "", many}, {form, "form:p|json:id", "7", once},
		{form, "form:bad|json:id", "", absent}, {form, "form:none|json:id", "", absent}, {form, "json:a", "", absent},
	} {
		l, err := parseLocator(tt.loc)
		if err != nil {
			t.Fatal(err)
		}
		x := &exchange{req: tt.req}
		if got, p := l.find(x, x.docFor(l)); got != tt.want || p != tt.p {
			t.Errorf("%s = %q, %d, want %q, %d", tt.loc, got, p, tt.want, tt.p)
		}
		if again, err := parseLocator(l.String()); err != nil || !again.same(l) {
			t.Errorf("%s does not survive being written: %v", tt.loc, err)
		}
	}
}

func TestUnquoteKey(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`abc`: `abc`, `"abc"`: `abc`, `"a\"b\\c"`: `a"b\c`, `a"b`: `a"b`, `""`: ``, ``: ``, ` "a"`: ` "a"`, `"a b"`: `a b`,
	} {
		if got, err := unquoteKey(in); err != nil || got != want {
			t.Errorf("unquoteKey(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, bad := range []string{`"`, `"abc`, `"a"b"`, `"a\n"`, `"a\"`, "\"\x01\"", `"é"`} {
		if got, err := unquoteKey(bad); err == nil {
			t.Errorf("unquoteKey(%q) = %q, want an error", bad, got)
		}
	}
}

func TestOtherPort(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://a.test/x?y=1": "https://a.test:443/x?y=1", "http://a.test": "http://a.test:80", "https://a.test:443/x": "https://a.test/x",
		"https://a.test:8443/x": "https://a.test/x", "https://[::1]/x": "https://[::1]:443/x", "https://[::1]:443/x": "https://[::1]/x",
		"ftp://a.test/x": "", "/x": "", "": "", "https://a.test?x=:1": "https://a.test:443?x=:1",
	} {
		if got := otherPort(in); got != want {
			t.Errorf("otherPort(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestDecodeInto(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		enc  Encoding
		in   string
		want int // decoded length, -1 for a refusal
	}{
		{Hex, "00ff", 2}, {Hex, "00FF", 2}, {Hex, "", -1}, {Hex, "0", -1}, {Hex, "zz", -1}, {Hex, " 00", -1}, {Hex, strings.Repeat("0", 1000), -1},
		{Base64, "AAA=", 2}, {Base64, "AAA", -1}, {Base64, "AAB=", -1}, {Base64, "AA\nA=", -1}, {Base64, "", -1}, {Base64, "_-8=", -1}, {Base64, strings.Repeat("A", 1000), -1},
		{Base64URL, "_-8", 2}, {Base64URL, "_-8=", 2}, {Base64URL, "_-9", -1}, {Base64URL, "+/8", -1}, {Base64URL, "====", -1},
	} {
		var buf [2 * maxDigest]byte
		n, ok := tt.enc.decodeInto(buf[:], tt.in)
		if ok != (tt.want >= 0) || ok && n != tt.want {
			t.Errorf("%s %q: %d, %t, want %d", tt.enc, tt.in, n, ok, tt.want)
		}
	}
}

func TestCheckAge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		skew, tolerance time.Duration
		want            Reason
	}{
		{0, time.Minute, OK}, {time.Minute, time.Minute, OK}, {-time.Minute, time.Minute, OK},
		{time.Minute + 1, time.Minute, ReasonTimestampOld}, {-time.Minute - 1, time.Minute, ReasonTimestampFuture},
		{1 << 62, 0, OK}, {-1 << 63, time.Minute, ReasonTimestampFuture}, {1<<63 - 1, time.Minute, ReasonTimestampOld},
	} {
		if got := checkAge(tt.skew, tt.tolerance); got != tt.want {
			t.Errorf("checkAge(%d, %v) = %s, want %s", tt.skew, tt.tolerance, got, tt.want)
		}
	}
}

func TestSortedForm(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"b=2&b=1&a=%C3%A9&b=2&B=x": "Bxaéb1b2", "a=": "a", "ab=1&a=2": "a2ab1", "": "", "a=1&%zz": "",
	} {
		x := &exchange{req: &Request{Body: []byte(body), Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}}}
		tmpl, err := parseTemplate("{form}")
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if missing := tmpl.write(x, &out); missing != "" || out.String() != want {
			t.Errorf("%q gives %q, want %q", body, out.String(), want)
		}
	}
}
