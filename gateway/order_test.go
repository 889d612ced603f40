package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// book is a target that writes down what it gets, and refuses everything while
// it is shut and some of it after.
type book struct {
	mu    sync.Mutex
	got   map[string][]string // by customer, the numbers that it took
	tried map[string]int
	busy  map[string]bool // customers with a request under way
	clash []string
	shut  bool
}

func (b *book) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	customer, n := gjson.GetBytes(body, "data.customer").Str, gjson.GetBytes(body, "data.n").Raw
	b.mu.Lock()
	if b.busy[customer] {
		b.clash = append(b.clash, customer+" "+n)
	}
	b.busy[customer] = true
	key := customer + "/" + n
	b.tried[key]++
	fail := b.shut || b.tried[key]%2 == 1 && len(key)%3 == 0
	if !fail {
		b.got[customer] = append(b.got[customer], n)
	}
	b.busy[customer] = false
	b.mu.Unlock()
	if fail {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (b *book) landed() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, list := range b.got {
		n += len(list)
	}
	return n
}

// TestOrderedTarget: through the whole product, a target that fails often gets
// each customer's events in the order in which they were accepted, customers
// beside each other.
func TestOrderedTarget(t *testing.T) {
	const customers, each = 20, 10
	for _, tt := range []struct {
		name, ordered string
	}{{"ordered", "ordered_by = \"data.customer\"\n"}, {"control, without order", ""}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := &book{got: map[string][]string{}, tried: map[string]int{}, busy: map[string]bool{}, shut: true}
			server := httptest.NewServer(b)
			defer server.Close()
			r := run(t, base(t.TempDir())+"[[source]]\nname = \"shop\"\nprovider = \"none\"\nno_id = \"deliver\"\ntargets = [\"app\"]\n"+target(server.URL)+"breaker = { off = true }\n"+tt.ordered, Options{})
			ingest, _ := r.Addr()
			for n := range each {
				for c := range customers {
					resp, err := r.client.Post("http://"+ingest+"/in/shop", "application/json", strings.NewReader(fmt.Sprintf(`{"data":{"customer":"cus_%d","n":%d}}`, c, n)))
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
					if resp.StatusCode != http.StatusOK {
						t.Fatalf("answer %d", resp.StatusCode)
					}
				}
			}
			b.mu.Lock()
			b.shut = false
			b.mu.Unlock()
			eventually(t, func() bool { return b.landed() == customers*each })
			b.mu.Lock()
			defer b.mu.Unlock()
			inversions := 0
			for c, list := range b.got {
				for i, n := range list {
					if n != fmt.Sprint(i) {
						inversions++
						if tt.ordered != "" {
							t.Errorf("%s got %v", c, list)
							break
						}
					}
				}
			}
			if tt.ordered != "" && len(b.clash) > 0 {
				t.Errorf("two of one customer at once: %v", b.clash)
			}
			if tt.ordered == "" && inversions == 0 {
				t.Error("without order everything is in order: this test proves nothing")
			}
		})
	}
}

// eventually waits for a condition that the outside brings about.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(60 * time.Second)
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatal("does not happen in 60 s")
		}
	}
}

func TestOrderFaults(t *testing.T) {
	t.Parallel()
	const head = "[[source]]\nname = \"a\"\nprovider = \"none\"\ntargets = [\"b\"]\n[[target]]\nname = \"b\"\nurl = \"http://127.0.0.1:9/\"\n"
	for _, tt := range []struct{ add, want string }{
		{"ordered_by = \"data.object.id\"\nafter_dead = \"skip\"\n", ""},
		{"ordered_by = \"\"\n", "8:14: target[0].ordered_by: no field is named"},
		{"ordered_by = \"data.*.id\"\n", "8:14: target[0].ordered_by: path \"data.*.id\": want keys"},
		{"ordered_by = \"header:a b\"\n", "8:14: target[0].ordered_by: \"a b\" is not a header name"},
		{"ordered_by = \"source\"\nafter_dead = \"blok\"\n", "9:14: target[0].after_dead: after_dead = \"blok\" is not known; did you mean \"block\"?"},
		{"after_dead = \"skip\"\n", "8:14: target[0].after_dead: after_dead means nothing without ordered_by"},
		{"orderd_by = \"source\"\n", "8:1: target[0].orderd_by: unknown key \"orderd_by\"; did you mean \"ordered_by\"?"},
	} {
		_, fs := Parse("c.toml", []byte(head+tt.add), testEnv)
		got := lines(fs)
		if tt.want == "" && fs.Failed() || !strings.Contains(got, tt.want) {
			t.Errorf("%q: got %s, want %q", tt.add, got, tt.want)
		}
	}
}
