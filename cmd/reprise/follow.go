package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// awayTime is how long a server may be gone: a restart takes less.
const awayTime = time.Minute

// errOver ends a watch: the run has.
var errOver = errors.New("the run has ended")

// follower shows one run as its events come: its text once and in order, whether it comes as
// it is published, in a message, or in a snapshot after a lost connection.
type follower struct {
	session        session.ID
	stdout, stderr io.Writer
	json           bool
	wait           bool // through the second tier
	post           func() (session.Receipt, error)
	calls          func(*session.ToolCall) // told where a tool call stands
	below          func(*session.Session)  // told what the session of a subagent has become

	lost     time.Time         // when the connection was; zero: it is there
	receipt  session.Receipt   // zero: nothing was posted yet; of the newest run
	started  bool              // the run is no longer pending
	schedule *session.Schedule // of the run; nil: there is none
	ahead    time.Duration     // of the server's clock over ours
	text     transcript
	end      *session.Run
}

// frame takes the next event in. The first one is a snapshot: what happens from then on will
// be seen, so the prompt can be posted.
func (f *follower) frame(frame session.Frame) error {
	f.lost = time.Time{}
	var e session.Event
	if err := json.Unmarshal(frame.Data, &e); err != nil {
		return fmt.Errorf("read an event: %w", err)
	}
	if f.receipt.RunID == "" {
		r, err := f.post()
		if err != nil {
			return err
		}
		f.receipt = r
		if e.Snapshot != nil {
			f.ahead = time.Until(e.Snapshot.System.Now.Std())
		}
		if !f.json {
			f.text.to = f.stdout
		}
		f.say("%s  session %s  run %s", r.State, f.session, r.RunID)
		return nil
	}
	if e.SessionID != f.session {
		if s := e.Session; s != nil && s.Parent != nil && s.Parent.Root == f.session {
			f.below(s)
		}
		return nil
	}
	if f.json && e.Type != session.EventProgress {
		if _, err := f.stdout.Write(append(frame.Data[:len(frame.Data):len(frame.Data)], '\n')); err != nil {
			return fmt.Errorf("write an event: %w", err)
		}
	}
	return f.event(&e)
}

// disconnected tells that the connection was lost, and reports whether that is too long ago.
func (f *follower) disconnected(err error, now time.Time) bool {
	if f.lost.IsZero() {
		f.lost = now
		f.say("connection lost, trying again: %s", err)
	}
	return now.Sub(f.lost) > awayTime
}

func (f *follower) event(e *session.Event) error {
	switch {
	case e.Output != nil:
		return f.output(e.Output)
	case e.Message != nil:
		return f.message(e.Message)
	case e.Attempt != nil && e.Attempt.RunID == f.receipt.RunID:
		f.attempt(e.Attempt)
	case e.Switch != nil && e.Switch.RunID == f.receipt.RunID:
		f.say("%s", switched(e.Switch))
	case e.ToolCall != nil && e.ToolCall.RunID == f.receipt.RunID:
		f.toolCall(e.ToolCall)
	case e.Snapshot != nil:
		return f.snapshot(e.Snapshot)
	case e.Run != nil:
		return f.run(e.Run)
	case e.Type == session.EventSchedule:
		return f.reschedule(e.Schedule)
	case e.Session != nil && f.waits() && f.schedule == nil:
		return errOver // whoever took the schedule away started nothing of ours
	case e.Session != nil && e.Session.Paused && !f.started && f.receipt.State == "pending":
		return errors.New("the message waits: the run before it did not succeed, so the session's queue is paused")
	}
	return nil
}

func (f *follower) run(r *session.Run) error {
	if f.waits() && r.Trigger == session.TriggerRetry && r.MessageID == f.receipt.MessageID && r.ID != f.end.ID {
		f.receipt.RunID, f.end = r.ID, nil
		f.say("starting  attempt %d  run %s", r.Attempt, r.ID)
	}
	if r.ID != f.receipt.RunID {
		return nil
	}
	f.started = true
	if r.State.Terminal() {
		f.end = r
		if f.wait && f.schedule != nil && f.schedule.RunID == r.ID && f.schedule.State.Waiting() {
			f.say("%s", waits(f.schedule, time.Now().Add(f.ahead)))
			return nil
		}
		return errOver
	}
	if r.State == session.Running && !r.CancelRequested {
		f.say("running  %s", r.Model)
	}
	return nil
}

