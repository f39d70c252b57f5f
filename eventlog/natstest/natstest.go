// Package natstest starts NATS clusters with JetStream: real servers on ports of loopback,
// which any process reaches by URL, with their stores in the test's temporary folder. [Start] runs them inside the test's process, where they are
// quick to start and stop in order; [StartProcesses] runs each in one of its own, to be killed or paused.
//
// A server can be stopped and started again, on the same port and with what it had stored. The test's end stops
// them all. Methods are for the test's goroutine; they fail the test where a cluster does not come up.
package natstest

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// patience bounds the wait for a cluster.
const patience = 30 * time.Second

// Cluster is some servers, which are counted from 0.
type Cluster struct {
	t       testing.TB
	servers []*server.Server
	options []*server.Options
}

// Start starts n servers, three of which make a cluster that has a replica to lose; one alone is not a cluster. edit may
// change a server's options before it starts: limits, users, TLS.
func Start(t testing.TB, n int, edit ...func(*server.Options)) *Cluster {
	t.Helper()
	dir, ports := t.TempDir(), freePorts(t, 2*n)
	c := &Cluster{t: t, servers: make([]*server.Server, n)}
	for i := range n {
		o := place{dir, ports, i}.options()
		for _, f := range edit {
			f(o)
		}
		c.options = append(c.options, o)
	}
	t.Cleanup(func() {
		for i := range c.servers {
			c.Stop(i)
		}
	})
	for i := range n {
		c.Restart(i)
	}
	c.Ready()
	return c
}

// options are those of a server that waits for nobody.
func (p place) options() *server.Options {
	n := len(p.Ports) / 2
	o := &server.Options{
		ServerName: fmt.Sprintf("n%d", p.Index), Host: "127.0.0.1", Port: p.Ports[p.Index],
		JetStream: true, StoreDir: filepath.Join(p.Dir, fmt.Sprint(p.Index)),
		JetStreamMaxStore: 1 << 50, JetStreamMaxMemory: 256 << 20,
		NoLog: true, NoSigs: true, DisableJetStreamBanner: true,
		// A client is told to go elsewhere at once.
		LameDuckDuration: time.Millisecond, LameDuckGracePeriod: time.Nanosecond,
	}
	if n > 1 {
		o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: p.Ports[n+p.Index]}
		for _, port := range p.Ports[n:] {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
		}
	}
	return o
}

// freePorts finds ports that nobody uses.
func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// URL names every server.
func (c *Cluster) URL() string {
	var list []string
	for i := range c.options {
		list = append(list, c.Server(i))
	}
	return strings.Join(list, ",")
}

// Server is the URL of one.
func (c *Cluster) Server(i int) string {
	return fmt.Sprintf("nats://127.0.0.1:%d", c.options[i].Port)
}

// Stop stops a server, which drops its connections. One that is stopped stays so.
func (c *Cluster) Stop(i int) {
	if s := c.servers[i]; s != nil {
		s.Shutdown()
		s.WaitForShutdown()
		c.servers[i] = nil
	}
}

// Restart starts a server that was stopped, with what it had stored.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	if c.servers[i] != nil {
		return
	}
	o := c.options[i].Clone()
	s, err := server.NewServer(o)
	if err != nil {
		c.t.Fatalf("NATS server %d: %v", i, err)
	}
	c.servers[i] = s
	s.Start()
	if !s.ReadyForConnections(patience) {
		c.t.Fatalf("NATS server %d does not start", i)
	}
}

// Ready waits until the servers that run have a leader among them and all know it.
func (c *Cluster) Ready() {
	c.t.Helper()
	c.until("a leader", func() bool {
		leaders := 0
		for _, s := range c.servers {
			switch {
			case s == nil:
			case len(c.servers) > 1 && !s.JetStreamIsCurrent():
				return false
			case len(c.servers) == 1 || s.JetStreamIsLeader():
				leaders++
			}
		}
		return leaders == 1
	})
}

// Leader waits until a stream of the default account has a leader, and returns which server it is.
func (c *Cluster) Leader(stream string) (leader int) {
	c.t.Helper()
	c.until("a leader of stream "+stream, func() bool {
		for i, s := range c.servers {
			if s != nil && s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
				leader = i
				return true
			}
		}
		return false
	})
	return leader
}

func (c *Cluster) until(what string, there func() bool) {
	c.t.Helper()
	for end := time.Now().Add(patience); !there(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("the NATS cluster has no %s after %s", strings.TrimPrefix(what, "a "), patience)
		}
	}
}
