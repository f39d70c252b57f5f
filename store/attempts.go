package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

const selectAttempts = `SELECT ` + attemptColumns + `, COALESCE(kind, ''), COALESCE(amount, 0), price
FROM attempts LEFT JOIN (SELECT attempt_id, kind, amount, price FROM spend) s ON attempt_id = id `

// pricedFields are an attempt's with what it cost.
func pricedFields(p *priced) []any {
	return append(attemptFields(&p.Attempt), &p.kind, &p.amount, asJSON(&p.Price))
}

type priced struct {
	session.Attempt
	kind   string
	amount llm.Money
}

func (p *priced) attempt() session.Attempt {
	if p.kind != "" && p.kind != costOpen {
		p.Cost = &llm.Cost{Amount: p.amount, Kind: llm.CostKind(p.kind)}
	}
	return p.Attempt
}

const attemptColumns = `id, run_id, session_id, after, automatic, provider, key, model, answered,
opened_at, marked_at, ended_at, ok, evidence, failure, decision, usage,
switched_from, instead_of, skipped, number`

func attemptFields(a *session.Attempt) []any {
	return []any{&a.ID, &a.RunID, &a.SessionID, &a.After, &a.Automatic, &a.Provider, &a.Key, &a.Model,
		&a.Answered, &a.OpenedAt, &a.MarkedAt, &a.EndedAt, &a.OK, asJSON(&a.Evidence),
		asJSON(&a.Failure), asJSON(&a.Decision), asJSON(&a.Usage),
		asJSON(&a.SwitchedFrom), asJSON(&a.InsteadOf), asJSON(&a.Skipped), &a.Number}
}

func (r *reader) Attempts(run session.RunID) ([]session.Attempt, error) {
	all, err := list(r, pricedFields, selectAttempts+`WHERE run_id = $1 ORDER BY number`, run)
	var attempts []session.Attempt
	for i := range all {
		attempts = append(attempts, all[i].attempt())
	}
	if err == nil && slices.ContainsFunc(attempts, hooked) {
		err = r.withHooks(run, attempts)
	}
	return attempts, err
}

func (r *reader) Attempt(id session.AttemptID) (session.Attempt, error) {
	p, err := one(r, pricedFields, selectAttempts+`WHERE id = $1`, id)
	a := []session.Attempt{p.attempt()}
	if err == nil && hooked(a[0]) {
		err = r.withHooks(a[0].RunID, a)
	}
	return a[0], err
}

// OpenAttempt implements session.Tx. Of the attempt's evidence the scope, the marks and
// Remote count; it is open, whatever it says.
func (t *tx) OpenAttempt(a session.Attempt) (int, error) {
	scope := a.Evidence.Scope
	if scope.Run != string(a.RunID) || scope.Session != string(a.SessionID) {
		return 0, fmt.Errorf("attempt %s of run %s has the scope of run %q", a.ID, a.RunID, scope.Run)
	}
	if err := t.change(`UPDATE runs SET requests = requests + 1
WHERE id = $1 AND session_id = $2 AND generation = $3 AND state = 'running' AND NOT cancel_requested`,
		a.RunID, a.SessionID, scope.Generation); err != nil {
		return 0, err
	}
	a.EndedAt, a.OK = 0, false
	a.Evidence = replay.Evidence{Scope: scope, Attempt: string(a.ID), State: replay.StateOpen,
		Marks: a.Evidence.Marks & replay.Effects, Remote: a.Evidence.Remote}
	fields := attemptFields(&a)
	n, err := t.returning(`INSERT INTO attempts (`+attemptColumns+`)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
(SELECT COALESCE(MAX(number), 0) + 1 FROM attempts WHERE run_id = $2))
ON CONFLICT DO NOTHING RETURNING number`, fields[:len(fields)-1]...)
	return int(n), err
}

// record is an attempt's evidence as it is stored.
type record struct {
	id  session.AttemptID
	raw string
}

func (r *record) evidence() (e replay.Evidence, err error) {
	if err = json.Unmarshal([]byte(r.raw), &e); err != nil {
		err = fmt.Errorf("evidence of attempt %s: %w", r.id, err)
	}
	return e, err
}

