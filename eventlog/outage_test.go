package eventlog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/reprise-run/reprise/eventlog/logtest"
	"github.com/reprise-run/reprise/eventlog/natstest"
	"github.com/reprise-run/reprise/session"
)

// A busy is some nodes on one stream: each follows all of it, and writes a run of its own and events until it is stopped.
type busy struct {
	t         *testing.T
	logs      []*Shared
	followers []*logtest.Follower
	stop      chan struct{}
	writing   sync.WaitGroup
	mu        sync.Mutex
	wrote     map[string]int // acknowledged, by run or session
}

func startBusy(t *testing.T, logs ...*Shared) *busy {
	b := &busy{t: t, logs: logs, stop: make(chan struct{}), wrote: map[string]int{}}
	for i, log := range logs {
		b.followers = append(b.followers, logtest.Follow(t, log))
		run, ses := session.RunID(fmt.Sprint("run_", i)), session.ID(fmt.Sprint("ses_", i))
		w := logtest.Claim(t, log, run, 1) // of session ses_a
		b.write(string(run), func(text string) error { return w.Append(context.Background(), []byte(text)) })
		b.write(string(ses), func(text string) error {
			return log.Publish(context.Background(), ses, fmt.Sprint(ses, "-", text), []byte(text))
		})
	}
	return b
}

func (b *busy) write(name string, f func(text string) error) {
	b.writing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-b.stop:
				return
			default:
			}
			if err := f(fmt.Sprint(i)); err != nil {
				b.t.Errorf("%s %d: %v", name, i, err)
				return
			}
			b.mu.Lock()
			b.wrote[name]++
			b.mu.Unlock()
		}
	})
}

// more waits until every writer has come n further.
func (b *busy) more(n int) {
	b.t.Helper()
	b.mu.Lock()
	goal := maps.Clone(b.wrote)
	b.mu.Unlock()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	patience := time.After(time.Minute)
	for behind := 1; behind > 0; {
		select {
		case <-poll.C:
		case <-patience:
			b.t.Fatalf("%d writers do not go on", behind)
		}
		b.mu.Lock()
		behind = 2*len(b.logs) - len(b.wrote)
		for name, is := range b.wrote {
			if is < goal[name]+n {
				behind++
			}
		}
		b.mu.Unlock()
	}
}

// finish stops the writers and checks that each follower has what was acknowledged, once and in order.
func (b *busy) finish() {
	b.t.Helper()
	close(b.stop)
	b.writing.Wait()
	total, want := 0, map[string][]string{}
	for name, n := range b.wrote {
		total += n
		for i := range n {
			want[name] = append(want[name], fmt.Sprint(i))
		}
	}
	b.t.Logf("%d records", total)
	var first []string
	for i, fo := range b.followers {
		all := fo.Take(b.t, total)
		got := map[string][]string{}
		for _, text := range all {
			var name, data string
			if _, err := fmt.Sscan(text, &name, &data); err != nil {
				b.t.Fatal(err)
			}
			got[name] = append(got[name], data)
		}
		for name := range want {
			if !slices.Equal(got[name], want[name]) {
				b.t.Errorf("follower %d has of %s:\n got %v\nwant %v", i, name, got[name], want[name])
			}
		}
		if first == nil {
			first = all
		} else if !slices.Equal(all, first) {
			b.t.Errorf("followers 0 and %d saw different orders", i)
		}
	}
	for i, log := range b.logs {
		run := session.RunID(fmt.Sprint("run_", i))
		for j := range b.logs {
			var out []string
			for r, err := range b.logs[j].Output(b.t.Context(), "ses_a", run) {
				if err != nil {
					b.t.Fatal(err)
				}
				out = append(out, string(r.Data))
			}
			if !slices.Equal(out, want[string(run)]) {
				b.t.Errorf("node %d reads %d records of %s, want %d", j, len(out), run, len(want[string(run)]))
			}
		}
		if err := log.Ready(b.t.Context()); err != nil {
			b.t.Error(err)
		}
	}
}

