package logtest_test

import (
	"testing"

	"github.com/reprise-run/reprise/eventlog/logtest"
	"github.com/reprise-run/reprise/session"
)

// The log in memory is a log like the real one.
func TestMemory(t *testing.T) {
	logtest.Run(t, func(*testing.T) session.Log { return logtest.NewMemory() })
}
