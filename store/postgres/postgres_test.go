package postgres

import (
	"os"
	"testing"

	"github.com/reprise-run/reprise/internal/pgtest"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }

func create(t testing.TB) func() (session.Store, error) {
	url := pgtest.NewDatabase(t)
	return func() (session.Store, error) { return Open(t.Context(), url) }
}

func TestStore(t *testing.T) { storetest.Run(t, create) }

// BenchmarkStore is of a server that syncs, on loopback.
func BenchmarkStore(b *testing.B) {
	db := pgtest.Start(b)
	storetest.Bench(b, func(b testing.TB) func() (session.Store, error) {
		url := db.NewDatabase(b)
		return func() (session.Store, error) { return Open(b.Context(), url) }
	})
}
