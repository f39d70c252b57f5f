package server

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/eventlog/natstest"
	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// A server works with its event log on a NATS cluster. While that is away it says so and begins nothing; a run
// that is under way waits, and all goes on when the cluster is back.
func TestEventsOnNATS(t *testing.T) {
	nats := natstest.Start(t, 3)
	cfg := configOf(t, "events: env:NATS_URL\nnats: {stream: test}\n")
	cfg.env["NATS_URL"] = nats.URL()
	serving(t, cfg)
	c, err := Running(cfg)
	if err != nil {
		t.Fatal(err)
	}
	own := &Connection{Client: c}
	if err := c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := post(t, own, "rehearsal/ok")
	started := errors.New("started")
	err = c.Watch(t.Context(), session.Watch{Session: id}, func(f session.Frame) error {
		if strings.Contains(string(f.Data), `"type":"output"`) {
			return started
		}
		return nil
	})
	if !errors.Is(err, started) {
		t.Fatal(err)
	}

	for i := range 3 {
		nats.Stop(i)
	}
	var refused *client.Error
	if err := c.Ready(t.Context()); !errors.As(err, &refused) || refused.Status != 503 {
		t.Errorf("ready without an event log: %v", err)
	}
	other, err := c.CreateSession(t.Context(), session.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	hello := []llm.Part{llm.Text("Hello")}
	if _, err := c.Post(t.Context(), other.ID, hello, session.Routing{}, ""); !errors.As(err, &refused) || refused.Status != 503 || refused.Code != "unavailable" {
		t.Errorf("a message without an event log: %v", err)
	}
	if rows, err := c.Messages(t.Context(), other.ID, true, 0, 0); err != nil || len(rows) != 0 {
		t.Errorf("a refused message left %d rows, %v", len(rows), err)
	}

	for i := range 3 {
		nats.Restart(i)
	}
	nats.Ready()
	ended := errors.New("ended")
	err = c.Watch(t.Context(), session.Watch{Session: id}, func(f session.Frame) error {
		s, err := c.Session(t.Context(), id)
		if err == nil && s.LastRun.State.Terminal() {
			err = ended
		}
		return err
	})
	if !errors.Is(err, ended) {
		t.Fatal(err)
	}
	if s, err := c.Session(t.Context(), id); err != nil || s.LastRun.State != session.Succeeded {
		t.Errorf("the run ended as %+v, %v", s.LastRun, err)
	}
	until(t, func() error { return c.Ready(t.Context()) })
	if _, err := c.Post(t.Context(), other.ID, hello, session.Routing{}, ""); err != nil {
		t.Error(err)
	}
}

// until repeats f until it has no error any more.
func until(t *testing.T, f func() error) {
	t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	patience := time.After(20 * time.Second)
	for err := f(); err != nil; err = f() {
		select {
		case <-poll.C:
		case <-patience:
			t.Fatal(err)
		}
	}
}

// A server that stops while the event log is away stops in time; what was not published waits in the store.
func TestStopWithoutEvents(t *testing.T) {
	nats := natstest.Start(t, 1)
	cfg := configOf(t, "events: "+nats.URL())
	_, stop := serving(t, cfg)
	c, err := Running(cfg)
	if err != nil {
		t.Fatal(err)
	}
	nats.Stop(0)
	s, err := c.CreateSession(t.Context(), session.NewSession{Title: "Late"})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("stopped after %v", took)
	}
	nats.Restart(0)
	serving(t, cfg)
	if c, err = Running(cfg); err != nil {
		t.Fatal(err)
	}
	alien := configOf(t, "events: "+nats.URL())
	if _, err := Open(t.Context(), alien, quiet()); err == nil || !strings.Contains(err.Error(), "another database") {
		t.Errorf("another database on the same stream: %v", err)
	}
	seen := errors.New("seen")
	err = c.Watch(t.Context(), session.Watch{Session: s.ID}, func(f session.Frame) error {
		if strings.Contains(string(f.Data), "Late") {
			return seen
		}
		return nil
	})
	if !errors.Is(err, seen) {
		t.Error(err)
	}
}
