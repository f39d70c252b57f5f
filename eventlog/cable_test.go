package eventlog

import (
	"bufio"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// A cable connects a journal to a server and can lose what passes. Its filters see a frame's
// first line and its payload with header, and answer whether it passes.
type cable struct {
	srv  *server.Server
	mu   sync.Mutex
	up   func(line, payload string) bool // towards the server
	down func(line, payload string) bool
	ends sync.WaitGroup
}

// InProcessConn makes the cable a nats.InProcessConnProvider.
func (c *cable) InProcessConn() (net.Conn, error) {
	far, err := c.srv.InProcessConn()
	if err != nil {
		return nil, err
	}
	near, inner := net.Pipe()
	pump := func(to, from net.Conn, filter *func(line, payload string) bool) {
		defer to.Close()
		defer from.Close()
		r := bufio.NewReader(from)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			payload := ""
			if f := strings.Fields(line); slices.Contains([]string{"PUB", "HPUB", "MSG", "HMSG"}, f[0]) {
				n, err := strconv.Atoi(f[len(f)-1])
				if err != nil {
					return
				}
				buf := make([]byte, n+2)
				if _, err := io.ReadFull(r, buf); err != nil {
					return
				}
				payload = string(buf)
			}
			c.mu.Lock()
			pass := *filter
			c.mu.Unlock()
			if payload != "" && pass != nil && !pass(line, payload) {
				continue
			}
			if _, err := io.WriteString(to, line+payload); err != nil {
				return
			}
		}
	}
	c.ends.Go(func() { pump(far, inner, &c.up) })
	c.ends.Go(func() { pump(inner, far, &c.down) })
	return near, nil
}

func (c *cable) filter(up, down func(line, payload string) bool) {
	c.mu.Lock()
	c.up, c.down = up, down
	c.mu.Unlock()
}

// lose drops the first n frames that match.
func lose(n int64, match func(line, payload string) bool) func(line, payload string) bool {
	var seen atomic.Int64
	return func(line, payload string) bool { return !match(line, payload) || seen.Add(1) > n }
}

func isAck(_, payload string) bool { return strings.HasPrefix(payload, `{"stream":"`) }

func isAppend(line, _ string) bool {
	return strings.HasPrefix(line, "HPUB out.") || strings.HasPrefix(line, "HPUB life.")
}

// joined starts a server and a journal at the end of a cable; more makes further journals there.
func joined(t *testing.T) (j *journal, c *cable, more func() *journal) {
	t.Helper()
	o := Options{Dir: t.TempDir(), AckTimeout: 20 * time.Millisecond}.withDefaults()
	srv, err := startServer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopServer(srv) })
	join := func(p nats.InProcessConnProvider) *journal {
		nc, err := nats.Connect("", nats.InProcessServer(p), nats.NoReconnect())
		if err != nil {
			t.Fatal(err)
		}
		j := newJournal(nc, namesOf("reprise", ""), o)
		if err := j.openStream(t.Context(), o, func(uint64) bool { return false }); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := j.Close(); err != nil {
				t.Error(err)
			}
		})
		return j
	}
	c = &cable{srv: srv}
	t.Cleanup(c.ends.Wait)
	return join(c), c, func() *journal { return join(srv) }
}