func threeNodes(t *testing.T, c *natstest.Cluster) []*Shared {
	stream := freshStream()
	return []*Shared{joinCluster(t, c, stream), joinCluster(t, c, stream), joinCluster(t, c, stream)}
}

// Each server in turn is stopped and comes back while three nodes write and follow: the stream's leader, the cluster's, and
// those that clients and consumers are at.
func TestServersComeAndGo(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	c := natstest.Start(t, 3)
	logs := threeNodes(t, c)
	b := startBusy(t, logs...)
	b.more(200)
	for range 2 {
		leader := c.Leader(logs[0].names.stream)
		c.Stop(leader)
		b.more(50)
		c.Restart(leader)
		c.Ready()
		b.more(50)
	}
	for i := range 3 {
		c.Stop(i)
		b.more(20)
		c.Restart(i)
		c.Ready()
	}
	b.more(50)
	b.finish()
}

// While all servers are away nothing is accepted, and nothing is lost; then all goes on.
func TestAllServersAway(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	c := natstest.Start(t, 3)
	logs := threeNodes(t, c)
	before := logs[0].Incarnation()
	b := startBusy(t, logs...)
	b.more(100)
	for i := range 3 {
		c.Stop(i)
	}
	for _, log := range logs {
		if err := log.Ready(t.Context()); !errors.Is(err, session.ErrUnavailable) {
			t.Errorf("Ready without servers: %v", err)
		}
	}
	for i := range 3 {
		c.Restart(i)
	}
	c.Ready()
	b.more(100)
	b.finish()
	for _, log := range append(logs, joinCluster(t, c, logs[0].names.stream)) {
		if log.Incarnation() != before {
			t.Error("a restart of the servers changed the incarnation")
		}
	}
}

// What was given up is not sent later: a client without a connection keeps nothing, and what was on its way then arrives behind a newer
// generation.
func TestNothingIsSentLate(t *testing.T) {
	c := natstest.Start(t, 1)
	proxy := c.Proxy(0)
	node, err := Connect(t.Context(), Cluster{Servers: proxy.URL, Stream: "log"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLog(t, node) })
	other := joinCluster(t, c, "log")
	giveUp := func(w session.Writer, text string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := w.Append(ctx, []byte(text)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Append: %v", err)
		}
	}

	old := logtest.Claim(t, node, "run_a", 1)
	logtest.Append(t, old, "1")
	proxy.Hold()
	giveUp(old, "late")
	logtest.Append(t, logtest.Claim(t, other, "run_a", 2), "2")
	proxy.Release()
	if err := old.Append(t.Context(), []byte("3")); !errors.Is(err, session.ErrFenced) {
		t.Errorf("the older writer: %v", err)
	}
	logtest.Want(t, "output", logtest.Output(t, other, "run_a"), "1", "2")

	w := logtest.Claim(t, node, "run_b", 1)
	c.Stop(0)
	gone := node.nc.StatusChanged(nats.RECONNECTING)
	if node.nc.IsConnected() {
		<-gone
	}
	giveUp(w, "never")
	c.Restart(0)
	logtest.Append(t, logtest.Claim(t, node, "run_c", 1), "1") // once connected, what was kept would go first
	logtest.Want(t, "output", logtest.Output(t, other, "run_b"))
	logtest.Append(t, w, "1")
	logtest.Want(t, "output", logtest.Output(t, other, "run_b"), "1")
}

// A connection that falls silent, as that to a server that is paused, is given up for one to another server. What was awaited is asked for
// again at once.
func TestSilentConnection(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	c := natstest.Start(t, 3)
	proxy := c.Proxy(0)
	node, err := Connect(t.Context(), Cluster{Servers: proxy.URL, Stream: "log"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLog(t, node) })
	b := startBusy(t, node, joinCluster(t, c, "log"))
	b.more(50)
	began := time.Now()
	proxy.Hold()
	b.more(50)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("went on after %v", took)
	}
	b.finish()
}
