package store

import "github.com/reprise-run/reprise/session"

const sessionColumns = `id, title, model, settings, archived, paused, actor, created_at, updated_at, revision, parent, parent_id, root_id`

func sessionFields(s *session.Session) []any {
	var p session.Parent // columns repeat of it what SQL decides by
	if s.Parent != nil {
		p = *s.Parent
	}
	return []any{&s.ID, &s.Title, &s.Model, asJSON(&s.Settings), &s.Archived, &s.Paused,
		&s.Actor, &s.CreatedAt, &s.UpdatedAt, &s.Revision, asJSON(&s.Parent), orNull(&p.SessionID), orNull(&p.Root)}
}

// derive completes a session by its schedule and its newest run. An active run is always the newest: another
// can only follow when it has ended.
func derive(s *session.Session, last *session.Run, schedule *session.Schedule) {
	s.State, s.LastRun, s.Schedule = session.Idle, last, schedule
	if last == nil {
		return
	}
	switch last.State {
	case session.Queued:
		s.State = session.StateQueued
	case session.Running:
		s.State = session.StateRunning
	}
}

// ofOne is a session with what its rows elsewhere add up to, in one statement: most transactions
// read it twice.
const ofOne = `SELECT ` + sessionColumns + `, amount, least, unpriced, reserved,
  (SELECT COUNT(*) FROM tool_calls
   WHERE state = 'asked' AND (session_id = $1 OR session_id IN (SELECT id FROM sessions WHERE root_id = $1))),
  (SELECT COUNT(*) FROM schedules WHERE session_id = $1)
FROM sessions, (SELECT ` + totals + ` FROM spend WHERE session_id = $1 OR root_id = $1) spent
WHERE id = $1`

type whole struct {
	session.Session
	spent     total
	schedules int
}

func wholeFields(w *whole) []any {
	return append(append(sessionFields(&w.Session), totalFields(&w.spent)...), &w.Asks, &w.schedules)
}

func (r *reader) Session(id session.ID) (session.Session, error) {
	w, err := one(r, wholeFields, ofOne, id)
	if err != nil {
		return session.Session{}, err
	}
	last, err := list(r, runFields, lastRun, id)
	if err != nil {
		return session.Session{}, err
	}
	var schedule []session.Schedule
	if w.schedules > 0 {
		if schedule, err = list(r, scheduleFields, ofSession, id); err != nil {
			return session.Session{}, err
		}
	}
	w.Spend = w.spent.sum()
	derive(&w.Session, first(last), first(schedule))
	return w.Session, nil
}

func (r *reader) Settings(id session.ID) (session.Settings, *session.Parent, error) {
	s, err := one(r, func(s *session.Session) []any { return []any{asJSON(&s.Settings), asJSON(&s.Parent)} },
		`SELECT settings, parent FROM sessions WHERE id = $1`, id)
	return s.Settings, s.Parent, err
}

// first is a list's first element, nil where there is none.
func first[T any](list []T) *T {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

func (r *reader) Sessions(archived bool, after session.Time, limit int) ([]session.Session, error) {
	return r.sessions(`WHERE archived = $1 AND updated_at > $2 AND parent_id IS NULL ORDER BY updated_at DESC, id DESC LIMIT $3`,
		archived, after, atMost(limit))
}

func (r *reader) Children(id session.ID) ([]session.Session, error) {
	return r.sessions(`WHERE parent_id = $1 ORDER BY id`, id)
}

// sessions reads those that a condition chooses, in its order.
func (r *reader) sessions(which string, args ...any) ([]session.Session, error) {
	all, err := list(r, sessionFields, `SELECT `+sessionColumns+` FROM sessions `+which, args...)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	runs, err := list(r, runFields, `SELECT `+runColumns+` FROM runs WHERE (session_id, number) IN (
  SELECT id, (SELECT MAX(number) FROM runs r WHERE r.session_id = sessions.id) FROM sessions `+which+`)`, args...)
	if err != nil {
		return nil, err
	}
	schedules, err := list(r, scheduleFields, `SELECT `+scheduleColumns+` FROM schedules`)
	if err != nil {
		return nil, err
	}
	spend, err := list(r, func(t *total) []any { return append(totalFields(t), &t.session) }, `SELECT `+totals+`, session_id FROM (
  SELECT kind, amount, reserved, session_id FROM spend WHERE session_id IN (SELECT id FROM sessions `+which+`) UNION ALL
  SELECT kind, amount, reserved, root_id FROM spend WHERE root_id IN (SELECT id FROM sessions `+which+`)) s
GROUP BY session_id`, args...)
	if err != nil {
		return nil, err
	}
	asked, err := list(r, asksFields, asksOfAll)
	if err != nil {
		return nil, err
	}
	waits := make(map[session.ID]int, len(asked))
	for _, a := range asked {
		waits[a.session] = a.n
	}
	spent := make(map[session.ID]session.Spend, len(spend))
	for i := range spend {
		spent[spend[i].session] = spend[i].sum()
	}
	waiting := make(map[session.ID]*session.Schedule, len(schedules))
	for i := range schedules {
		waiting[schedules[i].SessionID] = &schedules[i]
	}
	last := make(map[session.ID]*session.Run, len(runs))
	for i := range runs {
		last[runs[i].SessionID] = &runs[i]
	}
	for i := range all {
		all[i].Spend, all[i].Asks = spent[all[i].ID], waits[all[i].ID]
		derive(&all[i], last[all[i].ID], waiting[all[i].ID])
	}
	return all, nil
}

func (t *tx) InsertSession(s session.Session) error {
	return t.change(`INSERT INTO sessions (`+sessionColumns+`)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING`, sessionFields(&s)...)
}

func (t *tx) PutSession(s session.Session) error {
	return t.change(`UPDATE sessions SET title = $2, model = $3, settings = $4, archived = $5,
paused = $6, updated_at = $7 WHERE id = $1`,
		s.ID, s.Title, s.Model, asJSON(&s.Settings), s.Archived, s.Paused, s.UpdatedAt)
}

func (t *tx) Touch(id session.ID, n int, now session.Time) (int64, error) {
	return t.returning(`UPDATE sessions SET revision = revision + $3,
updated_at = CASE WHEN updated_at < $2 THEN $2 ELSE updated_at END
WHERE id = $1 RETURNING revision`, id, now, n)
}
