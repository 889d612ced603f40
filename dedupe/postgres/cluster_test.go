package postgres_test

import (
	"os"
	"testing"

	"github.com/onceward/onceward/dedupe/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

// server is the URL of the database to test with.
func server(t testing.TB) string {
	t.Helper()
	return pgtest.URL(t)
}
