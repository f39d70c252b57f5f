package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-run/reprise/llm/replay"
)

// RegenerateRequest says what the operator saw and has confirmed.
type RegenerateRequest struct {
	// Revision is the session's revision that the operator saw; 0: not checked.
	Revision int64 `json:"revision,omitempty"`
	// ConfirmEffects: the operator knows that what tools have changed stays changed and may
	// happen again.
	ConfirmEffects bool `json:"confirm_effects,omitempty"`
}

// EffectInfo is one tool call that a regenerate may make happen again.
type EffectInfo struct {
	RunID     RunID     `json:"run_id"`
	CallID    string    `json:"call_id"`
	Name      string    `json:"name"`
	Arguments string    `json:"arguments"`
	State     CallState `json:"state"`
	StartedAt Time      `json:"started_at"`
}

// Preview is what answering a message anew would supersede and what it would leave.
type Preview struct {
	Revision int64 `json:"revision"` // of the session, when this was so
	// Superseded counts the messages that leave the model's context: Replies and what their
	// tools gave, and Later ones of the operator.
	Superseded int          `json:"superseded"`
	Replies    int          `json:"replies"`
	Later      int          `json:"later"`
	Pending    int          `json:"pending"` // they stay queued behind the new run
	Effects    []EffectInfo `json:"effects"` // they stay, and may happen again
	Model      string       `json:"model"`   // the session's
}

// PreviewRegenerate says what Regenerate would do now. It is refused as that would be, but for
// what can be confirmed.
func (m *Manager) PreviewRegenerate(ctx context.Context, id ID, mid MessageID) (p Preview, err error) {
	err = m.store.View(ctx, func(tx ReadTx) error {
		s, st, err := sessionStatus(tx, id)
		if err != nil {
			return err
		}
		anchor, err := anchorOf(tx, s, mid)
		if err != nil {
			return err
		}
		if _, _, err := Next(st, MoveRegenerate); err != nil {
			return err
		}
		later, err := tx.Messages(id, false, anchor.Position, 0)
		if err != nil {
			return err
		}
		later = supersedable(later, anchor)
		waiting, err := tx.Pending(id)
		if err != nil {
			return err
		}
		p = Preview{Revision: s.Revision, Superseded: len(later), Pending: len(waiting), Model: s.Model}
		answered := false // the operator's message before
		for _, msg := range later {
			switch {
			case msg.Role == RoleOperator:
				p.Later++
				answered = false
			case msg.Role == RoleReply && !answered:
				p.Replies++
				answered = true
			}
		}
		p.Effects, err = effectsOf(tx, later)
		return err
	})
	return p, err
}

// anchorOf reads the message that a reply is to be made for anew.
func anchorOf(tx ReadTx, s Session, mid MessageID) (Message, error) {
	anchor, err := tx.Message(mid)
	switch {
	case err != nil:
		return Message{}, err
	case anchor.SessionID != s.ID:
		return Message{}, ErrNotFound
	case anchor.Role != RoleOperator:
		return Message{}, &Refusal{Code: CodeValidation, Message: "Only an operator's message can be answered anew. Name the message behind the reply."}
	case anchor.SupersededBy != "":
		return Message{}, &Refusal{Code: CodeConflict, Message: "This message was superseded."}
	}
	return anchor, nil
}

// Regenerate answers an operator's message anew: everything after it is superseded, and a
// fresh run is queued. No message row is created or changed.
func (m *Manager) Regenerate(ctx context.Context, q Act, id ID, mid MessageID, req RegenerateRequest) (Receipt, error) {
	return m.ask(ctx, q, id, func(tx Tx, s Session, st Status) (Receipt, error) {
		return regenerate(tx, s, st, Run{Trigger: TriggerRegenerate, Actor: q.Actor, Origin: byOperator, MessageID: mid}, req)
	})
}

