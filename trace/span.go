package trace

import (
	"strings"
	"time"
)

// Kind is the side of a request that a span is.
type Kind uint8

// The kinds of a span.
const (
	Server Kind = iota + 1
	Client
)

// Span is one thing that took time. Names and attributes hold no credential, no
// header and no body: they leave the machine.
type Span struct {
	Name    string
	Kind    Kind
	Context Context
	Parent  SpanID    // zero for a root
	Link    Context   // a trace of somebody else's that led to it; zero for none
	Start   time.Time // wall clock
	End     time.Time
	Attrs   []Attr
	// Error is a short class of what went wrong, "" when nothing did.
	Error string
}

// Attr is one attribute: a text, or a number when Text is "".
type Attr struct {
	Key  string
	Text string
	Num  int64
}

// Text is an attribute that is left out when it is empty.
func (s *Span) Text(key, value string) {
	if value != "" {
		s.Attrs = append(s.Attrs, Attr{Key: key, Text: value})
	}
}

// Num is an attribute that is a number.
func (s *Span) Num(key string, value int64) {
	s.Attrs = append(s.Attrs, Attr{Key: key, Num: value})
}

// maxText bounds the length of a text in an attribute.
const maxText = 256

// valid is text as the wire takes it: UTF-8, and not long.
func valid(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
