package natstest

import (
	"net"
	"sync"
)

// Proxy stands between a client and a server, and can hold what passes: then the two are as one that is paused, or far
// away, to the other.
type Proxy struct {
	URL string

	mu      sync.Mutex
	passing sync.Cond
	held    bool
	conns   []net.Conn
}

// Proxy starts one before server i. A client that knows other servers may go there instead.
func (c *Cluster) Proxy(i int) *Proxy {
	c.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	p := &Proxy{URL: "nats://" + l.Addr().String()}
	p.passing.L = &p.mu
	to := c.Server(i)[len("nats://"):]
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, near, far)
			p.mu.Unlock()
			all.Go(func() { p.pump(near, far) })
			all.Go(func() { p.pump(far, near) })
		}
	})
	c.t.Cleanup(func() {
		l.Close()
		p.Release()
		p.mu.Lock()
		for _, conn := range p.conns {
			conn.Close()
		}
		p.mu.Unlock()
		all.Wait()
	})
	return p
}

// Hold lets nothing pass any more; Release lets all of it.
func (p *Proxy) Hold() { p.hold(true) }

// Release ends Hold.
func (p *Proxy) Release() { p.hold(false) }

func (p *Proxy) hold(held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = held
	p.passing.Broadcast()
}

func (p *Proxy) pump(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		for p.held {
			p.passing.Wait()
		}
		p.mu.Unlock()
		if _, werr := to.Write(buf[:n]); werr != nil || err != nil {
			return
		}
	}
}
