package badgerdb

// FailNext makes the next commit fail with err before it is synced.
func (db *DB) FailNext(err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.beforeSync = func() error { return err }
}
