package session

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// releaseOrphans queues the runs again that an earlier process has left, where no other one uses the
// store.
func (m *Manager) releaseOrphans(ctx context.Context) error {
	return m.update(ctx, Full, func(tx Tx) error {
		if err := releaseRuns(tx, func(string) bool { return true }); err != nil {
			return err
		}
		return releaseProbes(tx)
	})
}

// releaseRuns queues the running runs again of owners that are gone. It judges nothing: whoever claims
// one does, after its marker in the log has fenced the old owner.
func releaseRuns(tx Tx, gone func(owner string) bool) error {
	runs, err := tx.RunningRuns()
	if err != nil {
		return err
	}
	now := time.Now()
	for _, r := range runs {
		if !gone(r.Owner) {
			continue
		}
		if err := release(tx, r, now); err != nil {
			return fmt.Errorf("release run %s: %w", r.ID, err)
		}
	}
	return nil
}

// releaseProbes gives back the probes of a process that has died: nobody else would try what
// cools off before their time.
func releaseProbes(tx Tx) error {
	offs, err := tx.CoolOffs()
	if err != nil {
		return err
	}
	for _, c := range offs {
		if c.Probed.IsZero() {
			continue
		}
		if err := tx.SettleCoolOff(c, false); err != nil {
			return fmt.Errorf("give back the probe of %s: %w", c.Candidate, err)
		}
	}
	return nil
}

func release(tx Tx, r Run, now time.Time) error {
	_, st, err := sessionStatus(tx, r.SessionID)
	if err != nil {
		return err
	}
	if _, _, err := Next(st, MoveRelease); err != nil {
		return err
	}
	if err := tx.SealOpen(r.ID, At(now)); err != nil {
		return err
	}
	generation := r.Generation
	r.Generation++
	r.State, r.Owner = Queued, ""
	if err := tx.PutRun(r, Running, generation); err != nil {
		return err
	}
	return emitRun(tx, r)
}

// judge decides what becomes of a run that was claimed before: by what the ledger holds and
// what the log has of its uncommitted step. It returns nil where the run may go on, under an
// automatic origin that every gate of it will check again, or the *recovery.Stopped that it
// ends with.
func (x *execution) judge(ctx context.Context) error {
	out, attempt, whole, err := x.rebuild(ctx)
	if err != nil {
		return fmt.Errorf("rebuild the output: %w", err)
	}
	if attempt != "" {
		err := x.m.store.View(ctx, func(tx ReadTx) (err error) {
			x.attempt, err = tx.Attempt(attempt)
			return err
		})
		if err != nil {
			return fmt.Errorf("read the attempt: %w", err)
		}
	}
	var evidence replay.RunEvidence
	var judged Run
	err = x.commit(ctx, func(tx Tx, run *Run) error {
		if err := markUnknown(tx, run.ID); err != nil {
			return err
		}
		if attempt != "" {
			if err := tx.AmendAttempt(attempt, replay.Seal{OK: whole, Published: countsOf(out.Parts()), Usage: out.Usage}); err != nil {
				return err
			}
			if whole && out.Usage != nil && x.attempt.Cost != nil { // of what broke, nobody saw how much it was
				known := llm.ModelFacts{Price: x.attempt.Price}
				if err := tx.Settle(attempt, known.Cost(out.Usage, true, llm.Needs{}, 0)); err != nil {
					return err
				}
			}
		}
		if whole { // the reply was shown to its end: only its row is missing
			parts := out.Parts()
			msg := x.message(RoleReply, run.Steps, llm.Own(parts, x.attempt.Provider))
			msg.Usage = out.Usage
			if err := insert(tx, run, msg, !asks(parts)); err != nil {
				return err
			}
		}
		if evidence, err = evidenceOf(tx, *run); err != nil {
			return err
		}
		if ok, _ := evidence.Allows(replay.Restart); ok {
			run.Origin = Origin{Verb: replay.Restart, Run: evidence}
		}
		judged = *run
		return nil
	})
	if err != nil {
		return err
	}
	x.run.Steps, x.run.Requests, x.run.Origin = judged.Steps, judged.Requests, judged.Origin
	if ok, _ := evidence.Allows(replay.Restart); ok {
		return nil
	}
	if len(out.Parts()) > 0 && out.Interrupted == "" {
		// Whoever follows the log sees the same end as the row will have.
		why := failure.Interrupted
		if x.run.CancelRequested {
			why = failure.Cancelled
		}
		interrupted := llm.Event{Kind: llm.EventInterrupted, Text: why.String()}
		if err := (sink{x, x.run.Steps}).Append(ctx, []llm.Event{interrupted}); err != nil {
			return fmt.Errorf("end the output: %w", err)
		}
		out.Add(&interrupted)
	}
	return &recovery.Stopped{Failure: failure.NewInterrupted(), Attempt: string(attempt), Output: out}
}

// heed carries out what an earlier owner decided about its last attempt at the step, and did not
// live to do: it waits until the next attempt may start, or ends the run as that decision does.
func (x *execution) heed(ctx context.Context, step int) error {
	var list []Attempt
	err := x.m.store.View(ctx, func(tx ReadTx) (err error) { list, err = tx.Attempts(x.run.ID); return err })
	if err != nil || len(list) == 0 {
		return err
	}
	last := list[len(list)-1]
	d := last.Decision
	if d == nil || d.Rule == recovery.RuleCancelled || last.Evidence.Scope.Step != step {
		return nil // a cancel that ended no run was a shutdown
	}
	if d.Verdict == recovery.Stop || d.Verdict == recovery.HandOver {
		x.attempt = last
		return &recovery.Stopped{Failure: last.Failure, Decision: *d, Attempt: string(last.ID)}
	}
	return pause(ctx, time.Until(d.NextAt))
}

// countsOf counts what was published by what it adds up to.
func countsOf(parts []llm.Part) (c replay.Counts) {
	for _, p := range parts {
		switch n := int64(utf8.RuneCountInString(p.Text)); p.Kind {
		case llm.PartText:
			c.Text += n
		case llm.PartThinking, llm.PartRedacted:
			c.Thinking += n
		case llm.PartToolCall:
			c.Calls++
		default:
			c.Other++
		}
	}
	return c
}

// rebuild folds what the log has of the run's first uncommitted step. whole: it has the
// terminal event.
func (x *execution) rebuild(ctx context.Context) (out llm.Output, attempt AttemptID, whole bool, err error) {
	for rec, err := range x.m.log.Output(ctx, x.run.SessionID, x.run.ID) {
		if err != nil {
			return out, "", false, err
		}
		var e Event
		if err := json.Unmarshal(rec.Data, &e); err != nil {
			return out, "", false, fmt.Errorf("record %d: %w", rec.Seq, err)
		}
		if e.Output == nil || e.Output.Step != x.run.Steps {
			continue
		}
		attempt = e.Output.AttemptID
		for i := range e.Output.Events {
			out.Add(&e.Output.Events[i])
			whole = whole || e.Output.Events[i].Kind == llm.EventDone
		}
	}
	if whole {
		err = x.m.store.View(ctx, func(tx ReadTx) error {
			last, err := tx.LastMessages(x.run.SessionID, 1)
			if err == nil {
				whole = outputsOf(last, x.run) == x.run.Steps
			}
			return err
		})
		if !whole { // its row is there, only its tools are not done
			out, attempt = llm.Output{}, ""
		}
	}
	return out, attempt, whole, err
}
