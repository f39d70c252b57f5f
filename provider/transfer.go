package provider

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/reprise-run/reprise/llm"
)

// transfer is a request's body on its way out: it can be read once, asks before it begins,
// and knows whether all of it was handed over.
type transfer struct {
	data  []byte
	ask   func() error
	once  sync.Once
	no    atomic.Pointer[error] // what ask answered, if it refused
	next  int
	whole atomic.Bool
}

// permit asks, the first time, and repeats the answer.
func (t *transfer) permit() error {
	t.once.Do(func() {
		if err := t.ask(); err != nil {
			t.no.Store(&err)
		}
	})
	return t.refused()
}

func (t *transfer) refused() error {
	if err := t.no.Load(); err != nil {
		return *err
	}
	return nil
}

func (t *transfer) Read(b []byte) (int, error) {
	if err := t.permit(); err != nil {
		return 0, err
	}
	n := copy(b, t.data[t.next:])
	if t.next += n; t.next < len(t.data) {
		return n, nil
	}
	t.whole.Store(true)
	return n, io.EOF
}

func (t *transfer) Close() error { return nil }

// delivery is how far the request came, if nothing else is known: as long as a part of the
// body is missing, no complete request can have left.
func (t *transfer) delivery() llm.Delivery {
	if t.whole.Load() {
		return llm.MaybeAccepted
	}
	return llm.NeverSent
}

// guarded is a connection whose next write asks first. net/http writes a request's headers
// before it reads the body, so the body alone would ask too late.
type guarded struct {
	net.Conn
	ask atomic.Pointer[func() error]
}

func (c *guarded) Write(b []byte) (int, error) {
	if ask := c.ask.Swap(nil); ask != nil {
		if err := (*ask)(); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(b)
}

// guard makes the connection's next write ask. An HTTP/2 connection carries the frames of
// other requests too and is left alone.
func guard(conn net.Conn, ask func() error) {
	for {
		switch c := conn.(type) {
		case *guarded:
			c.ask.Store(&ask)
			return
		case *tls.Conn:
			if c.ConnectionState().NegotiatedProtocol == "h2" {
				return
			}
			conn = c.NetConn()
		default:
			return
		}
	}
}
