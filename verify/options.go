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
	names = expandOptions(row, names, opts)
	for _, name := range names {
		if !slices.Contains(row.Options, name) && !row.setsOption(name) {
			errs = append(errs, fmt.Errorf("option %s: provider %s takes %s", name, row.Name, listOr(row.Options)))
			continue
		}
		errs = append(errs, wrap("option "+name, applyOption(row, mode, name, opts[name])))
	}
	return errors.Join(errs...)
}

// expandOptions puts what options stand for beside them.
func expandOptions(row *Row, names []string, opts map[string]string) []string {
	for _, name := range slices.Clone(names) {
		for _, set := range row.OptionSets[name] {
			other, val, _ := strings.Cut(set, "=")
			if _, given := opts[other]; !given {
				names = append(names, other)
				opts[other] = strings.ReplaceAll(val, "{}", opts[name])
			}
		}
	}
	return names
}

// setsOption reports whether another option of the row sets this one.
func (r *Row) setsOption(name string) bool {
	for _, list := range r.OptionSets {
		for _, set := range list {
			if other, _, _ := strings.Cut(set, "="); other == name {
				return true
			}
		}
	}
	return false
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
	case slices.Contains(mode.options(), name):
		return nil // of the row's own meaning
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
	case (name == "token_header" || name == "header") && mode.Token != nil:
		if !validHeaderName(val) {
			return errors.New("is not a header name")
		}
		mode.Token.In = "header:" + val
		return nil
	case name == "token_param" && mode.Token != nil:
		mode.Token.In = "query:" + val
		return nil
	case name == "algorithms" && mode.HMAC != nil:
		return narrowDigests(mode.HMAC, val)
	case name == "algorithm" && mode.HMAC != nil:
		mode.HMAC.Digest = Digest(strings.ToLower(val))
		return nil
	case slices.Contains([]string{"token_header", "token_param", "algorithm", "algorithms"}, name):
		return fmt.Errorf("does not apply to auth %q", mode.Name)
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

// narrowDigests keeps the digests a source allows; the first is the one where the
// request names none.
func narrowDigests(h *HMAC, val string) error {
	list := optionValues(val)
	if len(list) > 1 && !strings.HasPrefix(val, "[") {
		list = list[1:] // the whole text comes first
	}
	kept := map[string]Digest{}
	for i, name := range list {
		d, ok := h.Digests[name]
		if !ok {
			return fmt.Errorf("the provider knows no %q", name)
		}
		if kept[name] = d; i == 0 {
			h.Digest = d
		}
	}
	if len(kept) == 0 {
		return errors.New("is empty")
	}
	h.Digests = kept
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
