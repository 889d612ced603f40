package dedupe

// SalvageReport is what a salvage of a damaged ledger came to. The new ledger
// holds everything that verified; Faults name what did not, and what is missing
// for it.
type SalvageReport struct {
	Dir      string  `json:"dir"`     // of the new ledger
	Records  uint64  `json:"records"` // taken over
	Lost     uint64  `json:"lost"`    // records that did not verify
	Events   uint64  `json:"events"`
	Bodies   uint64  `json:"bodies"`
	Attempts uint64  `json:"attempts"`
	Claims   uint64  `json:"claims"`
	Faults   []Fault `json:"faults"`
}
