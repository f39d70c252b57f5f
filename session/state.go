package session

import (
	"fmt"
	"strings"
)

// Status is all of a session that decides what may happen next.
type Status struct {
	Run      RunState // of the active run; empty: there is none
	Stopping bool     // the active run was asked to cancel
	Begun    bool     // the queued run was claimed before: what it has shown is still to be judged
	Waiting  bool     // there are pending messages
	Paused   bool     // the pending messages wait for the operator
	Archived bool
}

// Move is something that happens to a session.
type Move uint8

const (
	MovePost       Move = iota + 1 // the operator posts a message
	MoveRegenerate                 // the operator, or the second tier, answers a message anew
	MoveResume                     // the operator, or the second tier, goes on after a committed step
	MoveSendNow                    // the operator sends a pending message next
	MoveCancel                     // the operator stops the active run
	MoveClaim                      // a node takes the queued run
	MoveRelease                    // a node gives its run back, or has died
	MoveSucceed                    // the active run has its whole reply
	MoveFail                       // the active run cannot go on
	MoveStop                       // the active run has stopped because it was asked to
	MoveArchive
	MoveRestore
	moves
)

var moveNames = [moves]string{"", "post", "regenerate", "resume", "send now", "cancel", "claim",
	"release", "succeed", "fail", "stop", "archive", "restore"}

func (a Move) String() string { return moveNames[a] }

// Do is what must be done, in one transaction, for a status to become the next one.
type Do uint16

const (
	DoQueueRun   Do = 1 << iota // insert a queued run for the operator's message
	DoQueuePend                 // append the message to the pending ones
	DoPromote                   // make the first pending message a message with a queued run
	DoMoveFirst                 // make the named pending message the first
	DoSupersede                 // take what the verb replaces out of the model's context
	DoCancelRun                 // end the active run as cancelled
	DoAskCancel                 // ask the owner of the active run to stop
	DoClaimRun                  // raise the generation and take the lease
	DoReleaseRun                // raise the generation and queue the run again
	DoSucceedRun                // end the active run as succeeded
	DoFailRun                   // end the active run as failed
)

var doNames = []string{"queue run", "queue pending", "promote pending", "move first", "supersede",
	"cancel run", "ask to cancel", "claim run", "release run", "succeed run", "fail run"}

func (d Do) String() string {
	var s []string
	for i, n := range doNames {
		if d&(1<<i) != 0 {
			s = append(s, n)
		}
	}
	return strings.Join(s, ", ")
}

// Next is the table of everything that may happen to a session: the status after the act,
// and what must be done for it. An impossible act is a *Refusal and changes nothing.
//
// A cancel wins: a run that was asked to stop ends as cancelled, however it would have ended.
// A run that does not succeed pauses the pending messages; whatever the operator sends or
// chooses next releases them.
func Next(s Status, a Move) (Status, Do, error) {
	if s.Archived && (a == MovePost || a == MoveRegenerate || a == MoveResume || a == MoveSendNow) {
		return s, 0, &Refusal{Code: CodeConflict, Message: "The session is archived. Restore it first."}
	}
	switch a {
	case MovePost:
		switch {
		case s.Run != "":
			s.Waiting = true
			return s, DoQueuePend, nil
		case s.Waiting: // a paused queue: the message goes to its end and releases it
			s.Run, s.Paused = Queued, false
			return s, DoQueuePend | DoPromote, nil
		}
		s.Run, s.Paused = Queued, false
		return s, DoQueueRun, nil

	case MoveRegenerate, MoveResume:
		do := DoSupersede | DoQueueRun
		switch s.Run {
		case Running:
			return s, 0, &Refusal{Code: CodeRunActive, Message: "A run is going on. Stop it first."}
		case Queued:
			if a == MoveResume || s.Begun {
				return s, 0, &Refusal{Code: CodeRunActive, Message: "A run is queued. Cancel it first."}
			}
			do |= DoCancelRun
		}
		s.Run, s.Paused = Queued, false
		return s, do, nil

	case MoveSendNow:
		if !s.Waiting {
			return s, 0, &Refusal{Code: CodeConflict, Message: "No message is waiting."}
		}
		s.Paused = false
		if s.Run != "" {
			return s, DoMoveFirst, nil
		}
		s.Run = Queued
		return s, DoMoveFirst | DoPromote, nil

	case MoveCancel:
		switch s.Run {
		case Queued, Running:
			switch {
			case s.Stopping:
				return s, 0, nil
			case s.Run == Queued && !s.Begun:
				s.Run, s.Paused = "", s.Waiting
				return s, DoCancelRun, nil
			}
			s.Stopping = true
			return s, DoAskCancel, nil
		}
		return s, 0, nil

	case MoveClaim:
		if s.Run == Queued {
			s.Run, s.Begun = Running, false
			return s, DoClaimRun, nil
		}
	case MoveRelease: // also of a run that was asked to stop: what it has shown must be kept first
		if s.Run == Running {
			s.Run, s.Begun = Queued, true
			return s, DoReleaseRun, nil
		}
	case MoveSucceed:
		if s.Run == Running && !s.Stopping {
			s.Run = ""
			if s.Waiting && !s.Paused {
				s.Run = Queued
				return s, DoSucceedRun | DoPromote, nil
			}
			return s, DoSucceedRun, nil
		}
		if s.Run == Running {
			return Next(s, MoveStop)
		}
	case MoveFail:
		if s.Run == Running && !s.Stopping {
			s.Run, s.Paused = "", s.Waiting
			return s, DoFailRun, nil
		}
		if s.Run == Running {
			return Next(s, MoveStop)
		}
	case MoveStop:
		if s.Run == Running {
			s.Run, s.Stopping, s.Paused = "", false, s.Waiting
			return s, DoCancelRun, nil
		}
	case MoveArchive:
		if s.Run != "" {
			return s, 0, &Refusal{Code: CodeRunActive, Message: "A run is going on. Stop it before you archive the session."}
		}
		s.Archived = true
		return s, 0, nil
	case MoveRestore:
		s.Archived = false
		return s, 0, nil
	}
	return s, 0, &Refusal{Code: CodeConflict, Message: fmt.Sprintf("Cannot %s: the run is %s.", a, orNone(s.Run))}
}

func orNone(s RunState) string {
	if s == "" {
		return "not there"
	}
	return string(s)
}
