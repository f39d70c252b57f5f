package store

import (
	"fmt"
	"strings"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// costOpen is the kind of what is reserved and not settled. A price that is not known is
// final at once.
const costOpen = "open"

const totals = `CAST(COALESCE(SUM(amount), 0) AS BIGINT) AS amount, COUNT(CASE WHEN kind <> 'known' THEN 1 END) AS least,
COUNT(CASE WHEN kind = 'unknown' THEN 1 END) AS unpriced, CAST(COALESCE(SUM(reserved), 0) AS BIGINT) AS reserved`

type total struct {
	session.Spend
	least, unpriced int64
	of              session.StepOf
	session         session.ID
}

func totalFields(t *total) []any { return []any{&t.Amount, &t.least, &t.unpriced, &t.Reserved} }

func (t *total) sum() session.Spend {
	t.AtLeast, t.Unpriced = t.least > 0, t.unpriced > 0
	return t.Spend
}

func (r *reader) Spent(q session.Spending) (session.Spend, error) {
	if q.Key != "" {
		return r.spentByClients("key_id = $2 AND hour > $1", q.Since-hour, q.Key)
	}
	where := []string{"at >= $1"}
	args := []any{q.Since}
	add := func(condition string, arg any) {
		args = append(args, arg)
		where = append(where, strings.ReplaceAll(condition, "$", fmt.Sprintf("$%d", len(args))))
	}
	if q.Session != "" {
		add("(session_id = $ OR root_id = $)", q.Session)
	}
	if q.Run != "" {
		add("run_id = $", q.Run)
	}
	if q.Step != 0 {
		add("step = $", q.Step-1)
	}
	t, err := one(r, totalFields, `SELECT `+totals+` FROM spend WHERE `+strings.Join(where, " AND "), args...)
	if err != nil || q.Session != "" {
		return t.sum(), err
	}
	clients, err := r.spentByClients("hour > $1", q.Since-hour)
	sum := t.sum()
	return session.Spend{Amount: sum.Amount + clients.Amount, AtLeast: sum.AtLeast || clients.AtLeast,
		Unpriced: sum.Unpriced || clients.Unpriced, Reserved: sum.Reserved + clients.Reserved}, err
}

func (r *reader) SpentBySteps(id session.ID) (map[session.StepOf]session.Spend, error) {
	all, err := list(r, func(t *total) []any { return append(totalFields(t), &t.of.Run, &t.of.Step) },
		`SELECT `+totals+`, run_id, step FROM spend WHERE session_id = $1 GROUP BY run_id, step`, id)
	spent := make(map[session.StepOf]session.Spend, len(all))
	for i := range all {
		spent[all[i].of] = all[i].sum()
	}
	return spent, err
}

func (t *tx) Reserve(a session.Attempt, more llm.Money) error {
	kind := costOpen
	if a.Cost.Kind == llm.CostUnknown {
		kind = string(llm.CostUnknown)
	}
	return t.change(`INSERT INTO spend (attempt_id, session_id, run_id, step, at, kind, amount, reserved, price, root_id)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, (SELECT root_id FROM sessions WHERE id = $2)) ON CONFLICT DO NOTHING`,
		a.ID, a.SessionID, a.RunID, a.Evidence.Scope.Step, a.OpenedAt, kind, a.Cost.Amount, more, asJSON(&a.Price))
}

func (t *tx) Settle(id session.AttemptID, c llm.Cost) error {
	return t.change(`UPDATE spend SET kind = $2, amount = $3, reserved = 0 WHERE attempt_id = $1`,
		id, word[llm.CostKind]{&c.Kind, costKinds}, c.Amount)
}