func recordFields(r *record) []any { return []any{&r.id, &r.raw} }

// current reads an attempt's evidence where its run still has the generation of the scope,
// and the attempt was opened in that scope.
func (t *tx) current(id session.AttemptID, scope llm.Scope) (record, replay.Evidence, error) {
	found, err := list(&t.reader, recordFields, `SELECT a.id, a.evidence FROM attempts a
JOIN runs r ON r.id = a.run_id WHERE a.id = $1 AND r.id = $2 AND r.generation = $3`,
		id, scope.Run, scope.Generation)
	if err != nil {
		return record{}, replay.Evidence{}, err
	}
	if len(found) == 0 {
		return record{}, replay.Evidence{}, session.ErrLost
	}
	e, err := found[0].evidence()
	if err == nil && e.Scope != scope {
		err = session.ErrLost
	}
	return found[0], e, err
}

// marked is the SQL of marked_at: the first effect stays.
const marked = `CASE WHEN marked_at = 0 THEN $4 ELSE marked_at END`

func (t *tx) MarkAttempt(id session.AttemptID, scope llm.Scope, marks replay.Reasons, now session.Time) error {
	old, e, err := t.current(id, scope)
	if err != nil {
		return err
	}
	e.Marks |= marks & replay.Effects
	return t.change(`UPDATE attempts SET evidence = $3, marked_at = `+marked+`
WHERE id = $1 AND evidence = $2`, id, old.raw, asJSON(&e), firstEffect(e, now))
}

func (t *tx) SealAttempt(id session.AttemptID, scope llm.Scope, s replay.Seal, now session.Time) error {
	old, e, err := t.current(id, scope)
	if err != nil {
		return err
	}
	e.State = replay.StateSealed
	e.Marks |= s.Marks & replay.Effects
	e.Published, e.Delivery = s.Published, s.Delivery
	return t.change(`UPDATE attempts SET evidence = $3, marked_at = `+marked+`, ended_at = $5, ok = $6,
answered = $7, usage = COALESCE($8, usage) WHERE id = $1 AND evidence = $2`,
		id, old.raw, asJSON(&e), firstEffect(e, now), now, s.OK, s.Model, asJSON(&s.Usage))
}

func (t *tx) AmendAttempt(id session.AttemptID, s replay.Seal) error {
	old, err := one(&t.reader, recordFields, `SELECT id, evidence FROM attempts WHERE id = $1 AND ended_at <> 0`, id)
	if errors.Is(err, session.ErrNotFound) {
		return session.ErrLost
	}
	if err != nil {
		return err
	}
	e, err := old.evidence()
	if err != nil {
		return err
	}
	e.Marks |= s.Marks & replay.Effects
	e.Published = s.Published
	return t.change(`UPDATE attempts SET evidence = $3, ok = $4, usage = COALESCE($5, usage)
WHERE id = $1 AND evidence = $2`, id, old.raw, asJSON(&e), s.OK, asJSON(&s.Usage))
}

// firstEffect is the time of an attempt's first effect, as far as now can tell.
func firstEffect(e replay.Evidence, now session.Time) session.Time {
	if e.Marks == 0 {
		return 0
	}
	return now
}

func (t *tx) SealOpen(run session.RunID, now session.Time) error {
	open, err := list(&t.reader, recordFields,
		`SELECT id, evidence FROM attempts WHERE run_id = $1 AND ended_at = 0`, run)
	if err != nil {
		return err
	}
	for _, old := range open {
		e, err := old.evidence()
		if err != nil {
			return err
		}
		e.State, e.Delivery = replay.StateSealed, llm.MaybeAccepted
		if err := t.change(`UPDATE attempts SET evidence = $3, ended_at = $4
WHERE id = $1 AND evidence = $2`, old.id, old.raw, asJSON(&e), now); err != nil {
			return err
		}
		if _, err := t.exec(`UPDATE spend SET kind = 'estimated' WHERE attempt_id = $1 AND kind = 'open'`, old.id); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) PutDecision(id session.AttemptID, f *failure.Failure, d recovery.Decision) error {
	return t.change(`UPDATE attempts SET failure = $2, decision = $3 WHERE id = $1`,
		id, asJSON(&f), asJSON(&d))
}
