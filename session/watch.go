package session

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// silence is how long an observer hears nothing; then it is told so.
const silence = 15 * time.Second

// viewerLease is how long a viewer counts that has let go of its stream.
const viewerLease = 150 * time.Second

// AddViewer lets a viewer count for a while that has let go of its stream: a hidden tab renews
// it every half minute.
func (m *Manager) AddViewer(ctx context.Context, id ID, viewer string) error {
	if _, err := m.Session(ctx, id); err != nil {
		return err
	}
	err := m.store.Update(ctx, Soft, func(tx Tx) error {
		return tx.PutViewer(Viewer{SessionID: id, Viewer: viewer, Until: At(time.Now().Add(viewerLease))})
	})
	kick(m.clock)
	return err
}

// RemoveViewer ends a viewer's lease. There need not be one.
func (m *Manager) RemoveViewer(ctx context.Context, id ID, viewer string) error {
	return m.store.Update(ctx, Soft, func(tx Tx) error { return tx.DeleteViewer(id, viewer) })
}

// listed bounds the sessions of a snapshot: those that changed last. The others are read with
// Manager.Sessions.
const listed = 500

// Watch says what to observe: always the list of sessions, and one session in full where
// Session is set. After is the ID of the last frame that the observer has seen; empty: none.
type Watch struct {
	Session ID
	After   string
}

// Watch gives f what happens from now on, or from after w.After on, until ctx is done or f
// fails. It begins with a snapshot unless it could go on after w.After; an observer that is
// too slow gets a new one. f is called by one goroutine, with what has happened since it
// returned, or with no frames after 15 s in which nothing did. The frames are shared: f must
// not change them. It does not keep the slice.
func (m *Manager) Watch(ctx context.Context, w Watch, f func([]*Frame) error) error {
	if !m.cfg.Sole {
		m.hub.reach(ctx, w.After)
	}
	for {
		sub, missed, ok := m.hub.resume(w.Session, w.After)
		if !ok {
			var err error
			var first *Frame
			if sub, first, err = m.begin(ctx, w.Session); err != nil {
				return err
			}
			missed = []*Frame{first}
		}
		if w.Session != "" { // a viewer has come
			kick(m.clock)
			m.presence()
		}
		err := m.observe(ctx, sub, missed, f)
		if err != nil {
			return err
		}
		w.After = ""
	}
}

// observe returns nil when the observer was too slow.
func (m *Manager) observe(ctx context.Context, sub *subscriber, frames []*Frame, f func([]*Frame) error) error {
	defer m.presence()
	defer m.hub.remove(sub)
	// A timer that wakes costs less than one to wait for.
	last, quiet := time.Now(), time.AfterFunc(silence, func() { kick(sub.ready) })
	defer quiet.Stop()
	for {
		if len(frames) > 0 || time.Since(last) >= silence {
			if err := f(frames); err != nil {
				return err
			}
			last = time.Now()
			quiet.Reset(silence)
		}
		select {
		case <-sub.ready:
		case <-m.accept.Done():
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		var lost bool
		if frames, lost = sub.take(); lost {
			return nil
		}
	}
}

// presence lets the other nodes know who watches here.
func (m *Manager) presence() {
	if !m.cfg.Sole {
		kick(m.present)
	}
}

// begin subscribes, then reads the state: what happens in between comes again as an event
// with a revision that the observer has already.
func (m *Manager) begin(ctx context.Context, id ID) (*subscriber, *Frame, error) {
	sub, at, now, err := m.hub.subscribe(id)
	if err != nil {
		return nil, nil, err
	}
	snap, err := m.snapshot(ctx, id, now)
	if err != nil {
		m.hub.remove(sub)
		return nil, nil, err
	}
	e := Event{Type: EventSnapshot, SessionID: id, At: At(time.Now()), Snapshot: snap}
	if snap.Session != nil {
		e.Revision = snap.Session.Revision
	}
	data, err := json.Marshal(e)
	if err != nil {
		m.hub.remove(sub)
		return nil, nil, fmt.Errorf("encode the snapshot: %w", err)
	}
	return sub, &Frame{ID: at, Data: data}, nil
}

func (m *Manager) snapshot(ctx context.Context, id ID, now standing) (*Snapshot, error) {
	o, err := m.overview(ctx)
	snap := &Snapshot{System: o.system, Sessions: o.sessions}
	if err != nil || id == "" {
		return snap, err
	}
	err = m.store.View(ctx, func(tx ReadTx) (err error) {
		s, err := tx.Session(id)
		if err != nil {
			return err
		}
		snap.Session = &s
		snap.Sessions = slices.Clone(o.sessions)
		for i := range snap.Sessions { // what came in between is not told again of a revision that is here
			if snap.Sessions[i].ID == id {
				snap.Sessions[i] = s
			}
		}
		if snap.Messages, err = tx.Messages(id, false, 0, 0); err != nil {
			return err
		}
		if err := spendOf(tx, id, snap.Messages); err != nil {
			return err
		}
		if snap.Children, err = tx.Children(id); err != nil {
			return err
		}
		if snap.Pending, err = tx.Pending(id); err != nil || s.LastRun == nil {
			return err
		}
		if snap.Attempts, err = tx.Attempts(s.LastRun.ID); err != nil {
			return err
		}
		if snap.ToolCalls, err = tx.ToolCalls(s.LastRun.ID); err != nil {
			return err
		}
		if o := now.output; o != nil && o.RunID == s.LastRun.ID && outputsOf(snap.Messages, *s.LastRun) == o.Step {
			snap.Output = o
		}
		if p := now.held; p != nil && p.RunID == s.LastRun.ID && !s.LastRun.State.Terminal() {
			snap.Progress = p
		}
		for _, p := range now.tools {
			if p.RunID == s.LastRun.ID && !s.LastRun.State.Terminal() {
				snap.ToolProgress = append(snap.ToolProgress, p)
			}
		}
		return nil
	})
	return snap, err
}
