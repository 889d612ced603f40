package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/verify"
)

var update = flag.Bool("update", false, "write docs/providers and the README's list of providers anew")

const (
	docsDir    = "../docs/providers"
	readmeFile = "../README.md"
	listBegins = "<!-- providers: made by go test ./cli -run Docs -update -->\n"
	listEnds   = "<!-- /providers -->\n"
)

// TestDocs holds the page of each provider and the list in the README against the
// rows.
func TestDocs(t *testing.T) {
	have := samples{os.DirFS("..")}
	want := map[string]string{}
	for _, row := range verify.Providers() {
		want[row.Name+".md"] = providerPage(cardOf(row, have.types(row.Name)))
	}
	readme, err := os.ReadFile(readmeFile)
	if err != nil {
		t.Fatal(err)
	}
	text, ok := withList(string(readme), providerList(verify.Providers()))
	if !ok {
		t.Fatalf("the README lacks %q … %q", listBegins, listEnds)
	}
	if *update {
		writeDocs(t, want, text)
	}
	if readme, _ = os.ReadFile(readmeFile); text != string(readme) {
		t.Error("the README's list of providers is stale: go test ./cli -run Docs -update")
	}
	stale := 0
	for name, page := range want {
		got, err := os.ReadFile(filepath.Join(docsDir, name))
		if err != nil || string(got) != page {
			stale++
		}
	}
	for _, name := range pagesThere(t) {
		if _, ok := want[name]; !ok {
			t.Errorf("docs/providers/%s is of no provider", name)
		}
	}
	if stale > 0 {
		t.Errorf("%d pages of docs/providers are stale: go test ./cli -run Docs -update", stale)
	}
}

func pagesThere(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(docsDir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i] = filepath.Base(all[i])
	}
	return all
}

func writeDocs(t *testing.T, pages map[string]string, readme string) {
	t.Helper()
	if err := os.MkdirAll(docsDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range pagesThere(t) {
		if _, ok := pages[name]; !ok {
			if err := os.Remove(filepath.Join(docsDir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	pages = mapsWith(pages, readmeFile, readme)
	for name, page := range pages {
		file := filepath.Join(docsDir, name)
		if name == readmeFile {
			file = name
		}
		if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, []byte(page)) {
			continue
		}
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func mapsWith(m map[string]string, key, val string) map[string]string {
	out := map[string]string{key: val}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// withList puts the list between its marks.
func withList(readme, list string) (string, bool) {
	before, rest, ok := strings.Cut(readme, listBegins)
	_, after, ok2 := strings.Cut(rest, listEnds)
	return before + listBegins + list + listEnds + after, ok && ok2
}

// providerList is every provider by what it signs with, as links.
func providerList(rows []verify.Row) string {
	groups := []string{"HMAC", "public key", "JWT", "token", "user and password", "digest or own scheme", "unsigned"}
	links := map[string][]string{}
	unsure := 0
	for _, r := range rows {
		mark := ""
		if len(r.Unconfirmed) > 0 {
			mark, unsure = "°", unsure+1
		}
		g := groupOf(firstMode(r))
		links[g] = append(links[g], fmt.Sprintf("[%s](docs/providers/%s.md)%s", r.Name, r.Name, mark))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d providers, each one row of a table; ° marks the %d of which some fact is not confirmed yet (a source must then say\n`accept_unconfirmed = true`). A page says what to do.\n\n", len(rows), unsure)
	for _, g := range groups {
		if len(links[g]) > 0 {
			fmt.Fprintf(&b, "- **%s** (%d):\n", g, len(links[g]))
			wrapLinks(&b, links[g])
		}
	}
	return b.String()
}

// wrapLinks writes links with dots between in lines of no more than 130 letters.
func wrapLinks(b *strings.Builder, links []string) {
	line := " "
	for i, l := range links {
		if i < len(links)-1 {
			l += " ·"
		}
		if len(line)+len(l) > 130 {
			b.WriteString(line + "\n")
			line = " "
		}
		line += " " + l
	}
	b.WriteString(line + "\n")
}

func groupOf(m verify.Mode) string {
	switch {
	case m.Custom != "" && m.HMAC == nil, m.HMAC != nil && m.HMAC.Plain:
		return "digest or own scheme"
	case m.HMAC != nil:
		return "HMAC"
	case m.PublicKey != nil:
		return "public key"
	case m.JWT != nil:
		return "JWT"
	case m.Token != nil:
		return "token"
	case m.Basic != nil:
		return "user and password"
	}
	return "unsigned"
}

// providerPage is the card as a page.
func providerPage(c card) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n<!-- made by go test ./cli -run Docs -update -->\n\n", plainMarkdown(c.Title))
	line := func(name string, vals ...string) {
		for _, v := range vals {
			fmt.Fprintf(&b, "- **%s**: %s\n", name, plainMarkdown(v))
		}
	}
	fmt.Fprintf(&b, "```toml\n%s```\n\n", c.Config)
	line("enter there", c.Paste)
	line("secret", c.Secret)
	line("events", c.Events)
	line("event ID", c.EventID)
	line("never the ID", c.NeverID...)
	line("signed by", c.Signing...)
	line("handshake", c.Handshakes...)
	line("expect", c.Expect...)
	if len(c.Samples) > 0 {
		line("try", "onceward trigger "+c.Name+" TYPE, where TYPE is "+strings.Join(c.Samples, ", "))
	}
	line("not confirmed", c.Unconfirmed...)
	if c.Docs != "" {
		fmt.Fprintf(&b, "- **its own page**: <%s>\n", c.Docs)
	}
	return b.String()
}

func plainMarkdown(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "<", `\<`, "[", `\[`, "]", `\]`, "`", "\\`").Replace(s)
}

// TestDocsGroups: no provider falls out of the README.
func TestDocsGroups(t *testing.T) {
	rows := verify.Providers()
	list := providerList(rows)
	for _, r := range rows {
		if strings.Count(list, "(docs/providers/"+r.Name+".md)") != 1 {
			t.Errorf("%s is not in the list once", r.Name)
		}
	}
	if got, ok := withList("a\n"+listBegins+"old\n"+listEnds+"b\n", "new\n"); !ok || got != "a\n"+listBegins+"new\n"+listEnds+"b\n" {
		t.Errorf("withList = %q, %t", got, ok)
	}
	if _, ok := withList("a\n", "new\n"); ok {
		t.Error("a README without marks was taken")
	}
	if !slices.IsSortedFunc(rows, func(a, b verify.Row) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the rows are not sorted")
	}
}
