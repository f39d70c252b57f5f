package session

import (
	"slices"

	"github.com/reprise-run/reprise/llm/replay"
)

// evidenceOf gathers what the ledger holds about a run and those that it continues. A step
// whose output is stored counts as committed: only its tools can speak against going on. A
// request without a record may have had any effect.
func evidenceOf(tx ReadTx, run Run) (replay.RunEvidence, error) {
	last, err := tx.LastMessages(run.SessionID, 1)
	if err != nil {
		return replay.RunEvidence{}, err
	}
	outputs := outputsOf(last, run)
	var evidence []replay.Evidence
	tools, known := map[int]replay.Reasons{}, 0
	for of, own := run, true; ; own = false {
		attempts, err := tx.Attempts(of.ID)
		if err != nil {
			return replay.RunEvidence{}, err
		}
		for _, a := range attempts {
			if !own { // of a step that is committed, or was superseded: part of the whole, not of the tail
				a.Evidence.Scope.Step = min(a.Evidence.Scope.Step, outputs-1)
			} else if a.Evidence.Scope.Step >= outputs {
				known++
			}
			evidence = append(evidence, a.Evidence)
		}
		calls, err := tx.ToolCalls(of.ID)
		if err != nil {
			return replay.RunEvidence{}, err
		}
		for _, c := range calls {
			if c.StartedAt == 0 {
				continue
			}
			step := c.Step
			if c.State == CallStarted && !c.resumes() || c.State == CallUnknown {
				step = outputs // nobody knows how it ended: it speaks against any way on
			}
			tools[step] |= replay.ToolStarted
		}
		marks, err := tx.HookMarks(of.ID)
		if err != nil {
			return replay.RunEvidence{}, err
		}
		for _, h := range marks {
			step := h.Step
			if !own {
				step = min(step, outputs-1)
			}
			tools[step] |= replay.HookRan
		}
		if of.Continues == "" {
			if known < run.Requests {
				tools[outputs] |= replay.Missing
			}
			return replay.Gather(string(run.ID), outputs, evidence, tools), nil
		}
		if of, err = tx.Run(of.Continues); err != nil {
			return replay.RunEvidence{}, err
		}
	}
}

// outputsOf counts the run's steps whose output is stored: the committed ones, and one whose
// tools' results are not. Behind the message of a run that continues another there are only rows
// of it and of those that it continues. rows are the session's, or the newest of them.
func outputsOf(rows []Message, run Run) int {
	n := run.Steps
	if len(rows) > 0 {
		last := rows[len(rows)-1]
		ours := last.RunID == run.ID || run.Continues != ""
		if ours && last.Role == RoleReply && last.Step == n && last.Interrupted == "" && asks(last.Parts) {
			n++
		}
	}
	return n
}

// hooksOf names the hooks with an effect that were told of something in the run, or in one that it
// continues.
func hooksOf(tx ReadTx, run Run) (names []string, err error) {
	for {
		marks, err := tx.HookMarks(run.ID)
		if err != nil {
			return nil, err
		}
		for _, h := range marks {
			names = append(names, h.Hook)
		}
		if run.Continues == "" {
			slices.Sort(names)
			return slices.Compact(names), nil
		}
		if run, err = tx.Run(run.Continues); err != nil {
			return nil, err
		}
	}
}
