//go:build unix

package eventlog

import (
	"testing"
	"time"

	"github.com/reprise-run/reprise/eventlog/natstest"
)

// The stream's leader is killed, and another one is paused until it has a successor, wakes, and answers as if it were the leader; then
// all are killed at once. Three nodes write and follow meanwhile.
func TestServersAreKilled(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	c := natstest.StartProcesses(t, 3)
	var logs []*Shared
	for range 3 {
		log, err := Connect(t.Context(), Cluster{Servers: c.URL(), Stream: "log", Replicas: 3}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeLog(t, log) })
		logs = append(logs, log)
	}
	leader := func() int {
		for {
			st, err := logs[0].standing(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if st.Cluster != nil && st.Cluster.Leader != "" {
				return c.Index(st.Cluster.Leader)
			}
		}
	}
	incarnation := logs[0].Incarnation()
	b := startBusy(t, logs...)
	b.more(50)
	on := func(what string, n int) {
		t.Helper()
		began := time.Now()
		b.more(n)
		t.Logf("%s: all had gone on after %v", what, time.Since(began))
	}

	first := leader()
	c.Kill(first)
	on("killed", 20)
	c.Restart(first)
	b.more(20)

	second := leader()
	c.Pause(second)
	on("paused", 20)
	c.Resume(second)
	on("resumed", 100)

	for i := range 3 {
		c.Kill(i)
	}
	for i := range 3 {
		c.Restart(i)
	}
	on("all killed", 50)
	b.finish()
	if logs[0].Incarnation() != incarnation {
		t.Error("the incarnation is another one")
	}
}
