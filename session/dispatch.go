package session

import (
	"context"
	"fmt"
	"time"
)

// dispatchLoop starts queued runs, oldest first, while the cap allows, and keeps this node's
// leases.
func (m *Manager) dispatchLoop() {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		if err := m.dispatch(); err != nil && m.accept.Err() == nil {
			m.cfg.Log.Error("dispatch", "error", err)
		}
		select {
		case <-m.wake:
		case <-sweep.C:
			if err := m.sweep(); err != nil && m.work.Err() == nil {
				m.cfg.Log.Error("sweep", "error", err)
			}
		case <-m.accept.Done():
			m.keepLeases()
			return
		}
	}
}

// keepLeases keeps the leases of runs that are ending, until they have.
func (m *Manager) keepLeases() {
	sweep := time.NewTicker(m.cfg.Lease / 3)
	defer sweep.Stop()
	for {
		select {
		case <-sweep.C:
			if err := m.sweep(); err != nil {
				m.cfg.Log.Error("sweep", "error", err)
			}
		case <-m.work.Done():
			return
		}
	}
}

// sweep keeps the leases of this node's runs, and queues the runs again whose owner has let its
// lease end.
func (m *Manager) sweep() error {
	now := time.Now()
	if err := m.purge(now); err != nil {
		return err
	}
	if !m.cfg.Sole {
		if err := m.releaseOrphans(m.work); err != nil {
			return err
		}
	}
	return m.update(m.work, Soft, func(tx Tx) error {
		if err := tx.ExtendLeases(m.owner, At(now.Add(m.cfg.Lease))); err != nil {
			return err
		}
		return tx.Prune(At(now.Add(-keepAnswer)))
	})
}

// claimAtOnce bounds the runs that are claimed in one transaction.
const claimAtOnce = 32

// dispatch starts as many queued runs as the cap leaves room for.
func (m *Manager) dispatch() error {
	for m.accept.Err() == nil {
		var runs []Run
		_, durability := m.asked(Soft, HookRunStarted)
		err := m.update(m.accept, durability, func(tx Tx) (err error) {
			runs, err = m.claim(tx)
			return err
		})
		if err != nil {
			return err
		}
		for _, r := range runs {
			m.start(r)
		}
		if len(runs) < claimAtOnce {
			return nil
		}
	}
	return nil
}

// claim takes the oldest queued runs for this node, as many as there is room for; after the
// commit each is to be started. What finds no slot is left to the operator, where the
// configuration says so.
func (m *Manager) claim(tx Tx) (claimed []Run, err error) {
	running, _, err := tx.CountRuns()
	if err != nil {
		return nil, err
	}
	room := min(max(m.cfg.ConcurrentRuns-running, 0), claimAtOnce)
	limit := max(room, 1) // what was asked to stop needs no slot
	if m.cfg.OperatorStarts {
		limit = 0
	}
	queued, err := tx.QueuedRuns(limit)
	if err != nil {
		return nil, err
	}
	for _, r := range queued {
		switch {
		case len(claimed) < room || r.CancelRequested && len(claimed) < claimAtOnce:
			if r, err = m.claimRun(tx, r); err != nil {
				return nil, fmt.Errorf("claim run %s of session %s: %w", r.ID, r.SessionID, err)
			}
			claimed = append(claimed, r)
		case room < claimAtOnce && m.cfg.OperatorStarts:
			if err := park(tx, r); err != nil {
				return nil, err
			}
		}
	}
	return claimed, nil
}

// claimRun takes a queued run for this node under a new generation.
func (m *Manager) claimRun(tx Tx, r Run) (Run, error) {
	if _, _, err := Next(Status{Run: r.State, Stopping: r.CancelRequested}, MoveClaim); err != nil {
		return r, err
	}
	now, generation := time.Now(), r.Generation
	r.State, r.Owner, r.LeaseUntil = Running, m.owner, At(now.Add(m.cfg.Lease))
	r.Generation++
	r.Claims++
	if r.StartedAt == 0 {
		r.StartedAt = At(now)
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
		running, _, err := tx.CountRuns()
		if err != nil {
			return err
		}
		if running >= m.cfg.ConcurrentRuns {
			return &Refusal{Code: CodeRateLimited, Message: "No slot is free. Stop a run, or wait for one to end.",
				Details: map[string]any{"resource": "concurrent_runs", "limit": m.cfg.ConcurrentRuns, "count": running}}
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
	m.active[r.ID] = cancel
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
		kick(m.quiet)
		kick(m.counts)
		kick(m.clock)
		kick(m.wake)
		m.runs.Done()
	}, true
}

func (m *Manager) carryOut(ctx context.Context, x *execution) {
	if err := x.do(ctx); err != nil {
		m.cfg.Log.Error("run", "session", x.run.SessionID, "run", x.run.ID, "error", err)
	}
}
