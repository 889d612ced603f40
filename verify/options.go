package verify

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options of the generic rows, by what they need.
var (
	optionsLocate = []string{"id", "type"}
	optionsHMAC   = []string{"header", "format", "prefix", "key", "encoding", "digest", "secret_form",
		"template", "timestamp", "unit", "tolerance"}
	optionsToken = []string{"in", "prefix"}
)

// applyOptions puts the settings of a source into its own copy of row and mode.
// It refuses names the row doesn't list and says which it does.
func applyOptions(row *Row, mode *Mode, opts map[string]string) error {
	names := make([]string, 0, len(opts))
	for name := range opts {
		names = append(names, name)
	}
	slices.Sort(names)
	var errs []error
	for _, name := range names {
		if !slices.Contains(row.Options, name) {
			errs = append(errs, fmt.Errorf("option %s: provider %s takes %s", name, row.Name, listOr(row.Options)))
			continue
		}
		errs = append(errs, wrap("option "+name, applyOption(row, mode, name, opts[name])))
	}
	return errors.Join(errs...)
}

func listOr(names []string) string {
	if len(names) == 0 {
		return "no options"
	}
	return strings.Join(names, ", ")
}

// applyOption sets one option. Names that no family knows belong to handshakes,
// which look them up themselves.
func applyOption(row *Row, mode *Mode, name, val string) error {
	switch {
	case name == "id":
		row.ID = splitList(val)
		mode.ID = nil
		return nil
	case name == "type":
		row.Type = splitList(val)
		return nil
	case name == "prefix" && mode.Token != nil:
		mode.Token.Prefix = val
		return nil
	case name == "in":
		if mode.Token == nil {
			return fmt.Errorf("does not apply to auth %q", mode.Name)
		}
		mode.Token.In = val
		return nil
	case slices.Contains(optionsHMAC, name):
		if mode.HMAC == nil {
			return fmt.Errorf("does not apply to auth %q", mode.Name)
		}
		return applyHMACOption(mode.HMAC, name, val)
	}
	return nil
}

func applyHMACOption(h *HMAC, name, val string) error {
	switch name {
	case "header":
		if !validHeaderName(val) {
			return errors.New("is not a header name")
		}
		h.Sig = "header:" + val
	case "format":
		h.Format = Format(val)
	case "prefix":
		h.Prefix = val
	case "key":
		h.Key = val
	case "encoding":
		h.Encoding = Encoding(val)
	case "digest":
		h.Digest = Digest(val)
	case "secret_form":
		h.Secret = SecretForm(val)
	case "template":
		h.Signed = val
	case "timestamp":
		h.Timestamp = val
		if h.Tolerance == 0 {
			h.Tolerance = defaultTolerance
		}
	case "unit":
		h.Unit = Unit(val)
	case "tolerance":
		d, err := time.ParseDuration(val)
		if err != nil || d <= 0 {
			return errors.New("want a positive duration such as 5m")
		}
		h.Tolerance = Duration(d)
	}
	return nil
}

// splitList splits a comma-separated list.
func splitList(s string) []string {
	var out []string
	for _, part := range strings.Split(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
