package store

import (
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/session"
)

const hookMarkColumns = `notice, hook, event, run_id, step, generation, attempt_id, at`

func hookMarkFields(h *session.HookMark) []any {
	return []any{&h.Notice, &h.Hook, &h.Event, &h.RunID, &h.Step, &h.Generation, &h.AttemptID, &h.At}
}

func (r *reader) HookMarks(run session.RunID) ([]session.HookMark, error) {
	return list(r, hookMarkFields, `SELECT `+hookMarkColumns+` FROM hook_marks WHERE run_id = $1 ORDER BY number`, run)
}

func (t *tx) InsertHookMark(h session.HookMark) error {
	return t.change(`INSERT INTO hook_marks (`+hookMarkColumns+`, number) VALUES ($1, $2, $3, $4, $5, $6, $7, $8,
(SELECT COALESCE(MAX(number), 0) + 1 FROM hook_marks WHERE run_id = $4)) ON CONFLICT DO NOTHING`, hookMarkFields(&h)...)
}

// hooked reports whether hooks were told of an attempt that may have had an effect.
func hooked(a session.Attempt) bool { return a.Evidence.Marks&replay.HookRan != 0 }

// withHooks gives attempts of a run the marks of the hooks that were told of them.
func (r *reader) withHooks(run session.RunID, attempts []session.Attempt) error {
	marks, err := r.HookMarks(run)
	for _, h := range marks {
		for i := range attempts {
			if attempts[i].ID == h.AttemptID {
				attempts[i].Hooks = append(attempts[i].Hooks, h)
			}
		}
	}
	return err
}
