// Command torture kills the built gateway, again and again, and holds what
// is left against what was promised. It imports none of the product: it
// knows the binary, its public HTTP edge, its config file and its commands.
//
// The parts: a Sender signs events and keeps its own log of what it was
// answered; a Target is where deliveries arrive and keeps its own log of
// what came; a Proc is the gateway's process; the Oracle (Judge) compares the
// two logs with the gateway's own account.
//
// Invariants:
//
//   - The sender's and the target's logs never pass through the gateway nor
//     its file system: a fault there cannot make them agree with it.
//   - Judge is pure: the same evidence gives the same verdict. It counts an
//     answer as an acknowledgement only when its status line said 2xx before
//     Evidence.Until.
//   - Everything random comes from the seed that the run prints.
//   - The suite ends only processes it started, by their process ID.
//   - It waits for conditions, and for none so briefly that a machine with much
//     else to do would fail it.
//
// The unit tests run with every `go test ./...`. The runs against the binary
// need the build tag and some minutes. Tier C is every test once, several at a
// time, in a size for each change; tier N goes on with new seeds for hours, as
// many tests at once as -at-once says:
//
//	go test -tags torture -v -timeout 25m -parallel 4 ./torture
//	go test -tags torture -v ./torture -run TestCrashLoop -seed 7
//	go test -tags torture ./torture -report docs/torture.md
//	go run ./torture -n -for 1h -only crash,power
//	TORTURE_DAMAGES=500 go run ./torture -n -for 1h -limit 2h -plans 200000
//	go run ./torture -n -for 1h -after docs/torture.md
//
// The last four write the report; its last line is the total. -plans plays those of
// the simulation first, beside the time that is asked for. The last goes on
// from an earlier one: what failed then runs first, with its seed. TORTURE_CYCLES,
// TORTURE_CHURN, TORTURE_CUTS, TORTURE_DAMAGES, TORTURE_STOPS and TORTURE_EVENTS set
// the number of kills, of those with everything under way, of power cuts, of
// damaged files, of stops under load and of events looked at for leaks,
// TORTURE_FORGED how many events are forged, TORTURE_FLEET how many a fleet is
// sent; TORTURE_BINARY names a built
// gateway to take in place of this module's. The power cuts need root and loop
// devices; where there are none the test fails and says so, unless
// TORTURE_NO_POWERCUT=1 leaves it out by decision.
//
// A Fleet is several gateways on one PostgreSQL, a cluster of the suite's own
// that it stops as a crash does and fails over to a standby: TestFleet and
// TestFailover, judged by JudgeFleet. A failover under a load of 80 % of capacity,
// with a chart of it:
//
//	go run ./torture -failover -for 10m -chart docs/failover.svg
//
// The edge tests (TestEdge...) stand at the public listener: requests read in
// two ways, slow senders, floods, bombs, overload, resets, HTTP/2, same-ID
// storms, reloads, stops, leaks. TestCanary makes every secret a text of its own
// and looks for them in all the gateway says; every other test's logs are
// searched as well.
//
// Every fault has a control, a test whose name begins with TestControl: a build
// that breaks one promise, or a guard taken away, must be noticed.
package main
