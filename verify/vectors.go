package verify

import "io"

// VectorOptions steers [RunVectors].
type VectorOptions struct {
	// Rows are looked up before the built-in ones.
	Rows []Row
}

// Report is what became of a vector file.
type Report struct {
	Passed, Failed, Skipped int
	// Mismatches has one line per vector that did not do what it should.
	Mismatches []string
}

// RunVectors runs a vector file.
func RunVectors(r io.Reader, opt VectorOptions) (Report, error) { return Report{}, nil }
