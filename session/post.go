package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-run/reprise/llm"
)

// Act is who asks for something, and the key under which a repeat of the request gets the
// stored answer.
type Act struct {
	Actor string
	Route string // scope of the key, with the actor
	Key   string // Idempotency-Key; empty: none
	Hash  string // of the request's body
}

// once answers a request that carries a key with the stored answer where there is one, and
// else runs f and stores its answer in the same transaction.
func once(tx Tx, q Act, f func() (Receipt, error)) (Receipt, error) {
	if q.Key == "" {
		return f()
	}
	scope := q.Actor + " " + q.Route
	i, err := tx.Idempotent(scope, q.Key)
	if err == nil {
		if i.Hash != q.Hash {
			return Receipt{}, &Refusal{Code: CodeIdempotency, Message: "This Idempotency-Key was used with another body. Use a new key."}
		}
		var r Receipt
		if err := json.Unmarshal(i.Answer, &r); err != nil {
			return Receipt{}, fmt.Errorf("read the stored answer: %w", err)
		}
		return r, nil
	}
	if !errors.Is(err, ErrNotFound) {
		return Receipt{}, err
	}
	r, err := f()
	if err != nil {
		return Receipt{}, err
	}
	answer, err := json.Marshal(r)
	if err != nil {
		return Receipt{}, err
	}
	return r, tx.PutIdempotent(Idempotent{Scope: scope, Key: q.Key, Hash: q.Hash, Status: 202, Answer: answer, At: At(time.Now())})
}

// ask runs one request of an operator that starts, or queues, a run.
func (m *Manager) ask(ctx context.Context, q Act, id ID, f func(tx Tx, s Session, st Status) (Receipt, error)) (r Receipt, err error) {
	if m.accept.Err() != nil {
		return Receipt{}, &Refusal{Code: CodeUnavailable, Message: "The server is shutting down. Try again when it is back."}
	}
	if err := m.log.Ready(ctx); errors.Is(err, ErrUnavailable) {
		m.cfg.Log.Warn("refused a request", "error", err)
		return Receipt{}, &Refusal{Code: CodeUnavailable, Message: "The event log cannot be reached, so that nothing was begun. Try again when it is back."}
	} else if err != nil {
		return Receipt{}, err
	}
	var runs, left []Run
	err = m.update(ctx, Full, func(tx Tx) error {
		runs, left = nil, nil
		repeated := true
		r, err = once(tx, q, func() (Receipt, error) {
			repeated = false
			s, st, err := sessionStatus(tx, id)
			if err != nil {
				return Receipt{}, err
			}
			return f(tx, s, st)
		})
		if err != nil || repeated {
			return err
		}
		if runs, left, err = m.claim(tx, 0); err != nil { // where a slot is free it need not wait for the dispatcher
			return err
		}
		for _, run := range runs {
			if run.SessionID == id {
				return nil // the claim has told of the session
			}
		}
		return emit(tx, id, Event{Type: EventSession})
	})
	if err != nil {
		return Receipt{}, err
	}
	for _, run := range runs {
		m.start(run)
	}
	for _, run := range left {
		if run.SessionID == id { // of the others somebody has told
			m.announce(run)
		}
	}
	kick(m.counts)
	return r, nil
}

// Post adds the operator's message: as a message with a queued run, or behind the active run
// as a pending one. The routing holds for every run that answers it.
func (m *Manager) Post(ctx context.Context, q Act, id ID, parts []llm.Part, to Routing) (Receipt, error) {
	if err := checkParts(parts); err != nil {
		return Receipt{}, err
	}
	return m.ask(ctx, q, id, func(tx Tx, s Session, st Status) (Receipt, error) {
		next, do, err := Next(st, MovePost)
		if err != nil {
			return Receipt{}, err
		}
		now := time.Now()
		p := Pending{
			MessageID: NewID[MessageID]("msg_", now), RunID: NewID[RunID]("run_", now),
			SessionID: id, Parts: parts, Actor: q.Actor, CreatedAt: At(now), Routing: to,
		}
		was := s
		if s.Title == "" {
			s.Title = title(parts)
		}
		if sch := s.Schedule; sch != nil && sch.State.Waiting() {
			if _, err := endWait(tx, *sch, EndedByMessage); err != nil {
				return Receipt{}, err
			}
		}
		if err := retire(tx, s); err != nil {
			return Receipt{}, err
		}
		s.Paused = next.Paused
		if s.Title != was.Title || s.Paused != was.Paused {
			if err := tx.PutSession(s); err != nil {
				return Receipt{}, err
			}
		}
		r := Receipt{MessageID: p.MessageID, RunID: p.RunID, State: "pending"}
		if do&DoQueuePend != 0 {
			if err := appendPending(tx, p); err != nil {
				return Receipt{}, err
			}
		}
		switch {
		case do&DoPromote != 0:
			first, err := promote(tx, s)
			if err != nil {
				return Receipt{}, err
			}
			if first == p.MessageID {
				r.State = string(Queued)
			}
		case do&DoQueueRun != 0:
			r.State = string(Queued)
			if err := queueMessage(tx, s, p); err != nil {
				return Receipt{}, err
			}
		}
		return r, audit(tx, q.Actor, "post", id, p.RunID, "")
	})
}

