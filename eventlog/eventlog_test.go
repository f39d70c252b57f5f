package eventlog

import (
	"testing"

	"github.com/reprise-run/reprise/eventlog/logtest"
	"github.com/reprise-run/reprise/session"
)

func TestSuite(t *testing.T) {
	logtest.Run(t, func(t *testing.T) session.Log {
		log, err := Open(t.Context(), Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return log
	})
}
