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
//   - A provider of the file is the same type as a built-in one and held to the
//     same rules; it never takes a built-in one's name.
//   - What requests can make the gateway call, to fetch keys or to confirm a
//     subscription, is https on a host that a row names, at a public address,
//     without redirects and proxies, and bounded in time, size and number.
//     Which address is connected to decides, not what a name said before.
//   - A secret that a provider hands over is taken only while its source waits
//     for one. It is on disk, for the owner's eyes, before the provider is
//     answered, and nothing overwrites it.
//   - What starts last stops first: ingest listener, attempts in flight,
//     group commit, ledger; the admin listener answers for as long as it can.
//   - Constructors start nothing. Run is the only thing that blocks, and it
//     waits for every goroutine it started.
package gateway
