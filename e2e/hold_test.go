package e2e

import (
	"testing"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/session"
)

// N13: with the policy whole for the session's chain, text that came before a typed 429 leaves
// no trace: one reply, shown once, to an observer, in the history and after a reload.
func TestHeldTextLeavesNoTrace(t *testing.T) {
	limit := rehearsal.Step{Do: rehearsal.Failed, Fault: &rehearsal.Fault{Kind: rehearsal.RateLimited}}
	shown := tokens("shown", 20)
	up := newUpstream(t, script("limited", time.Millisecond, rehearsal.Take{say(tokens("held", 20)), limit}, rehearsal.Take{say(shown)}))
	s := serve(t, up.config("limited", "recovery: {holds: {default: whole}, tier1: {base: 1ms}}"))
	id := s.session("default")
	o := watch(s, id)
	r := s.post(id, "hi")
	if run := o.end(r.RunID); run.State != session.Succeeded {
		t.Fatalf("%+v", run)
	}
	if got := o.shown(r.RunID, 0); got != shown {
		t.Errorf("an observer saw %q", got)
	}
	rows := s.messages(id)
	if len(rows) != 2 || textOf(rows[1].Parts) != shown || rows[1].Interrupted != "" {
		t.Errorf("rows %+v", rows)
	}
	attempts := s.attempts(id, r.RunID)
	if len(attempts) != 2 || !attempts[0].Decision.Safe || attempts[0].Cost == nil || *attempts[0].Cost != (llm.Cost{Kind: llm.CostUnknown}) {
		t.Errorf("attempts %+v", attempts)
	}
}
