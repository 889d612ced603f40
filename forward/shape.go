package forward

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/onceward/onceward/event"
)

// Shape is how a stored event becomes a request. The zero value forwards it as
// it came. The event and its bytes stay what they are, in the ledger and on the
// wire: a shape chooses method and headers only.
type Shape struct {
	// CloudEvents sends CloudEvents 1.0 in the binary mode of HTTP.
	CloudEvents bool
	// Method replaces the event's own; "" keeps it.
	Method string
	// HeadersAllow, when not empty, names the sender's headers that pass
	// beside those that describe the body; HeadersDeny those that don't. Names
	// in any case, or beginnings of names with a * at their end. Neither lets
	// anything pass that would not without it.
	HeadersAllow []string
	HeadersDeny  []string
}

// Methods lists what Shape.Method may be.
func Methods() []string {
	return []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
}

// CheckHeaderPattern reports a name of a header list that is none, or that
// names what never passes.
func CheckHeaderPattern(p string) error {
	name, glob := strings.CutSuffix(p, "*")
	key := http.CanonicalHeaderKey(name)
	switch {
	case name == "" && glob:
		return nil
	case !httpguts.ValidHeaderFieldName(name) || strings.ContainsAny(name, "_*"):
		return fmt.Errorf("%q is not a header name, nor a beginning of names with a * at its end", p)
	case !glob && (reserved(key) || senderOnly(key)):
		return fmt.Errorf("%q never passes from sender to target", p)
	}
	return nil
}

func (s Shape) check() error {
	var errs []error
	if s.Method != "" && !slices.Contains(Methods(), s.Method) {
		errs = append(errs, fmt.Errorf("method %q: want one of %s", s.Method, strings.Join(Methods(), ", ")))
	}
	for _, p := range slices.Concat(s.HeadersAllow, s.HeadersDeny) {
		if err := CheckHeaderPattern(p); err != nil {
			errs = append(errs, fmt.Errorf("header lists: %w", err))
		}
	}
	return errors.Join(errs...)
}

// passes reports whether a header that may pass does so by the lists.
func (s *Shape) passes(key string) bool {
	if s.CloudEvents && strings.HasPrefix(key, "Ce-") {
		return false // would be read as an attribute of ours
	}
	if len(s.HeadersDeny) > 0 && listed(s.HeadersDeny, key) {
		return false
	}
	return len(s.HeadersAllow) == 0 || describesBody(key) || listed(s.HeadersAllow, key)
}

func listed(patterns []string, key string) bool {
	for _, p := range patterns {
		if name, glob := strings.CutSuffix(p, "*"); glob {
			if len(key) >= len(name) && strings.EqualFold(key[:len(name)], name) {
				return true
			}
		} else if strings.EqualFold(p, key) {
			return true
		}
	}
	return false
}

// describesBody names the headers without which a body can't be read.
func describesBody(key string) bool {
	return key == "Content-Type" || key == "Content-Encoding" || key == "Content-Language"
}

// senderOnly names headers that carry the sender's credential to us. None is
// stored; none would pass.
func senderOnly(key string) bool { return key == "Authorization" }

const (
	ceSpec   = "Ce-Specversion"
	ceID     = "Ce-Id"
	ceSource = "Ce-Source"
	ceType   = "Ce-Type"
	ceTime   = "Ce-Time"
	// ceNoType is the type of an event whose sender names none: the attribute
	// must not be empty.
	ceNoType = "onceward.event"
)

// cloudEvent sets the attributes of CloudEvents. The ID is our own ref: the
// provider's is unique in its window only, and there may be none. The media
// type of the data is Content-Type, which is the sender's.
func (s *headers) cloudEvent(ev *event.Event) {
	s.set(ceSpec, "1.0")
	s.set(ceID, ev.Ref.String())
	s.set(ceSource, "/onceward/"+url.PathEscape(ev.Source))
	if ev.Type == "" {
		s.set(ceType, ceNoType)
	} else {
		s.set(ceType, ceEncode(ev.Type))
	}
	s.set(ceTime, ev.ReceivedAt.UTC().Format(time.RFC3339Nano))
}

// ceEncode is the encoding of attributes in headers: all but visible ASCII, the
// quote and the percent sign are percent-encoded.
func ceEncode(text string) string {
	return encode(text, func(c byte) bool { return c > ' ' && c < 0x7f && c != '%' && c != '"' })
}
