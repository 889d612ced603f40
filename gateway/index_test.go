package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/onceward/onceward/admin"
)

func TestIndexFaults(t *testing.T) {
	t.Parallel()
	const head = "[[source]]\nname = \"a\"\nprovider = \"none\"\ntargets = []\n[source.index]\n"
	nine := ""
	for i := range 9 {
		nine += fmt.Sprintf("f%d = \"a.b\"\n", i)
	}
	for _, tt := range []struct{ add, want string }{
		{"customer = \"data.object.customer\"\nplan_2 = \"header:X-Plan\"\n", ""},
		{"customer = \"\"\n", "6:12: source[0].index.customer: no field is named"},
		{"customer = \"data.*\"\n", "6:12: source[0].index.customer: path \"data.*\": want keys"},
		{"Customer = \"data.a\"\n", "6:1: source[0].index.Customer: an indexed field can't be called \"Customer\""},
		{"\"a=b\" = \"data.a\"\n", "6:1: source[0].index.a=b: an indexed field can't be called \"a=b\""},
		{strings.Repeat("c", 33) + " = \"data.a\"\n", "an indexed field can't be called"},
		{nine, "source[0].index: 9 indexed fields are too many; want at most 8"},
		{"customer = 7\n", "6:12: source[0].index.customer: "},
	} {
		_, fs := Parse("c.toml", []byte(head+tt.add), testEnv)
		got := lines(fs)
		if tt.want == "" && fs.Failed() || !strings.Contains(got, tt.want) {
			t.Errorf("%q: got %s, want %q", tt.add, got, tt.want)
		}
	}
	sync := "[[source]]\nname = \"a\"\nprovider = \"idempotency-key\"\nmode = \"sync\"\ntargets = []\n[source.index]\nx = \"a\"\n"
	if _, fs := Parse("c.toml", []byte(sync), testEnv); !strings.Contains(lines(fs), "index means nothing on a synchronous source") {
		t.Errorf("on a synchronous source: %s", lines(fs))
	}
}

// TestIndexedField: through the whole product, a customer's events are found.
func TestIndexedField(t *testing.T) {
	t.Parallel()
	r := run(t, base(t.TempDir())+"[[source]]\nname = \"shop\"\nprovider = \"none\"\nno_id = \"deliver\"\ntargets = []\n[source.index]\ncustomer = \"data.customer\"\n", Options{})
	ingest, _ := r.Addr()
	for i := range 9 {
		resp, err := r.client.Post("http://"+ingest+"/in/shop", "application/json", strings.NewReader(fmt.Sprintf(`{"data":{"customer":"cus_%d","n":%d}}`, i%3, i)))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("answer %d", resp.StatusCode)
		}
	}
	page, err := r.apiClient(t).Events(context.Background(), admin.Filter{Where: "customer=cus_1"}, "", 50)
	if err != nil || len(page.Items) != 3 {
		t.Fatalf("%d events of the customer, want 3; %v", len(page.Items), err)
	}
	for _, ev := range page.Items {
		if ev.Index["customer"] != "cus_1" {
			t.Errorf("found %v", ev.Index)
		}
	}
}

// TestStoreBody: an event's bytes go once it is delivered, and no others.
func TestStoreBody(t *testing.T) {
	t.Parallel()
	url, _ := listener(t, ok)
	const src = "[[source]]\nname = %q\nprovider = \"none\"\nno_id = \"deliver\"\ntargets = [\"app\"]\nstore_body = %v\n"
	r := run(t, base(t.TempDir())+fmt.Sprintf(src, "brief", false)+fmt.Sprintf(src, "long", true)+target(url), Options{})
	ingest, _ := r.Addr()
	for _, name := range []string{"brief", "long"} {
		resp, err := r.client.Post("http://"+ingest+"/in/"+name, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	c := r.apiClient(t)
	for name, gone := range map[string]bool{"brief": true, "long": false} {
		var ev admin.Event
		eventually(t, func() bool {
			page, err := c.Events(context.Background(), admin.Filter{Source: name, Status: "delivered"}, "", 1)
			if err != nil || len(page.Items) == 0 {
				return false
			}
			ev = page.Items[0]
			return true
		})
		if ev.BodyPruned != gone || ev.BodyBytes != 2 {
			t.Errorf("%s: pruned = %v, %d bytes", name, ev.BodyPruned, ev.BodyBytes)
		}
	}
}

func TestRedactFaults(t *testing.T) {
	t.Parallel()
	const head = "[[source]]\nname = \"a\"\nprovider = \"none\"\ntargets = []\n"
	for _, tt := range []struct{ add, want string }{
		{"redact = [\"data.object.card\"]\n[source.index]\ncustomer = \"data.object.customer\"\nh = \"header:X-Card\"\n", ""},
		{"redact = [\"data.*\"]\n", `source[0].redact[0]: path "data.*": want keys`},
		{"redact = [\"\"]\n", "source[0].redact[0]: path"},
		{"redact = [\"data.card\"]\n[source.index]\nc = \"data.card.last4\"\n", `source[0].index.c: the indexed field "c" would show what redact hides`},
		{"redact = [\"data.card.last4\"]\n[source.index]\nc = \"body:data.card.last4\"\n", "would show what redact hides"},
	} {
		_, fs := Parse("c.toml", []byte(head+tt.add), testEnv)
		got := lines(fs)
		if tt.want == "" && fs.Failed() || !strings.Contains(got, tt.want) {
			t.Errorf("%q: got %s, want %q", tt.add, got, tt.want)
		}
	}
}
