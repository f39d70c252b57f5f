// Package pipe is a network inside the process: a listener whose connections are pipes in memory. A
// server that nobody else may reach is reached by it, and in a test's bubble its time is the test's.
//
// It promises: a dial ends when its connection was accepted, the listener is closed, or its context
// is done; closing ends Accept, and no connection. It refuses to buffer: a write waits for its
// reader.
package pipe

import (
	"context"
	"net"
	"sync"
)

// Listener is a net.Listener, and the way to it. It is safe for concurrent use.
type Listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

var _ net.Listener = (*Listener)(nil)

// Listen makes a listener. In a bubble it is to be made there.
func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// Dial connects to the listener, whatever the address. It fails with net.ErrClosed, or the context's
// cause.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Closing twice is fine.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
