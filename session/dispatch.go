package session

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// dispatchLoop starts queued runs, oldest first, while the cap allows.
func (m *Manager) dispatchLoop() {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for least := 0; ; {
		if err := m.dispatch(least); err != nil && m.accept.Err() == nil {
			m.cfg.Log.Error("dispatch", "error", err)
		}
		select {
		case <-m.wake:
			least = int(m.freed.Swap(0))
		case <-sweep.C:
			least = claimAtOnce
			if err := m.sweep(); err != nil && m.work.Err() == nil {
				m.cfg.Log.Error("sweep", "error", err)
			}
		case <-m.accept.Done():
			return
		}
	}
}

// sweep deletes what has expired, and looks at the counts again, which other nodes change too.
func (m *Manager) sweep() error {
	now := time.Now()
	if !m.cfg.Sole {
		kick(m.counts)
	}
	if err := m.purge(now); err != nil {
		return err
	}
	return m.store.Update(m.work, Soft, func(tx Tx) error { return tx.Prune(At(now.Add(-keepAnswer))) })
}

// claimAtOnce bounds the runs that are claimed in one transaction.
const claimAtOnce = 32

// dispatch starts this node's share of the queued runs, and as many at least as the cap leaves room
// for, and announces the others.
func (m *Manager) dispatch(least int) error {
	for m.accept.Err() == nil {
		var claimed, left []Run
		_, durability := m.asked(Soft, HookRunStarted)
		err := m.update(m.accept, durability, func(tx Tx) (err error) {
			claimed, left, err = m.claim(tx, least)
			return err
		})
		if err != nil {
			return err
		}
		for _, r := range claimed {
			m.start(r)
		}
		m.announce(left...)
		if len(claimed) < claimAtOnce {
			return nil
		}
	}
	return nil
}

// claim takes the oldest queued runs for this node, as many as there is room for over all nodes: its
// share of them, and least at least. After the commit each is to be started; left are
// those that another node may start. What finds no slot is left to the operator, where the
// configuration says so.
func (m *Manager) claim(tx Tx, least int) (claimed, left []Run, err error) {
	now, err := tx.CountRuns(m.owner)
	if err != nil {
		return nil, nil, err
	}
	room := min(max(m.cfg.ConcurrentRuns-now.Running, 0), claimAtOnce)
	limit := max(room, 1) // what was asked to stop needs no slot
	if m.cfg.OperatorStarts {
		limit = 0
	}
	queued, err := tx.QueuedRuns(limit)
	if err != nil {
		return nil, nil, err
	}
	own := room
	switch {
	case m.claims.Err() != nil:
		own = 0
	case m.cfg.Queue != nil:
		own = share(now.Running, now.Own, min(room, len(queued)), int(m.nodes.Load()), least)
	}
	for _, r := range queued {
		switch {
		case len(claimed) < own || r.CancelRequested && len(claimed) < claimAtOnce:
			if r, err = m.claimRun(tx, r); err != nil {
				return nil, nil, fmt.Errorf("claim run %s of session %s: %w", r.ID, r.SessionID, err)
			}
			claimed = append(claimed, r)
		case len(claimed)+len(left) < room:
			left = append(left, r)
		case room < claimAtOnce && m.cfg.OperatorStarts:
			if err := park(tx, r); err != nil {
				return nil, nil, err
			}
		}
	}
	return claimed, left, nil
}

// claimRun takes a queued run for this node under a new generation.
func (m *Manager) claimRun(tx Tx, r Run) (Run, error) {
	if _, _, err := Next(Status{Run: r.State, Stopping: r.CancelRequested}, MoveClaim); err != nil {
		return r, err
	}
	generation := r.Generation
	r.State, r.Owner = Running, m.owner
	r.Generation++
	r.Claims++
	if r.StartedAt == 0 {
		r.StartedAt = At(time.Now())
	}
	if err := tx.PutRun(r, Queued, generation); err != nil {
		return r, err
	}
	if r.Claims == 1 {
		if err := noteRun(tx, HookRunStarted, &r, r.Steps); err != nil {
			return r, err
		}
	}
	return r, emitRun(tx, r)
}

