package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/session"
)

// Connection is a way to the sessions of a data folder.
type Connection struct {
	*client.Client
	// Shared: another process serves them, under its own configuration.
	Shared bool
	close  func() error // nil: nothing was opened
}

// Close ends what was opened for the connection. Closing twice is fine.
func (c *Connection) Close() error {
	if c.close == nil {
		return nil
	}
	return c.close()
}

// Connect reaches the sessions of the data folder: as a client of the server that has it, or
// else by opening it in this process, where nobody else is served and no retry that waits is
// started unless o says so.
func Connect(ctx context.Context, cfg Config, o Options) (*Connection, error) {
	o.passing = true
	s, err := Open(ctx, cfg, o)
	var held *Held
	switch {
	case errors.As(err, &held) && held.URL != "":
		c, err := clientOf(cfg.Data, held.URL)
		if err != nil {
			return nil, err
		}
		return &Connection{Client: c, Shared: true}, nil
	case err != nil:
		return nil, err
	}
	c, err := clientOf(cfg.Data, "http://localhost")
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	c.HTTP = s.pipe()
	return &Connection{Client: c, close: s.Close}, nil
}

// Running returns a client of the server that has the data folder, or an error that says
// that there is none.
func Running(cfg Config) (*client.Client, error) {
	l, err := acquire(cfg.Data)
	if err == nil {
		return nil, errors.Join(fmt.Errorf("no server uses the data folder %s: start one with reprise serve", cfg.Data), l.Close())
	}
	var held *Held
	if !errors.As(err, &held) || held.URL == "" {
		return nil, err
	}
	return clientOf(cfg.Data, held.URL)
}

func clientOf(dir, url string) (*client.Client, error) {
	token, err := httpapi.LocalToken(dir)
	if err != nil {
		return nil, err
	}
	return &client.Client{Base: url, Token: token}, nil
}

// Record is what is stored of a run.
type Record struct {
	Run       session.Run        `json:"run"`
	Attempts  []session.Attempt  `json:"attempts"`
	ToolCalls []session.ToolCall `json:"tool_calls"`
	// Children are the runs of the subagents that its calls have begun, by their session.
	Children map[session.ID]Record `json:"children,omitempty"`
}

// descend adds what the calls of the run have begun: first reads the messages of a session.
func (r *Record) descend(first func(session.ID) ([]session.Message, error), inspect func(session.RunID) (Record, error)) error {
	for _, c := range r.ToolCalls {
		if c.Child == "" || c.StartedAt == 0 {
			continue
		}
		task, err := first(c.Child)
		if err != nil || len(task) == 0 {
			return err
		}
		below, err := inspect(task[0].RunID)
		if err != nil {
			return err
		}
		if r.Children == nil {
			r.Children = map[session.ID]Record{}
		}
		r.Children[c.Child] = below
	}
	return nil
}

// Inspect reads a run's record, from the server that has the data folder or from the folder
// itself. It starts nothing.
func Inspect(ctx context.Context, cfg Config, id session.RunID) (r Record, err error) {
	if cfg.unused() {
		return r, fmt.Errorf("there are no sessions in %s", cfg.Data)
	}
	l, err := acquire(cfg.Data)
	var held *Held
	switch {
	case errors.As(err, &held) && held.URL != "":
		var c *client.Client
		if c, err = clientOf(cfg.Data, held.URL); err == nil {
			r, err = InspectServer(ctx, c, id)
		}
	case err == nil:
		r, err = inspectStore(ctx, cfg, id)
		err = errors.Join(err, l.Close())
	}
	var refusal *client.Error
	if errors.Is(err, session.ErrNotFound) || errors.As(err, &refusal) && refusal.Status == http.StatusNotFound {
		err = fmt.Errorf("there is no run %s", id)
	}
	return r, err
}

// InspectServer reads a run's record from a server.
func InspectServer(ctx context.Context, c *client.Client, id session.RunID) (r Record, err error) {
	if r.Run, err = c.FindRun(ctx, id); err != nil {
		return r, err
	}
	if r.Attempts, err = c.Attempts(ctx, r.Run.SessionID, id); err != nil {
		return r, err
	}
	if r.ToolCalls, err = c.ToolCalls(ctx, r.Run.SessionID, id); err != nil {
		return r, err
	}
	return r, r.descend(
		func(id session.ID) ([]session.Message, error) { return c.Messages(ctx, id, true, 0, 1) },
		func(id session.RunID) (Record, error) { return InspectServer(ctx, c, id) })
}

func inspectStore(ctx context.Context, cfg Config, id session.RunID) (r Record, err error) {
	store, err := cfg.openStore(ctx)
	if err != nil {
		return r, err
	}
	err = store.View(ctx, func(tx session.ReadTx) (err error) {
		r, err = recordOf(tx, id)
		return err
	})
	return r, errors.Join(err, store.Close())
}

func recordOf(tx session.ReadTx, id session.RunID) (r Record, err error) {
	if r.Run, err = tx.Run(id); err != nil {
		return r, err
	}
	if r.Attempts, err = tx.Attempts(id); err != nil {
		return r, err
	}
	if r.ToolCalls, err = tx.ToolCalls(id); err != nil {
		return r, err
	}
	return r, r.descend(
		func(id session.ID) ([]session.Message, error) { return tx.Messages(id, true, 0, 1) },
		func(id session.RunID) (Record, error) { return recordOf(tx, id) })
}

// Rehearse serves the rehearsal alone until ctx is done. ready is told where, and what it
// plays.
func Rehearse(ctx context.Context, listen, scripts string, log *slog.Logger, ready func(base string, scripts []rehearsal.Script)) error {
	var own []rehearsal.Script
	if scripts != "" {
		var err error
		if own, err = ReadScripts(scripts); err != nil {
			return err
		}
	}
	upstream, err := rehearsal.New(own...)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	base := "http://" + reachable(l.Addr())
	log.Info("rehearsing", "url", base)
	ready(base, upstream.Scripts())
	return rehearsal.Serve(ctx, l, upstream)
}
