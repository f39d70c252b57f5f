package store

import (
	"fmt"
	"strings"

	"github.com/reprise-run/reprise/session"
)

const scheduleColumns = `session_id, anchor_message_id, run_id, state, verb, attempt, max_attempts,
retry_class, chosen_by, not_before, next_at, since, updated_at, retryable, replay_safe, reason,
evidence, hold_reason, authorised_by, token`

func scheduleFields(s *session.Schedule) []any {
	return []any{&s.SessionID, &s.Anchor, &s.RunID, word[session.ScheduleState]{&s.State, scheduleStates},
		asJSON(&s.Verb), &s.Attempt, &s.MaxAttempts, asJSON(&s.RetryClass), &s.ChosenBy, &s.NotBefore,
		&s.NextAt, &s.Since, &s.UpdatedAt, &s.Retryable, &s.ReplaySafe, &s.Reason, asJSON(&s.Evidence),
		&s.HoldReason, &s.AuthorisedBy, &s.Token}
}

const ofSession = `SELECT ` + scheduleColumns + ` FROM schedules WHERE session_id = $1`

func (r *reader) Schedules(states ...session.ScheduleState) ([]session.Schedule, error) {
	args, holders := make([]any, len(states)), make([]string, len(states))
	for i, s := range states {
		args[i], holders[i] = string(s), fmt.Sprintf("$%d", i+1)
	}
	return list(r, scheduleFields, `SELECT `+scheduleColumns+` FROM schedules
WHERE state IN (`+strings.Join(holders, ", ")+`) ORDER BY next_at, session_id`, args...)
}

func (t *tx) NextToken(id session.ID) (int64, error) {
	return t.returning(`INSERT INTO counters (name, value) VALUES ($1, 1)
ON CONFLICT (name) DO UPDATE SET value = counters.value + 1 RETURNING value`, "token "+string(id))
}

// PutSchedule implements session.Tx.
func (t *tx) PutSchedule(s session.Schedule, expect int64, in session.ScheduleState) error {
	return t.change(`INSERT INTO schedules (`+scheduleColumns+`)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
ON CONFLICT (session_id) DO UPDATE SET anchor_message_id = excluded.anchor_message_id,
run_id = excluded.run_id, state = excluded.state, verb = excluded.verb, attempt = excluded.attempt,
max_attempts = excluded.max_attempts, retry_class = excluded.retry_class,
chosen_by = excluded.chosen_by, not_before = excluded.not_before, next_at = excluded.next_at,
since = excluded.since, updated_at = excluded.updated_at, retryable = excluded.retryable,
replay_safe = excluded.replay_safe, reason = excluded.reason, evidence = excluded.evidence,
hold_reason = excluded.hold_reason, authorised_by = excluded.authorised_by, token = excluded.token
WHERE $21 = 0 OR schedules.token = $21 AND schedules.state = $22`,
		append(scheduleFields(&s), expect, string(in))...)
}

func (t *tx) DeleteSchedule(id session.ID) (bool, error) {
	n, err := t.exec(`DELETE FROM schedules WHERE session_id = $1`, id)
	return n > 0, err
}
