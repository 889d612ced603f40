package verify

// Providers returns a copy of every built-in row, sorted by name.
func Providers() []Row { return nil }

// Lookup returns a copy of the built-in row of that name.
func Lookup(name string) (Row, bool) { return Row{}, false }

// Validate reports every fault of the row at once.
func (r Row) Validate() error { return nil }
