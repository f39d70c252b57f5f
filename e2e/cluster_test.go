package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reprise-run/reprise/eventlog/natstest"
	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/internal/pgtest"
	"github.com/reprise-run/reprise/session"
)

// cluster is nodes on one database and one event log, behind a balancer.
type cluster struct {
	t     testing.TB
	nodes []*server
	front *front
	db    *pgtest.Server
	nats  *natstest.Cluster
	api   client.Client // of whichever node
}

// serveCluster starts three NATS servers in this process, a Postgres and the nodes.
func serveCluster(t testing.TB, nodes int, config string) *cluster {
	t.Helper()
	const token = "of-every-node"
	c := &cluster{t: t, db: pgtest.Start(t), nats: natstest.Start(t, 3)}
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, fmt.Appendf(nil, "load %x\n", sha256.Sum256([]byte(token))), 0o600); err != nil {
		t.Fatal(err)
	}
	config += fmt.Sprintf("\ndatabase: %s\nevents: %s\nauth: {tokens_file: %s}\n", c.db.NewDatabase(t), c.nats.URL(), tokens)
	var addresses []string
	for range nodes {
		s := serve(t, config)
		s.proc.mayFail = true // what it depends on is taken away
		c.nodes = append(c.nodes, s)
		addresses = append(addresses, strings.TrimPrefix(s.Base, "http://"))
	}
	c.front = newFront(t, addresses...)
	// Every request goes to another node.
	transport := &http.Transport{DisableKeepAlives: true}
	c.api = client.Client{Base: c.front.URL, Token: token, HTTP: &http.Client{Transport: transport}}
	return c
}

// again starts a node where it was.
func (c *cluster) again(n int) {
	s := c.nodes[n]
	s.listen(strings.TrimPrefix(s.Base, "http://"))
	s.proc.mayFail = true
}

// disaster is something that befalls a cluster under load.
type disaster struct {
	name string
	// does it, and returns when it is over.
	does func(c *cluster, random *rand.Rand)
	// bounded: runs change their node, within the bounds of a takeover.
	bounded bool
}

// pass lets a time go by under load: it is part of what happens.
func pass(d time.Duration) { <-time.After(d) }

var disasters = []disaster{
	{name: "a node is killed", bounded: true, does: func(c *cluster, random *rand.Rand) {
		n := random.IntN(len(c.nodes))
		c.nodes[n].proc.kill()
		pass(7 * time.Second)
		c.again(n)
	}},
	{name: "a node is paused and wakes up", bounded: true, does: func(c *cluster, random *rand.Rand) {
		n := random.IntN(len(c.nodes))
		c.nodes[n].proc.signal(syscall.SIGSTOP)
		pass(10 * time.Second)
		c.nodes[n].proc.signal(syscall.SIGCONT)
	}},
	{name: "the stream's leader dies", does: func(c *cluster, _ *rand.Rand) {
		n := c.nats.Leader("reprise")
		c.nats.Stop(n)
		pass(5 * time.Second)
		c.nats.Restart(n)
		c.nats.Ready()
	}},
	{name: "the database is started again", does: func(c *cluster, _ *rand.Rand) {
		c.db.Restart(c.t)
	}},
	{name: "each node is started again", does: func(c *cluster, _ *rand.Rand) {
		for n := range c.nodes {
			c.nodes[n].stop()
			c.again(n)
		}
	}},
}

// Sixty conversations at a time, at three nodes on one Postgres and three NATS servers, while one
// after the other of these fails: what was shown is shown once and kept, no tool runs twice, no run
// is stuck, every cancel counts, and the runs of a node that is gone go on at another one. K-191,
// K-195, N70.
func TestCluster(t *testing.T) {
	t.Logf("go test ./e2e -run TestCluster -seed %d", *seed)
	const sessions = 60
	up := newUpstream(t, soakScripts()...)
	c := serveCluster(t, 3, up.config("good", soakConfig(sessions)))
	times := newCourses()
	defer times.log(t)
	over, stop := context.WithCancel(t.Context())
	defer stop()
	l := soakLoad(t, over, c.api, sessions, times)
	random := rand.New(rand.NewPCG(*seed, 0))
	began := make([]time.Time, len(disasters)+1)
	for i, d := range disasters {
		pass(3 * time.Second)
		if t.Failed() {
			break
		}
		began[i] = time.Now()
		d.does(c, random)
		t.Logf("%s: over after %s", d.name, time.Since(began[i]).Round(time.Millisecond))
		pass(4 * time.Second)
	}
	began[len(disasters)] = time.Now()
	stop()
	l.workers.Wait()
	t.Logf("%d conversations: %v", len(l.all), l.ends)
	if t.Failed() {
		return
	}
	for i, d := range disasters {
		taken := l.takeovers(began[i], began[i+1])
		if len(taken) == 0 {
			t.Logf("%s: no run has changed its node", d.name)
			continue
		}
		slices.Sort(taken)
		median, longest := taken[len(taken)/2], taken[len(taken)-1]
		t.Logf("%s: %d runs were taken over, after %s at the median, %s at most", d.name, len(taken), median, longest)
		if d.bounded && (median > 5*time.Second || longest > 10*time.Second) {
			t.Errorf("%s: runs waited for %s at the median and %s at most", d.name, median, longest)
		}
	}
	l.judge(&server{Client: &c.api, t: t}, up)
}

// takeovers are the times from a moment until each run that another node took over, before the
// next disaster, was claimed again.
func (l *load) takeovers(from, until time.Time) (took []time.Duration) {
	for _, c := range l.all {
		claims := map[session.RunID]session.Run{}
		for i := range c.o.events {
			r := c.o.events[i].Run
			if r == nil || r.State != session.Running {
				continue
			}
			was, known := claims[r.ID]
			claims[r.ID] = *r
			at := c.o.events[i].At.Std()
			if known && r.Claims > was.Claims && at.After(from) && at.Before(until) {
				took = append(took, at.Sub(from))
			}
		}
	}
	return took
}