func park(tx Tx, r Run) error {
	r.Parked = true
	if err := tx.PutRun(r, Queued, r.Generation); err != nil {
		return err
	}
	return emitRun(tx, r)
}

// StartRun lets a parked run start as soon as a slot is free. Where none is, it is parked
// again.
func (m *Manager) StartRun(ctx context.Context, actor string, id ID, rid RunID) (r Run, err error) {
	err = m.update(ctx, Full, func(tx Tx) error {
		if r, err = tx.Run(rid); err != nil {
			return err
		}
		if r.SessionID != id {
			return ErrNotFound
		}
		if r.State != Queued || !r.Parked {
			return &Refusal{Code: CodeConflict, Message: fmt.Sprintf("The run is %s: it does not wait to be started.", r.State)}
		}
		now, err := tx.CountRuns(m.owner)
		if err != nil {
			return err
		}
		if now.Running >= m.cfg.ConcurrentRuns {
			return &Refusal{Code: CodeRateLimited, Message: "No slot is free. Stop a run, or wait for one to end.",
				Details: map[string]any{"resource": "concurrent_runs", "limit": m.cfg.ConcurrentRuns, "count": now.Running}}
		}
		r.Parked = false
		if err := tx.PutRun(r, Queued, r.Generation); err != nil {
			return err
		}
		if err := audit(tx, actor, "start run", id, rid, ""); err != nil {
			return err
		}
		return emitRun(tx, r)
	})
	if err == nil {
		kick(m.wake)
	}
	return r, err
}

// start runs a claimed run in a goroutine of its own.
func (m *Manager) start(r Run) {
	if ctx, leave, ok := m.enter(m.work, r); ok {
		go func() {
			defer leave()
			m.carryOut(ctx, &execution{m: m, run: r})
		}()
	}
}

// execute runs a claimed run as a part of another one, whose context is ctx. It reports whether it
// could.
func (m *Manager) execute(ctx context.Context, x *execution) bool {
	ctx, leave, ok := m.enter(ctx, x.run)
	if ok {
		defer leave()
		m.carryOut(ctx, x)
	}
	return ok
}

// activity is the work on a run that is active here.
type activity struct {
	cancel     context.CancelCauseFunc
	generation int64
}

// enter makes a claimed run one that is active here, until leave is called. A manager that is
// closed already leaves it to the next one, which finds an orphan.
func (m *Manager) enter(parent context.Context, r Run) (ctx context.Context, leave func(), ok bool) {
	ctx, cancel := context.WithCancelCause(parent)
	m.mu.Lock()
	if m.ended {
		m.mu.Unlock()
		cancel(nil)
		m.tell(func(o Observer) { o.Left(r) })
		return ctx, nil, false
	}
	m.active[r.ID] = activity{cancel, r.Generation}
	if r.CancelRequested {
		cancel(errStopped)
	}
	m.runs.Add(1)
	m.mu.Unlock()
	kick(m.counts)
	return ctx, func() {
		m.mu.Lock()
		delete(m.active, r.ID)
		m.mu.Unlock()
		cancel(nil)
		m.tell(func(o Observer) { o.Left(r) })
		if r.Parent == "" {
			m.freed.Add(1)
		}
		kick(m.quiet)
		kick(m.counts)
		kick(m.clock)
		kick(m.wake)
		m.runs.Done()
	}, true
}

func (m *Manager) carryOut(ctx context.Context, x *execution) {
	switch err := x.do(ctx); {
	case errors.Is(err, errLostRun):
		m.cfg.Log.Info("another node has the run now", "session", x.run.SessionID, "run", x.run.ID)
	case err != nil:
		m.cfg.Log.Error("run", "session", x.run.SessionID, "run", x.run.ID, "error", err)
	}
}
