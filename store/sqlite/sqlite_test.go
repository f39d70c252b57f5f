package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/store/storetest"
)

func create(t testing.TB) func() (session.Store, error) {
	path := filepath.Join(t.TempDir(), "a folder #1 ?x", "reprise.db")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	return func() (session.Store, error) { return Open(path) }
}

func TestStore(t *testing.T) { storetest.Run(t, create) }
