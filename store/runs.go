package store

import (
	"errors"
	"fmt"

	"github.com/reprise-run/reprise/session"
)

const runColumns = `id, session_id, message_id, state, trigger, continues, actor, model, origin,
attempt, since, token, generation, claims, owner, steps, requests, parked, cancel_requested, cancelled_by,
queued_at, started_at, ended_at, reason, failure, recovery, routing, parent`

func runFields(r *session.Run) []any {
	return []any{&r.ID, &r.SessionID, &r.MessageID, word[session.RunState]{&r.State, runStates},
		word[session.Trigger]{&r.Trigger, triggers}, &r.Continues, &r.Actor, &r.Model, asJSON(&r.Origin),
		&r.Attempt, &r.Since, &r.Token, &r.Generation, &r.Claims, &r.Owner, &r.Steps, &r.Requests, &r.Parked, &r.CancelRequested,
		&r.CancelledBy, &r.QueuedAt, &r.StartedAt, &r.EndedAt, &r.Reason, asJSON(&r.Failure),
		asJSON(&r.Recovery), asJSON(&r.Routing), orNull(&r.Parent)}
}

const lastRun = `SELECT ` + runColumns + ` FROM runs WHERE session_id = $1 ORDER BY number DESC LIMIT 1`

func (r *reader) Run(id session.RunID) (session.Run, error) {
	return one(r, runFields, `SELECT `+runColumns+` FROM runs WHERE id = $1`, id)
}

func (r *reader) Claimed(id session.RunID) (session.Claimed, error) {
	return one(r, func(c *session.Claimed) []any {
		return []any{word[session.RunState]{&c.State, runStates}, &c.Generation, &c.CancelRequested}
	}, `SELECT state, generation, cancel_requested FROM runs WHERE id = $1`, id)
}

func (r *reader) LastRun(id session.ID) (session.Run, error) {
	return one(r, runFields, lastRun, id)
}

func (r *reader) Runs(id session.ID) ([]session.Run, error) {
	return list(r, runFields, `SELECT `+runColumns+` FROM runs WHERE session_id = $1 ORDER BY number`, id)
}

// QueuedRuns implements session.ReadTx. SQLite plans a sort by its limit, again at each run, where
// that is a bare parameter.
func (r *reader) QueuedRuns(limit int) ([]session.Run, error) {
	return list(r, runFields, `SELECT `+runColumns+` FROM runs
WHERE state = 'queued' AND NOT parked AND (parent IS NULL OR cancel_requested) ORDER BY cancel_requested DESC, queued_at, id LIMIT CAST($1 AS BIGINT)`, atMost(limit))
}

func (r *reader) ChildRuns(id session.RunID) ([]session.Run, error) {
	return list(r, runFields, `SELECT `+runColumns+` FROM runs WHERE parent = $1 ORDER BY queued_at, id`, id)
}

func (r *reader) RunningRuns() ([]session.Run, error) {
	return list(r, runFields, `SELECT `+runColumns+` FROM runs WHERE state = 'running' ORDER BY id`)
}

func (r *reader) CountRuns(owner string) (session.Counts, error) {
	return one(r, func(c *session.Counts) []any { return []any{&c.Running, &c.Own, &c.Queued} }, `SELECT
COUNT(CASE WHEN state = 'running' THEN 1 END), COUNT(CASE WHEN state = 'running' AND owner = $1 THEN 1 END),
COUNT(CASE WHEN state = 'queued' THEN 1 END)
FROM runs WHERE state IN ('queued', 'running') AND parent IS NULL`, owner)
}

func (t *tx) InsertRun(r session.Run) error {
	if r.State != session.Queued {
		return fmt.Errorf("insert run %s: its state is %q, a new run is queued", r.ID, r.State)
	}
	err := t.change(`INSERT INTO runs (`+runColumns+`, number)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
$21, $22, $23, $24, $25, $26, $27, $28, (SELECT COALESCE(MAX(number), 0) + 1 FROM runs WHERE session_id = $2))
ON CONFLICT DO NOTHING`, runFields(&r)...)
	if !errors.Is(err, session.ErrLost) {
		return err
	}
	active, err := one(&t.reader, itself[int], `SELECT COUNT(*) FROM runs
WHERE session_id = $1 AND state IN ('queued', 'running')`, r.SessionID)
	switch {
	case err != nil:
		return err
	case active > 0:
		return session.ErrActive
	}
	return session.ErrLost
}

// PutRun implements session.Tx. A run that has ended keeps its state.
func (t *tx) PutRun(r session.Run, expect session.RunState, generation int64) error {
	if expect.Terminal() && r.State != expect {
		return session.ErrLost
	}
	return t.change(`UPDATE runs SET state = $4, origin = $5, generation = $6, claims = $7, owner = $8,
steps = $9, requests = $10, cancel_requested = $11, cancelled_by = $12,
started_at = $13, ended_at = $14, reason = $15, failure = $16, recovery = $17, parked = $18
WHERE id = $1 AND state = $2 AND generation = $3`,
		r.ID, expect, generation, word[session.RunState]{&r.State, runStates}, asJSON(&r.Origin),
		r.Generation, r.Claims, r.Owner, r.Steps, r.Requests, r.CancelRequested,
		r.CancelledBy, r.StartedAt, r.EndedAt, r.Reason, asJSON(&r.Failure), asJSON(&r.Recovery), r.Parked)
}
