package eventlog

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/reprise-run/reprise/eventlog/logtest"
	"github.com/reprise-run/reprise/eventlog/natstest"
	"github.com/reprise-run/reprise/session"
)

var streams atomic.Int64

// freshStream is a stream's name that no other test has.
func freshStream() string { return fmt.Sprintf("log%d", streams.Add(1)) }

func joinCluster(t testing.TB, c *natstest.Cluster, stream string) *Shared {
	t.Helper()
	log, err := Connect(t.Context(), Cluster{Servers: c.URL(), Stream: stream}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error("close:", err)
		}
	})
	return log
}

func TestSuiteOnCluster(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint("servers=", n), func(t *testing.T) {
			c := natstest.Start(t, n)
			logtest.Run(t, func(t *testing.T) session.Log {
				log := joinCluster(t, c, freshStream())
				if r := log.stream.CachedInfo().Config.Replicas; r != n {
					t.Fatalf("%d replicas on %d servers", r, n)
				}
				return log
			})
		})
	}
}