// regenerate is the one path of the operator's click and of whatever repeats a failed run by
// itself. run brings who asks, for which message, and the origin that its gates will check.
func regenerate(tx Tx, s Session, st Status, run Run, req RegenerateRequest) (Receipt, error) {
	anchor, err := anchorOf(tx, s, run.MessageID)
	if err != nil {
		return Receipt{}, err
	}
	next, do, err := Next(st, MoveRegenerate)
	if err != nil {
		return Receipt{}, err
	}
	if req.Revision != 0 && req.Revision != s.Revision {
		return Receipt{}, &Refusal{Code: CodeStaleRevision, Message: "The session has changed since you saw it.",
			Details: map[string]int64{"revision": s.Revision}}
	}
	later, err := tx.Messages(s.ID, false, anchor.Position, 0)
	if err != nil {
		return Receipt{}, err
	}
	later = supersedable(later, anchor)
	if !req.ConfirmEffects {
		effects, err := effectsOf(tx, later)
		if err != nil {
			return Receipt{}, err
		}
		if len(effects) > 0 {
			return Receipt{}, &Refusal{Code: CodeEffectsNotConfirmed, Details: map[string]any{"effects": effects},
				Message: "Tools have changed something after this message. It stays changed and may happen again: confirm with confirm_effects."}
		}
	}
	run.ID, run.SessionID, run.Model = NewID[RunID]("run_", time.Now()), s.ID, s.Model
	if err := replace(tx, s, next, do, run, later, anchor); err != nil {
		return Receipt{}, err
	}
	return Receipt{MessageID: anchor.ID, RunID: run.ID, State: string(Queued), Superseded: len(later)},
		audit(tx, run.Actor, string(run.Trigger), s.ID, run.ID, fmt.Sprintf("regenerate: superseded %d messages", len(later)))
}

// replace supersedes the given messages and queues the run that replaces them.
func replace(tx Tx, s Session, next Status, do Do, run Run, gone []Message, anchor Message) error {
	if do&DoCancelRun != 0 {
		old := *s.LastRun
		old.State, old.EndedAt, old.CancelledBy = Cancelled, At(time.Now()), run.Actor
		old.Reason = "replaced by a newer run"
		if err := tx.PutRun(old, Queued, old.Generation); err != nil {
			return err
		}
		if err := noteRun(tx, HookRunCancelled, &old, old.Steps); err != nil {
			return err
		}
		if err := emit(tx, s.ID, Event{Type: EventRun, Run: &old}); err != nil {
			return err
		}
	}
	if len(gone) > 0 {
		// Of a resumed run, its own rows alone.
		if _, err := tx.Supersede(s.ID, anchor.ID, gone[0].Position-1, run.Continues, run.ID, At(time.Now())); err != nil {
			return err
		}
		ids := make([]MessageID, len(gone))
		for i := range gone {
			ids[i] = gone[i].ID
		}
		if err := emit(tx, s.ID, Event{Type: EventSuperseded, Superseded: &Superseded{Anchor: anchor.ID, By: run.ID, Messages: ids}}); err != nil {
			return err
		}
	}
	s.Paused = next.Paused
	if err := tx.PutSession(s); err != nil {
		return err
	}
	if err := retire(tx, s); err != nil {
		return err
	}
	return queueRun(tx, run)
}

// effectsOf lists the tool calls behind the messages that may have changed something.
func effectsOf(tx ReadTx, messages []Message) ([]EffectInfo, error) {
	var list []EffectInfo
	seen := map[RunID]bool{}
	for _, msg := range messages {
		if msg.Role == RoleOperator || seen[msg.RunID] {
			continue
		}
		seen[msg.RunID] = true
		calls, err := tx.ToolCalls(msg.RunID)
		if err != nil {
			return nil, err
		}
		for _, c := range calls {
			if c.Effect && c.StartedAt != 0 {
				list = append(list, EffectInfo{RunID: c.RunID, CallID: c.CallID, Name: c.Name, Arguments: c.Arguments, State: c.State, StartedAt: c.StartedAt})
			}
		}
	}
	return list, nil
}

// Resume goes on after the last committed step of a run that did not succeed, in a new run.
// Nothing that was committed is run again; the rows behind it are superseded.
func (m *Manager) Resume(ctx context.Context, q Act, id ID, rid RunID) (Receipt, error) {
	return m.ask(ctx, q, id, func(tx Tx, s Session, st Status) (Receipt, error) {
		return resume(tx, s, st, Run{Trigger: TriggerResume, Actor: q.Actor, Origin: byOperator, Continues: rid})
	})
}