// waits reports whether the run has ended and is going to be repeated.
func (f *follower) waits() bool { return f.wait && f.end != nil }

// reschedule takes the session's schedule in; nil: there is none, as when its run begins.
func (f *follower) reschedule(s *session.Schedule) error {
	f.schedule = s
	if s == nil || !f.waits() {
		return nil
	}
	if s.RunID != f.end.ID || !s.State.Waiting() {
		return errOver
	}
	f.say("%s", waits(s, time.Now().Add(f.ahead)))
	return nil
}

// exit is the exit code of a run that has ended, and is not repeated while we wait.
func (f *follower) exit() int {
	code := exitOf(f.end)
	switch s := f.schedule; {
	case s != nil && s.RunID == f.end.ID && s.State == session.ScheduleExhausted:
		return exitExhausted
	case code == exitLater && f.wait: // somebody ended the wait
		return exitCancelled
	}
	return code
}

func (f *follower) snapshot(s *session.Snapshot) error {
	for i := range s.Messages {
		if err := f.message(&s.Messages[i]); err != nil {
			return err
		}
	}
	if s.Output != nil && s.Output.RunID == f.receipt.RunID {
		if err := f.text.merged(s.Output); err != nil {
			return err
		}
	}
	for i := range s.ToolCalls {
		if c := &s.ToolCalls[i]; c.RunID == f.receipt.RunID {
			f.calls(c)
		}
	}
	if s.Session == nil || s.Session.LastRun == nil {
		return nil
	}
	f.schedule = s.Session.Schedule
	last, waited := s.Session.LastRun, f.waits()
	if err := f.run(last); err != nil || !waited {
		return err
	}
	if f.waits() && (f.schedule == nil || f.schedule.RunID != f.end.ID) { // it ended while we were away
		return errOver
	}
	return nil
}

// toolCall tells where a tool call stands.
func (f *follower) toolCall(c *session.ToolCall) {
	if c.State != session.CallAsked { // what is asked is told by who asks
		f.say("%s", callLine(c))
	}
	f.calls(c)
}

func (f *follower) message(m *session.Message) error {
	if m.RunID != f.receipt.RunID || m.Role != session.RoleReply {
		return nil
	}
	return f.text.message(m)
}

func (f *follower) output(o *session.Output) error {
	if o.RunID != f.receipt.RunID {
		return nil
	}
	return f.text.output(o)
}

// attempt tells that one has failed and is repeated.
func (f *follower) attempt(a *session.Attempt) {
	if again := repeats(a); again != "" {
		f.say("%s", again)
	}
}

// repeats says when an attempt that has failed is repeated; empty: it is not.
func repeats(a *session.Attempt) string {
	if a.Decision == nil || a.Failure == nil || a.Decision.Verdict != recovery.Retry {
		return ""
	}
	next := a.Decision.NextAt
	return fmt.Sprintf("waiting  %s  attempt %d  next %s (in %s)", a.Decision.Class, a.Number+1,
		next.Local().Format("15:04:05 MST"), max(0, time.Until(next)).Round(100*time.Millisecond))
}

// close ends the text with a line's end and tells how the run ended.
func (f *follower) close() {
	if err := f.text.endLine(); err != nil {
		f.say("%v", err)
	}
	r := f.end
	if r == nil || r.State == session.Succeeded {
		return
	}
	f.say("%s", r.State)
	if r.Failure == nil {
		return
	}
	f.say("  %s: %s", r.Failure.RetryClass, r.Failure.Message)
	for _, o := range r.Failure.Tried {
		f.say("  %s", o)
	}
	if r.Recovery != nil {
		f.say("  worth retrying: %s   safe to repeat: %s", yes(r.Failure.Retryable), because(r.Recovery.ReplaySafe, r.Recovery.Evidence.String()))
		if t := r.Recovery.NotBefore; t != 0 {
			f.say("  not before %s", t.Std().Local().Format("Mon 15:04:05 MST"))
		}
	}
	f.say("  more: reprise explain %s", r.ID)
}

func (f *follower) say(format string, args ...any) { fmt.Fprintf(f.stderr, format+"\n", args...) }

func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}

func because(ok bool, why string) string {
	if ok || why == "" {
		return yes(ok)
	}
	return yes(ok) + " (" + why + ")"
}

// switched tells that somebody else is asked, and why.
func switched(s *session.Switch) string {
	return fmt.Sprintf("switched  %s  from %s: %s", s.To, s.From.Candidate, s.From.Reason)
}
