// Package simulation plays the life of a gateway against a small model: senders,
// the receiver, verification, the group commit, the ledger, the schedule, the
// forwarder and its targets, with faults, on a clock of its own. It holds tests
// only.
//
// One run is a plan drawn from a seed: who sends what and when, what the targets
// answer, when the process is killed, the disk is low, a commit fails, the wall
// clock jumps, the configuration changes, an operator replays or cancels. The
// plan is carried out by the product's own parts inside a testing/synctest
// bubble, where days pass in milliseconds and the network is pipes in memory.
//
// What must hold is judged from the outside: by what senders were told, by what
// targets were sent, and by the account at the end. It is the same whatever the
// order in which goroutines ran; the plan is what a seed replays, the order of
// goroutines within one instant is the runtime's.
//
//	go test ./simulation                       # some hundred plans
//	go test ./simulation -plans 2000           # as in .ci/run
//	go test ./simulation -first 4711 -plans 1  # a plan again, told step by step
//
// Ledgers that break a promise are run the same way and must be caught: one
// that forgets a claim, one that loses a delivery, one that leases a delivery
// twice at once, one whose answer comes before its commit, one whose claims
// end early.
package simulation