func checkParts(parts []llm.Part) error {
	empty := true
	for _, p := range parts {
		switch p.Kind {
		case llm.PartText:
			empty = empty && p.Text == ""
		case llm.PartImage:
			if len(p.Data) == 0 && p.URL == "" {
				return &Refusal{Code: CodeValidation, Message: "An image part needs data or a url."}
			}
			empty = false
		default:
			return &Refusal{Code: CodeValidation, Message: fmt.Sprintf("A message holds text and images, not %q.", p.Kind)}
		}
	}
	if empty {
		return &Refusal{Code: CodeValidation, Message: "The message is empty."}
	}
	return nil
}

// queueMessage stores an operator's message and the queued run that answers it.
func queueMessage(tx Tx, s Session, p Pending) error {
	msg := Message{
		ID: p.MessageID, SessionID: s.ID, Role: RoleOperator, Parts: p.Parts,
		Actor: p.Actor, CreatedAt: p.CreatedAt, RunID: p.RunID,
	}
	var err error
	if msg.Position, err = tx.InsertMessage(msg); err != nil {
		return err
	}
	return queueRun(tx, Run{
		ID: p.RunID, SessionID: s.ID, MessageID: p.MessageID,
		Trigger: TriggerMessage, Actor: p.Actor, Model: s.Model, Routing: p.Routing, Origin: byOperator,
	}, Event{Type: EventMessage, Message: &msg})
}

// queueRun stores a queued run and tells of it, after what else has happened; whoever calls it
// tells of the session.
func queueRun(tx Tx, r Run, before ...Event) error {
	r.State, r.QueuedAt, r.Attempt = Queued, At(time.Now()), max(r.Attempt, 1)
	if r.Trigger != TriggerMessage {
		msg, err := tx.Message(r.MessageID)
		if err != nil {
			return err
		}
		first, err := tx.Run(msg.RunID)
		if err != nil {
			return err
		}
		r.Routing = first.Routing
	}
	if err := tx.InsertRun(r); err != nil {
		return err
	}
	return emit(tx, r.SessionID, append(before, Event{Type: EventRun, Run: &r})...)
}

func appendPending(tx Tx, p Pending) error {
	list, err := tx.Pending(p.SessionID)
	if err != nil {
		return err
	}
	p.Rank = 1
	if n := len(list); n > 0 {
		p.Rank = list[n-1].Rank + 1
	}
	if err := tx.InsertPending(p); err != nil {
		return err
	}
	return emitPending(tx, p.SessionID)
}

// promote makes the first pending message a message with a queued run.
func promote(tx Tx, s Session) (MessageID, error) {
	list, err := tx.Pending(s.ID)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", fmt.Errorf("promote a pending message: %w", ErrNotFound)
	}
	if err := tx.DeletePending(s.ID, list[0].MessageID); err != nil {
		return "", err
	}
	if err := queueMessage(tx, s, list[0]); err != nil {
		return "", err
	}
	return list[0].MessageID, emitPending(tx, s.ID)
}

// EditPending replaces the content of a pending message.
func (m *Manager) EditPending(ctx context.Context, actor string, id ID, mid MessageID, parts []llm.Part) (list []Pending, err error) {
	if err := checkParts(parts); err != nil {
		return nil, err
	}
	err = m.update(ctx, Full, func(tx Tx) error {
		p, err := findPending(tx, id, mid)
		if err != nil {
			return err
		}
		p.Parts = parts
		if err := tx.PutPending(p); err != nil {
			return err
		}
		if err := audit(tx, actor, "edit pending", id, p.RunID, ""); err != nil {
			return err
		}
		if err := emitPending(tx, id); err != nil {
			return err
		}
		list, err = tx.Pending(id)
		return err
	})
	return list, err
}

// RemovePending takes a message out of the queue.
func (m *Manager) RemovePending(ctx context.Context, actor string, id ID, mid MessageID) error {
	return m.update(ctx, Full, func(tx Tx) error {
		p, err := findPending(tx, id, mid)
		if err != nil {
			return err
		}
		if err := tx.DeletePending(id, mid); err != nil {
			return err
		}
		if err := audit(tx, actor, "remove pending", id, p.RunID, ""); err != nil {
			return err
		}
		return emitPending(tx, id)
	})
}

// SendNow makes a pending message the next one and releases a paused queue. It never stops
// the active run.
func (m *Manager) SendNow(ctx context.Context, actor string, id ID, mid MessageID) (Receipt, error) {
	return m.ask(ctx, Act{Actor: actor}, id, func(tx Tx, s Session, st Status) (Receipt, error) {
		p, err := findPending(tx, id, mid)
		if err != nil {
			return Receipt{}, err
		}
		next, do, err := Next(st, MoveSendNow)
		if err != nil {
			return Receipt{}, err
		}
		s.Paused = next.Paused
		if err := tx.PutSession(s); err != nil {
			return Receipt{}, err
		}
		list, err := tx.Pending(id)
		if err != nil {
			return Receipt{}, err
		}
		p.Rank = list[0].Rank - 1
		if err := tx.PutPending(p); err != nil {
			return Receipt{}, err
		}
		r := Receipt{MessageID: mid, RunID: p.RunID, State: "pending"}
		if do&DoPromote != 0 {
			r.State = string(Queued)
			if _, err := promote(tx, s); err != nil {
				return Receipt{}, err
			}
		} else if err := emitPending(tx, id); err != nil {
			return Receipt{}, err
		}
		return r, audit(tx, actor, "send now", id, p.RunID, "")
	})
}

func findPending(tx ReadTx, id ID, mid MessageID) (Pending, error) {
	list, err := tx.Pending(id)
	if err != nil {
		return Pending{}, err
	}
	for _, p := range list {
		if p.MessageID == mid {
			return p, nil
		}
	}
	return Pending{}, ErrNotFound
}
