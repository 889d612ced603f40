package dedupe

import "fmt"

// Concern is something of an engine's own that an operator should see to: the
// ledger works meanwhile, but less well, or not for ever.
type Concern struct {
	Name string `json:"name"` // one fixed word, for programs
	Text string `json:"text"` // what is so, one sentence
	Do   string `json:"do"`   // what to do about it, one sentence
}

// HeldConcern is that n deliveries are held because the ledger was restored. resume says
// how the hold is ended.
func HeldConcern(n int64, resume string) Concern {
	what := fmt.Sprintf("%d deliveries that were open when the ledger was copied are held: most were probably delivered since.", n)
	if n == 1 {
		what = "1 delivery that was open when the ledger was copied is held: it was probably delivered since."
	}
	return Concern{Name: "held", Text: what, Do: "Look whether their targets have had them, then end the hold: " + resume + "."}
}
