package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/eventlog/logtest"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/session"
)

// nodes plays f in a world of several nodes over one store and one log, in a time that passes when
// nothing else happens. No node logs an error there but for what it says of a store that is away.
func nodes(t *testing.T, f func(t *testing.T, w *world), scripts ...[]llmtest.Step) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := logtest.NewMemory()
		t.Cleanup(func() { log.Close() })
		w := worldOn(t, log, scripts...)
		w.cfg.Sole, w.cfg.Log = false, slog.New(&complaints{t: t})
		f(t, w)
		ordered(t, log.Records())
	})
}

// ordered checks that each session's lifecycle events are in the log in their order, each once, and
// that none is missing before the last.
func ordered(t *testing.T, log []session.Record) {
	t.Helper()
	last := map[session.ID]int64{}
	for _, r := range log {
		var e session.Event
		if err := json.Unmarshal(r.Data, &e); err != nil {
			t.Fatal(err)
		}
		if r.Run != "" {
			continue
		}
		if before, known := last[r.Session]; known && e.Revision != before+1 {
			t.Errorf("%s of %s has revision %d, after %d", e.Type, r.Session, e.Revision, before)
		}
		last[r.Session] = e.Revision
	}
}

// pass lets time pass, where it does so by itself.
func pass(d time.Duration) { <-time.After(d) }

// complaints fails a test for what a node logs as an error.
type complaints struct {
	t *testing.T
	slog.Handler
}

func (c *complaints) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (c *complaints) WithAttrs([]slog.Attr) slog.Handler           { return c }
func (c *complaints) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	dead := false
	r.Attrs(func(a slog.Attr) bool {
		err, _ := a.Value.Any().(error)
		dead = dead || errors.Is(err, errDead)
		line += " " + a.String()
		return true
	})
	if !dead {
		c.t.Error("logged:", line)
	}
	return nil
}

// postOn posts a message to one node.
func (w *world) postOn(m *session.Manager, text string) session.Receipt {
	w.t.Helper()
	r, err := m.Post(w.t.Context(), session.Act{Actor: "ann"}, w.id, []llm.Part{llm.Text(text)}, session.Routing{})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// session makes one more session.
func (w *world) another() session.ID {
	w.t.Helper()
	s, err := w.m.CreateSession(w.t.Context(), "ann", session.NewSession{})
	if err != nil {
		w.t.Fatal(err)
	}
	return s.ID
}

// gate is the way of a node to store and log, which a pause shuts: what is asked for waits, and what
// has been done is not heard of.
type gate struct {
	session.Store
	session.Log
	m     *session.Manager
	after string // the write after which it shuts by itself

	mu   sync.Mutex
	open chan struct{} // closed: nothing waits
	shut chan struct{} // closed: it was shut by itself
	deaf bool          // what the log brings is lost
	away bool          // the store fails
}

// gated starts a node behind a gate.
func (w *world) gated(after string) *gate {
	w.t.Helper()
	g := &gate{Store: w.store, Log: w.log, after: after, open: make(chan struct{}), shut: make(chan struct{})}
	close(g.open)
	w.startOn(g, g)
	g.m = w.m
	w.t.Cleanup(func() { g.resume(); g.m.Close() })
	return g
}

func (g *gate) pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

func (g *gate) pass() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
}

// set changes what becomes of what is asked for.
func (g *gate) set(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// enter passes to the store, where it is there.
func (g *gate) enter() error {
	g.pass()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.away {
		return errDead
	}
	return nil
}

func (g *gate) Close() error { return nil }

func (g *gate) View(ctx context.Context, f func(tx session.ReadTx) error) error {
	if err := g.enter(); err != nil {
		return err
	}
	defer g.pass()
	return g.Store.View(ctx, f)
}

func (g *gate) Update(ctx context.Context, d session.Durability, f func(tx session.Tx) error) error {
	if err := g.enter(); err != nil {
		return err
	}
	defer g.pass()
	var ops []string
	err := g.Store.Update(ctx, d, func(tx session.Tx) error {
		ops = nil
		return f(telltale{tx, &ops})
	})
	for _, op := range ops {
		if op == g.after && err == nil {
			g.pause()
			close(g.shut)
			g.after = ""
		}
	}
	return err
}

func (g *gate) Publish(ctx context.Context, s session.ID, id string, data []byte) error {
	g.pass()
	defer g.pass()
	return g.Log.Publish(ctx, s, id, data)
}

func (g *gate) Follow(ctx context.Context, f func(session.Record) error, caughtUp func()) error {
	return g.Log.Follow(ctx, func(r session.Record) error {
		g.pass()
		g.mu.Lock()
		deaf := g.deaf
		g.mu.Unlock()
		if deaf {
			return nil
		}
		return f(r)
	}, caughtUp)
}

func (g *gate) Claim(ctx context.Context, s session.ID, r session.RunID, generation int64) (session.Writer, error) {
	g.pass()
	w, err := g.Log.Claim(ctx, s, r, generation)
	g.pass()
	return gateWriter{w, g}, err
}

type gateWriter struct {
	session.Writer
	g *gate
}

func (w gateWriter) Append(ctx context.Context, data []byte) error {
	w.g.pass()
	defer w.g.pass()
	return w.Writer.Append(ctx, data)
}

// closes closes a manager, and expects that nothing is left there which would have to be waited for.
func (w *world) closes(m *session.Manager) {
	w.t.Helper()
	began := time.Now()
	if err := m.Close(); err != nil {
		w.t.Error(err)
	}
	if took := time.Since(began); took > 0 {
		w.t.Errorf("the node took %v to stop", took)
	}
}
