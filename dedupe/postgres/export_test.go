package postgres

import "context"

// Every has a load write a transaction for each n records.
func (l *Loader) Every(n uint64) { l.every = n }

// Flush writes what was put.
func (l *Loader) Flush(ctx context.Context) error { return l.flush(ctx) }
