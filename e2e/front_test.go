package e2e

import (
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// front is a balancer before several nodes, as an operator has one: each connection goes to one of
// the nodes that are ready, and ends when that one does not answer any more. It knows nothing of
// requests, and repeats none.
type front struct {
	URL string

	mu    sync.Mutex
	nodes map[string]*backend // by address
}

type backend struct {
	ready bool
	conns map[net.Conn]bool
}

func newFront(t testing.TB, nodes ...string) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{URL: "http://" + l.Addr().String(), nodes: map[string]*backend{}}
	over := make(chan struct{})
	var all sync.WaitGroup
	for _, address := range nodes {
		f.nodes[address] = &backend{conns: map[net.Conn]bool{}}
		f.probe(address)
		all.Go(func() {
			beat := time.NewTicker(200 * time.Millisecond)
			defer beat.Stop()
			for {
				select {
				case <-beat.C:
					f.probe(address)
				case <-over:
					return
				}
			}
		})
	}
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { f.carry(c) })
		}
	})
	t.Cleanup(func() {
		close(over)
		l.Close()
		for address := range f.nodes {
			f.drop(address)
		}
		all.Wait()
	})
	return f
}

// probe asks a node whether it takes requests. One that says no keeps its connections, one that says
// nothing for a second loses them.
func (f *front) probe(address string) {
	c := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Get("http://" + address + "/readyz")
	if err == nil {
		res.Body.Close()
	}
	f.mu.Lock()
	f.nodes[address].ready = err == nil && res.StatusCode == http.StatusOK
	f.mu.Unlock()
	if err != nil {
		f.drop(address)
	}
}

func (f *front) drop(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.nodes[address].conns {
		c.Close()
	}
}

func (f *front) carry(c net.Conn) {
	defer c.Close()
	address := f.choose()
	if address == "" {
		return
	}
	node, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return
	}
	defer node.Close()
	f.mu.Lock()
	conns := f.nodes[address].conns
	conns[node] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(conns, node)
	}()
	back := make(chan struct{})
	go func() {
		defer close(back)
		io.Copy(c, node) // either side may end it
		c.Close()
	}()
	io.Copy(node, c)
	node.Close()
	<-back
}

func (f *front) choose() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ready []string
	for address, b := range f.nodes {
		if b.ready {
			ready = append(ready, address)
		}
	}
	if len(ready) == 0 {
		return ""
	}
	return ready[rand.IntN(len(ready))]
}