// resume is the one path of the operator's click and of whatever resumes by itself, like
// regenerate.
func resume(tx Tx, s Session, st Status, run Run) (Receipt, error) {
	rid := run.Continues
	old, err := tx.Run(rid)
	if err != nil {
		return Receipt{}, err
	}
	if old.SessionID != s.ID {
		return Receipt{}, ErrNotFound
	}
	next, do, err := Next(st, MoveResume)
	if err != nil {
		return Receipt{}, err
	}
	anchor, err := tx.Message(old.MessageID)
	if err != nil {
		return Receipt{}, err
	}
	later, err := tx.Messages(s.ID, false, anchor.Position, 0)
	if err != nil {
		return Receipt{}, err
	}
	stale := s.LastRun == nil || s.LastRun.ID != rid
	for _, msg := range later {
		stale = stale || msg.Role == RoleOperator
	}
	if stale {
		return Receipt{}, &Refusal{Code: CodeStaleRun, Message: "Only the newest run of the last message can be resumed."}
	}
	if old.State == Succeeded {
		return Receipt{}, &Refusal{Code: CodeConflict, Message: "The run has succeeded: there is nothing to resume. Regenerate instead."}
	}
	calls, err := tx.ToolCalls(rid)
	if err != nil {
		return Receipt{}, err
	}
	for _, c := range calls {
		if c.State == CallStarted || c.State == CallUnknown {
			return Receipt{}, &Refusal{Code: CodeEffectsNotConfirmed, Details: map[string]any{"effects": []ToolCall{c}},
				Message: fmt.Sprintf("Nobody knows how %s ended. Look, and resolve the call first.", c.Name)}
		}
	}
	run.ID, run.SessionID, run.MessageID = NewID[RunID]("run_", time.Now()), s.ID, anchor.ID
	run.Model, run.Steps = s.Model, old.Steps
	gone := uncommitted(later)
	if err := replace(tx, s, next, do, run, gone, anchor); err != nil {
		return Receipt{}, err
	}
	return Receipt{MessageID: anchor.ID, RunID: run.ID, State: string(Queued), Superseded: len(gone)},
		audit(tx, run.Actor, string(run.Trigger), s.ID, run.ID, "resume: continues "+string(rid))
}

// uncommitted returns the interrupted or empty rows at the end of a reply.
func uncommitted(reply []Message) []Message {
	i := len(reply)
	for i > 0 && reply[i-1].Role == RoleReply && (reply[i-1].Interrupted != "" || len(reply[i-1].Parts) == 0) {
		i--
	}
	return reply[i:]
}

// Cancel ends a run: a queued one at once, one that was claimed as soon as its owner has let go,
// or a new one has kept what it has shown; the run that is returned says which. A run that has ended already is left as it is.
func (m *Manager) Cancel(ctx context.Context, actor string, id ID, rid RunID) (r Run, err error) {
	err = m.update(ctx, Full, func(tx Tx) error {
		if r, err = tx.Run(rid); err != nil {
			return err
		}
		if r.SessionID != id {
			return ErrNotFound
		}
		if r.State.Terminal() || r.CancelRequested {
			return nil
		}
		if r, err = cancelRun(tx, r, actor); err != nil {
			return err
		}
		return audit(tx, actor, "cancel", id, rid, "")
	})
	if errors.Is(err, ErrLost) { // it ended, or was claimed, in the meantime
		return m.Cancel(ctx, actor, id, rid)
	}
	if err != nil {
		return Run{}, err
	}
	if r.CancelRequested {
		m.endHere(rid, 0, errStopped)
	}
	if r.State == Queued {
		kick(m.wake)
	}
	return r, nil
}

// cancelRun ends a run, or asks its owner to, and does so with what its calls have begun.
func cancelRun(tx Tx, r Run, actor string) (Run, error) {
	s, st, err := sessionStatus(tx, r.SessionID)
	if err != nil {
		return r, err
	}
	expect := r.State
	next, do, err := Next(st, MoveCancel)
	if err != nil || do == 0 {
		return r, err
	}
	r.CancelledBy = actor
	if do&DoAskCancel != 0 {
		r.CancelRequested, r.Parked = true, false
	} else {
		r.State, r.EndedAt = Cancelled, At(time.Now())
		s.Paused = next.Paused
		if err := tx.PutSession(s); err != nil {
			return r, err
		}
	}
	if err := tx.PutRun(r, expect, r.Generation); err != nil {
		return r, err
	}
	if r.State == Cancelled {
		if err := noteRun(tx, HookRunCancelled, &r, r.Steps); err != nil {
			return r, err
		}
	}
	if err := emitRun(tx, r); err != nil {
		return r, err
	}
	return r, cancelChildren(tx, r.ID, actor)
}

// origin is what a run's gates check.
func (r *Run) origin() replay.Origin {
	if r.Origin.Operator {
		return replay.Operator{Actor: r.Actor, Message: string(r.MessageID)}
	}
	return replay.Automatic{Verb: r.Origin.Verb, Run: r.Origin.Run}
}
