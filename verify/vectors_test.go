package verify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func vectorFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../testdata/vectors/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("vector files: %v, %d found", err, len(files))
	}
	return files
}

func TestVectors(t *testing.T) {
	t.Parallel()
	total := 0
	for _, file := range vectorFiles(t) {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		rep, err := RunVectors(f, VectorOptions{})
		_ = f.Close()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, m := range rep.Mismatches {
			t.Errorf("%s: %s", filepath.Base(file), m)
		}
		if rep.Skipped > 0 || rep.Passed == 0 {
			t.Errorf("%s: %d passed, %d skipped, want all to run", file, rep.Passed, rep.Skipped)
		}
		total += rep.Passed
	}
	if total < 100 {
		t.Errorf("%d vectors passed, want more than 100", total)
	}
}

func TestRunVectorsReports(t *testing.T) {
	t.Parallel()
	const file = `[
	 {"provider":"github","case":"right","secret":"mysecret","method":"POST","headers":{"X-Hub-Signature-256":"sha256=4864d2759938a15468b5df9ade20bf161da9b4f737ea61794142f3484236bda3","X-GitHub-Delivery":"d1"},"body":"{\"foo\":\"bar\"}","now":1,"want":"ok","want_event_id":"d1"},
	 {"provider":"github","case":"other id","secret":"mysecret","method":"POST","headers":{"X-Hub-Signature-256":"sha256=4864d2759938a15468b5df9ade20bf161da9b4f737ea61794142f3484236bda3","X-GitHub-Delivery":"d1"},"body":"{\"foo\":\"bar\"}","now":1,"want":"ok","want_event_id":"d2"},
	 {"provider":"github","case":"other outcome","secret":"mysecret","method":"POST","headers":{},"body":"","now":1,"want":"ok"},
	 {"provider":"gitlab","case":"mode found","secret":"sampleToken","headers":{"X-Gitlab-Token":["sampleToken"]},"body":"","now":1.5,"want":"ok"},
	 {"provider":"gitlab","case":"mode named","auth":"signing_token","secret":"sampleToken","headers":{"X-Gitlab-Token":"sampleToken"},"body":"","now":1,"want":"missing_signature"},
	 {"provider":"github","case":"empty secret","secret":"","headers":{"X-Hub-Signature-256":"sha256=00"},"body":"","now":1,"want":"bad_signature"},
	 {"provider":"github","case":"unreadable","secrets":{"a":1}},
	 {"provider":"nobody","case":"unknown","secrets":{"a":1},"headers":{},"body":"","now":1,"want":"ok"}
	]`
	rep, err := RunVectors(strings.NewReader(file), VectorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := "github: \"other id\": event IDs are [\"d1\"], want [\"d2\"]\n" +
		"github: \"other outcome\": got missing_signature (signature_missing), want ok\n" +
		"github: \"unreadable\": read vector: secrets: want a list of texts or an object of them\n" +
		"4 passed, 3 failed, 1 skipped\n"
	if got := rep.String(); got != want {
		t.Errorf("report is\n%s\nwant\n%s", got, want)
	}
	for _, bad := range []string{"", "{}", "[1]", "[] x", `[{"provider":1}]`} {
		if _, err := RunVectors(strings.NewReader(bad), VectorOptions{}); err == nil {
			t.Errorf("RunVectors(%q) took a file that is no vector file", bad)
		}
	}
}

// TestRunVectorsChecksAnswers spoils one expectation of a handshake at a time.
func TestRunVectorsChecksAnswers(t *testing.T) {
	t.Parallel()
	const head = `[{"provider":"subscribe","case":"c","secret":"key","options":{"verify_token":"t"},"method":"GET","headers":{},"body":"","now":1,` +
		`"url":"https://a.test/?hub.mode=subscribe&hub.challenge=42&hub.verify_token=t","want":"challenge"`
	for field, pass := range map[string]bool{
		`"want_status":200`: true, `"want_status":204`: false, `"want_body":"42"`: true, `"want_body":"4"`: false,
		`"want_body_contains":"4"`: true, `"want_body_contains":["4","5"]`: false, `"want_body_is_json":true`: true,
		`"want_content_type":"text/plain"`: true, `"want_content_type":"application/json"`: false,
		`"want_headers":{"x-content-type-options":"nosniff"}`: true, `"want_headers":{"x-content-type-options":"sniff"}`: false,
		`"want_headers_present":["X-Content-Type-Options"]`: true, `"want_headers_present":["X-Other"]`: false,
		`"want_headers_absent":["X-Other"]`: true, `"want_headers_absent":["X-Content-Type-Options"]`: false,
		`"expect_response":{"status":[200,204],"body":"42"}`: true, `"expect_response":{"status":[204]}`: false, `"expect_response":{"body":""}`: false,
	} {
		rep, err := RunVectors(strings.NewReader(head+","+field+"}]"), VectorOptions{Rows: []Row{subscribeRow()}})
		if err != nil || rep.Skipped != 0 || (rep.Passed == 1) != pass || (rep.Failed == 1) == pass {
			t.Errorf("%s: %v, %v", field, rep, err)
		}
	}
}
