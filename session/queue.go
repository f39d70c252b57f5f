package session

import (
	"context"
	"time"
)

// Who starts a run. The node that accepts one starts it at once as long as it has no more than its
// share of all that run, so that where the load comes evenly nothing is announced and nobody waits.
// What is beyond its share it announces, and another node gets it. Whoever frees a slot fills it. What
// was announced and is still there after a sweep, any node takes.

// announceTime bounds one announcement.
const announceTime = time.Second

// share is how many of waiting runs a node starts by itself: as many as make its part of all runs
// then, but as many as it has freed slots at least.
func share(running, own, waiting, nodes, freed int) int {
	part := (running + waiting + nodes - 1) / nodes
	return min(waiting, max(part-own, freed))
}

// announce tells the other nodes of runs that wait, soon. What it leaves out the sweep finds.
func (m *Manager) announce(runs ...Run) {
	if m.cfg.Queue == nil {
		return
	}
	for _, r := range runs {
		select {
		case m.waiting <- waiting{r.ID, r.Generation}:
		default:
		}
	}
}

// waiting is a run that waits, in a generation.
type waiting struct {
	run        RunID
	generation int64
}

// queueLoop announces what waits, each once between two sweeps, until the last run here has ended.
func (m *Manager) queueLoop() {
	told := map[waiting]time.Time{}
	tell := func(w waiting) {
		now := time.Now()
		if now.Sub(told[w]) < sweepEvery {
			return
		}
		for other, at := range told {
			if now.Sub(at) >= sweepEvery {
				delete(told, other)
			}
		}
		told[w] = now
		ctx, cancel := context.WithTimeout(context.Background(), announceTime)
		defer cancel()
		if err := m.cfg.Queue.Announce(ctx, w.run); err != nil {
			m.cfg.Log.Warn("announce a run", "run", w.run, "error", err)
		}
	}
	for {
		select {
		case w := <-m.waiting:
			tell(w)
		case <-m.alive.Done():
			for len(m.waiting) > 0 { // nobody else takes from it, nor adds to it any more
				tell(<-m.waiting)
			}
			return
		}
	}
}

// serveLoop takes announced runs.
func (m *Manager) serveLoop() {
	for {
		err := m.cfg.Queue.Serve(m.claims, m.cfg.ConcurrentRuns, m.serve)
		if m.claims.Err() != nil {
			return
		}
		m.cfg.Log.Error("serve the queue of runs", "error", err)
		if pause(m.claims, time.Second) != nil {
			return
		}
	}
}

// serve carries out an announced run, where it still waits and all nodes together have a slot for it.
// What finds none is found by whoever frees one.
func (m *Manager) serve(ctx context.Context, id RunID) {
	var run Run
	claimed := false
	_, durability := m.asked(Soft, HookRunStarted)
	err := m.update(ctx, durability, func(tx Tx) (err error) {
		claimed = false
		if run, err = tx.Run(id); err != nil || run.State != Queued || run.Parked || run.Parent != "" || m.claims.Err() != nil {
			return err
		}
		now, err := tx.CountRuns(m.owner)
		if err != nil || now.Running >= m.cfg.ConcurrentRuns && !run.CancelRequested {
			return err
		}
		run, err = m.claimRun(tx, run)
		claimed = err == nil
		return err
	})
	switch {
	case err != nil && m.claims.Err() == nil:
		m.cfg.Log.Error("claim an announced run", "run", id, "error", err)
	case err == nil && claimed:
		m.execute(m.work, &execution{m: m, run: run})
	}
}
