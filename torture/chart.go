package main

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"
	"time"
)

// Series is how often something happened in each second.
type Series struct {
	Name   string
	Colour string
	Counts []int
}

// add counts one that happened at a moment; those before the start are left out.
func (s *Series) add(at time.Duration) {
	if at < 0 {
		return
	}
	n := int(at / time.Second)
	for len(s.Counts) <= n {
		s.Counts = append(s.Counts, 0)
	}
	s.Counts[n]++
}

// Mark is a moment that is drawn as a line.
type Mark struct {
	At   time.Duration
	Name string
}

const (
	chartWidth, chartHeight = 960, 400
	left, right             = 60, 20 // margins
	top, bottom             = 70, 40
)

// Chart draws series over time as an SVG.
func Chart(title string, series []Series, marks []Mark) string {
	seconds, most := 1, 1
	for _, s := range series {
		seconds = max(seconds, len(s.Counts))
		for _, n := range s.Counts {
			most = max(most, n)
		}
	}
	step := tick(most)
	ceiling := (most + step - 1) / step * step
	x := func(sec float64) float64 { return left + sec/float64(seconds)*(chartWidth-left-right) }
	y := func(n int) float64 { return top + (1-float64(n)/float64(ceiling))*(chartHeight-top-bottom) }

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="#333">`+"\n", chartWidth, chartHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", chartWidth, chartHeight)
	fmt.Fprintf(&b, `<text x="%d" y="22" font-size="15">%s</text>`+"\n", left, escaped(title))
	for n := 0; n <= ceiling; n += step {
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%d</text>`+"\n", left, y(n), chartWidth-right, left-6, y(n)+4, n)
	}
	for sec, each := 0, tick(seconds); sec <= seconds; sec += each {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d s</text>`+"\n", x(float64(sec)), chartHeight-bottom+18, sec)
	}
	for i, s := range series {
		var points strings.Builder
		for sec, n := range s.Counts {
			fmt.Fprintf(&points, "%.1f,%.1f ", x(float64(sec)+0.5), y(n))
		}
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="1.3" points="%s"/>`+"\n", s.Colour, strings.TrimSpace(points.String()))
		fmt.Fprintf(&b, `<rect x="%d" y="34" width="14" height="4" fill="%s"/><text x="%d" y="41">%s a second</text>`+"\n", left+170*i, s.Colour, left+170*i+20, escaped(s.Name))
	}
	for i, m := range marks {
		at := x(m.At.Seconds())
		anchor := "end"
		if i%2 == 1 {
			anchor = "start"
		}
		fmt.Fprintf(&b, `<path d="M%.1f %dV%d" stroke="#333" stroke-dasharray="4 3"/><text x="%.1f" y="%d" text-anchor="%s">%s</text>`+"\n",
			at, top-6, chartHeight-bottom, at, top-10, anchor, escaped(m.Name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// tick is a round distance of which about eight make up most.
func tick(most int) int {
	rough := float64(most) / 8
	unit := math.Pow(10, math.Floor(math.Log10(max(rough, 1))))
	for _, f := range []float64{1, 2, 5, 10} {
		if f*unit >= rough {
			return int(f * unit)
		}
	}
	return most
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}
