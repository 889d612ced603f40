package verify

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
)

// newXML makes a decoder that expands nothing and fetches nothing.
func newXML(doc []byte) *xml.Decoder {
	d := xml.NewDecoder(bytes.NewReader(doc))
	// Other character sets are read as if they were UTF-8: names and numbers are
	// ASCII in all of them that are used.
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	return d
}

// walkXML calls open and text for the elements below the root, with their local
// names; depth is that of the element, 0 for children of the root.
func walkXML(doc []byte, open func(depth int, name string, at int64), shut func(depth int, end int64), text func(depth int, s string)) bool {
	d := newXML(doc)
	depth := -2
	for {
		at := d.InputOffset()
		tok, err := d.RawToken()
		if err != nil {
			return err == io.EOF && depth == -2
		}
		switch t := tok.(type) {
		case xml.StartElement:
			if depth++; depth > MaxDepth {
				return false
			}
			if depth >= 0 {
				open(depth, t.Name.Local, at)
			}
		case xml.EndElement:
			if depth >= 0 {
				shut(depth, d.InputOffset())
			}
			if depth--; depth < -2 {
				return false
			}
		case xml.CharData:
			if depth >= 0 && text != nil {
				text(depth, string(t))
			}
		}
	}
}

// pathXML follows a path of local names through elements as they open and shut.
type pathXML struct {
	want []string
	good int // how many of the path's names are open, one below the other
}

func (p *pathXML) open(depth int, name string) (hit bool) {
	if depth == p.good && depth < len(p.want) && p.want[depth] == name {
		p.good++
		return p.good == len(p.want)
	}
	return false
}

func (p *pathXML) shut(depth int) (hit bool) {
	if depth+1 == p.good {
		p.good--
		return depth+1 == len(p.want)
	}
	return false
}

// findXML returns the text of the first element at the path, which is made of
// local names below the root. A document that is not well-formed has none.
func findXML(doc []byte, path string) (string, presence) {
	p := pathXML{want: strings.Split(path, "/")}
	var b strings.Builder
	found, inside := absent, false
	ok := walkXML(doc, func(depth int, name string, _ int64) {
		if p.open(depth, name) && found == absent {
			found, inside = once, true
		}
	}, func(depth int, _ int64) {
		if p.shut(depth) {
			inside = false
		}
	}, func(depth int, s string) {
		if inside && depth == len(p.want)-1 {
			b.WriteString(s)
		}
	})
	if !ok || found == absent {
		return "", absent
	}
	return b.String(), once
}

// elementsXML calls each with the exact bounds of every element at the path. It
// reports whether the document is well-formed.
func elementsXML(doc []byte, path string, each func(start, end int)) bool {
	p := pathXML{want: strings.Split(path, "/")}
	start := -1
	return walkXML(doc, func(depth int, name string, at int64) {
		if p.open(depth, name) {
			start = int(at)
		}
	}, func(depth int, end int64) {
		if p.shut(depth) && start >= 0 {
			each(start, int(end))
			start = -1
		}
	}, nil)
}
