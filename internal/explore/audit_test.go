package explore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-run/reprise/eventlog/logtest"
	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// audit judges what is left at the end of a schedule.
func (f *facts) audit(w *world) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := w.store.View(context.Background(), func(tx session.ReadTx) error {
		rows, err := tx.Messages(w.id, true, 0, 0)
		if err != nil {
			return err
		}
		f.auditRows(rows)
		for _, r := range f.order {
			stored, err := tx.Run(r.run.ID)
			if err != nil {
				return err
			}
			if stored.State != r.run.State || stored.Generation != r.run.Generation {
				f.violate(OneEnd, "run %d is stored as %s, generation %d, and was written as %s, generation %d",
					f.number(r), stored.State, stored.Generation, r.run.State, r.run.Generation)
			}
			attempts, err := tx.Attempts(r.run.ID)
			if err != nil {
				return err
			}
			f.auditRun(r, attempts)
		}
		return nil
	})
	if err != nil {
		f.violate(Rows, "the store cannot be read: %v", err)
	}
	f.auditLog(w.log)
	if w.page != nil {
		w.page.audit(f)
	}
}

func (f *facts) auditRows(rows []session.Message) {
	if len(rows) != len(f.rows) {
		f.violate(Rows, "%d rows were stored, and there are %d", len(f.rows), len(rows))
		return
	}
	for i, m := range rows {
		if was, is := written(f.rows[i]), written(m); was != is {
			f.violate(Rows, "row %d was stored as %s and is %s", i+1, was, is)
		}
	}
}

// written is what was written of a row, without what is derived when it is read.
func written(m session.Message) string {
	parts, _ := json.Marshal(m.Parts) // no part fails
	return fmt.Sprint(m.ID, m.Position, m.Role, string(parts), m.Actor, m.CreatedAt, m.RunID, m.Step, m.AttemptID, m.Provider, m.Model, m.Interrupted)
}

// auditRun compares what was published of a run with what is kept of it.
func (f *facts) auditRun(r *run, attempts []session.Attempt) {
	clean := true // nothing of what is not committed was marked or published
	for _, a := range attempts {
		if a.Evidence.State == replay.StateOpen {
			f.violate(Sealed, "run %d is %s, and its attempt %d is open", f.number(r), r.run.State, a.Number)
		}
		clean = clean && (f.whole(r, a.Evidence.Scope.Step) || !f.attempts[a.ID].marked)
	}
	kept := map[int][]string{}
	for _, m := range f.rows {
		if m.RunID != r.run.ID || m.Role != session.RoleReply {
			continue
		}
		for _, p := range m.Parts {
			kept[m.Step] = append(kept[m.Step], strings.Fields(p.Text)...)
		}
	}
	for step := range max(len(kept), len(r.tokens)) + 1 {
		if !f.keeps(r, step, kept[step]) {
			f.violate(Kept, "of step %d of run %d %q was published, and %q is kept", step, f.number(r), r.tokens[step], kept[step])
		}
	}
	for _, c := range f.calls {
		clean = clean && (!f.continues(r, c.answer.run) || c.starts == 0 || c.state == session.CallEnded)
	}
	if why := r.run.Failure; why != nil && clean && (why.RetryClass == failure.Interrupted ||
		why.RetryClass == failure.Local && r.run.Claims <= 3 && why.Message != recovery.Rules[recovery.RuleBound]) {
		f.violate(GoesOn, "run %d was given up although nothing of it was observable: %s", f.number(r), why.Message)
	}
}

// keeps reports whether what is kept of a step is what was published of it. What was marked and
// then met an end of its context counts as published: nobody knows.
func (f *facts) keeps(r *run, step int, kept []string) bool {
	shown := r.tokens[step]
	if len(kept) < len(shown) || !slices.Equal(kept[:len(shown)], shown) {
		return false
	}
	return len(kept) == len(shown) || slices.ContainsFunc(f.answers, func(a *answer) bool {
		return a.run == r && a.step == step && f.attempts[a.attempt].marked && !f.whole(r, step) &&
			len(kept) <= len(a.emitted) && slices.Equal(a.emitted[:len(kept)], kept)
	})
}

// revisionOf reads an event's revision, which is before anything that could have one too, and not the
// rest: that would be a thirtieth of all that the search takes.
func revisionOf(event []byte) int64 {
	_, after, _ := bytes.Cut(event, []byte(`"revision":`))
	digits := after[:len(after)-len(bytes.TrimLeft(after, "0123456789"))]
	n, _ := strconv.ParseInt(string(digits), 10, 64) // none is 0, which follows nothing
	return n
}

// auditLog reads the lifecycle events as an observer does.
func (f *facts) auditLog(log *logtest.Memory) {
	revision := int64(0)
	ends := map[session.RunID]session.RunState{}
	for _, rec := range log.Records() {
		if rec.Run != "" {
			continue
		}
		was := revision
		if revision = revisionOf(rec.Data); revision <= was {
			f.violate(Ordered, "an event with revision %d follows one with %d", revision, was)
		}
		if !bytes.HasPrefix(rec.Data, []byte(`{"type":"run"`)) {
			continue
		}
		var e struct {
			Run struct {
				ID    session.RunID
				State session.RunState
			}
		}
		if err := json.Unmarshal(rec.Data, &e); err != nil {
			f.violate(Ordered, "an event cannot be read: %v", err)
			return
		}
		if !e.Run.State.Terminal() {
			continue
		}
		if was := ends[e.Run.ID]; was != "" && was != e.Run.State {
			f.violate(Ordered, "a run's end was told, as %s and as %s", was, e.Run.State)
		}
		ends[e.Run.ID] = e.Run.State
	}
	for _, r := range f.order {
		if ends[r.run.ID] != r.run.State {
			f.violate(Ordered, "run %d is %s, and observers were told %q", f.number(r), r.run.State, ends[r.run.ID])
		}
	}
}
