package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// TestChart draws two series whose places are known.
func TestChart(t *testing.T) {
	t.Parallel()
	s := Series{Name: "a & b", Colour: "#000"}
	for _, at := range []time.Duration{-ms, 0, 999 * ms, 3 * time.Second} {
		s.add(at)
	}
	if len(s.Counts) != 4 || s.Counts[0] != 2 || s.Counts[1] != 0 || s.Counts[3] != 1 {
		t.Fatalf("counted %v, want [2 0 0 1]", s.Counts)
	}
	svg := Chart("a <title>", []Series{s, {Name: "none", Colour: "#fff"}}, []Mark{{2 * time.Second, "half"}})
	var texts, lines int
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not XML: %v\n%s", err, svg)
		}
		if el, ok := tok.(xml.StartElement); ok {
			switch el.Name.Local {
			case "text":
				texts++
			case "polyline":
				lines++
			}
		}
	}
	if lines != 2 || texts < 8 {
		t.Errorf("%d lines and %d texts, want 2 and at least 8", lines, texts)
	}
	// 880 wide, four seconds: the middle of the first is at 60+110; 2 of 2 is at the top.
	if !strings.Contains(svg, `points="170.0,70.0 390.0,360.0 610.0,360.0 830.0,215.0"`) || !strings.Contains(svg, "M500.0 64V360") {
		t.Errorf("points or mark are not where they belong:\n%s", svg)
	}
}
