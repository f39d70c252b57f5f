package eventlog

import (
	"testing"
	"time"

	"github.com/reprise-run/reprise/eventlog/logtest"
	"github.com/reprise-run/reprise/eventlog/natstest"
	"github.com/reprise-run/reprise/session"
)

func TestQueueSuite(t *testing.T) {
	c := natstest.Start(t, 3)
	logtest.RunQueue(t, func(t *testing.T) (a, b session.Queue) {
		stream := freshStream()
		return joinCluster(t, c, stream), joinCluster(t, c, stream)
	})
}

// What a node has that dies, or is paused, goes to another one within about three seconds, and to nobody else.
func TestQueueOfNodesThatAreGone(t *testing.T) {
	c := natstest.Start(t, 3)
	proxy := c.Proxy(0)
	for name, leave := range map[string]func(*Shared){
		"dies":   func(s *Shared) { s.nc.Close() },
		"paused": func(*Shared) { proxy.Hold() },
	} {
		t.Run(name, func(t *testing.T) {
			stream := freshStream()
			other := joinCluster(t, c, stream)
			node, err := Connect(t.Context(), Cluster{Servers: proxy.URL, Stream: stream}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				proxy.Release()
				if err := node.Close(); err != nil {
					t.Error(err)
				}
			})
			gone := logtest.Work(t, node, 2)
			logtest.Announce(t, other, "run_a", "run_b")
			logtest.WantRuns(t, logtest.Take(t, 2, gone), "run_a", "run_b")
			heir := logtest.Work(t, other, 2)
			leave(node)
			began := time.Now()
			logtest.WantRuns(t, logtest.Take(t, 2, heir), "run_a", "run_b")
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("handed over after %v", took)
			}
			heir.Done("run_a", "run_b")
		})
	}
}

// The queue goes on when its leader is gone, and when it was deleted.
func TestQueueWithoutItsLeader(t *testing.T) {
	c := natstest.Start(t, 3)
	stream := freshStream()
	a, b := joinCluster(t, c, stream), joinCluster(t, c, stream)
	wa, wb := logtest.Work(t, a, 1), logtest.Work(t, b, 1)
	logtest.Announce(t, a, "run_a", "run_b")
	logtest.WantRuns(t, logtest.Take(t, 2, wa, wb), "run_a", "run_b")
	leader := c.Leader(a.names.workStream())
	c.Stop(leader)
	logtest.Announce(t, b, "run_c")
	for _, w := range []*logtest.Worker{wa, wb} {
		w.Finish()
	}
	logtest.WantRuns(t, logtest.Take(t, 1, wa, wb), "run_c")
	c.Restart(leader)
	c.Ready()
	if err := a.js.DeleteStream(t.Context(), a.names.workStream()); err != nil {
		t.Fatal(err)
	}
	wa.Finish()
	wb.Finish()
	logtest.AnnounceUntilTaken(t, b, "run_d", wa, wb)
}
