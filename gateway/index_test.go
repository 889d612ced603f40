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
