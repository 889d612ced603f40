// Package gateway reads the configuration, wires every other package
// together, starts them in order, stops them in the reverse order, and swaps
// the configuration while requests run.
//
// Invariants:
//
//   - A configuration is taken whole or not at all: Parse reports every fault
//     at once, and a reload with a fault leaves everything as it was.
//   - References are expanded after parsing, in values only, so that a value
//     can't inject TOML. No fault, log line or printout holds an expanded
//     value.
//   - A source without verification says provider = "none" in so many words;
//     a source whose secret is not there is offline and never open.
//   - What starts last stops first: ingest listener, attempts in flight,
//     group commit, ledger; the admin listener answers for as long as it can.
//   - Constructors start nothing. Run is the only thing that blocks, and it
//     waits for every goroutine it started.
package gateway
