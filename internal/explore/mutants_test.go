package explore

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

var hunt = flag.Bool("mutants", false, "build the engine with each planted defect and explore it")

// mutant is a defect: the engine with other text at some places, and the scenario in which the
// explorer is to see it.
type mutant struct {
	name     string
	scenario string
	violates Invariant
	edits    []edit
}

type edit struct{ file, old, new string }

var mutants = []mutant{
	{"evidence is always safe", "answer", NoRepeat, []edit{{"llm/replay/evidence.go",
		"	return why == 0, why\n}\n\n// Verb is", "	return true, 0\n}\n\n// Verb is"}}},
	{"marked after the publish", "answer", MarkFirst, []edit{{"llm/replay/attempt.go",
		"		if a.marks == 0 {\n			if err := a.mark(ctx, seen); err != nil {\n				return err\n			}\n		}\n",
		"		if a.marks == 0 {\n			defer a.mark(ctx, seen)\n		}\n"}}},
	{"tool calls are not held", "tool", Held, []edit{{"llm/replay/attempt.go",
		"		a.calls = true\n", ""}}},
	{"a cancel keeps what was held", "held answer", Held, []edit{{"recovery/do.go",
		"			end = broken.Cut\n", "			end = broken.Keep\n"}}},
	{"a stale generation may send", "second node", Fence, []edit{
		{"session/ledger.go", "case c.State != Running || c.Generation != scope.Generation:", "case c.State != Running:"},
		{"session/nodes.go", "	m.compare(held, own)\n", "	_ = own\n"}}},
	{"a tool starts although its run was cancelled", "tool", CancelWins, []edit{{"session/calls.go",
		"		if run.CancelRequested {\n			return ErrLost\n		}\n", ""}}},
	{"the stored result of a tool is not used", "two tools, then a failure", GoesOn, []edit{{"session/calls.go",
		"case CallEnded, CallDenied, CallRefused:", "case CallDenied, CallRefused:"}}},
	{"the timer does not look at the schedule", "second node, schedule", DispatchOnce, []edit{{"session/retry.go",
		"		if s.Schedule == nil || s.Schedule.Token != was.Token || s.Schedule.State != was.State {\n			return ErrLost\n		}\n", ""}}},
	{"the token is not compared", "two tabs", Token, []edit{{"session/retry.go",
		"	if token != 0 && token != s.Token {", "	if token < 0 {"}}},
	{"the hint is ignored", "hint", Hint, []edit{
		{"recovery/decide.go", "max(time.Duration(b.Jitter*float64(window)), hint)", "time.Duration(b.Jitter*float64(window))"},
		{"recovery/way.go", "		now := time.Now()\n		err := w.read(ctx)\n", "		now := time.Now().Add(time.Hour) // nothing cools off\n		err := w.read(ctx)\n"}}},
	{"what was decided is forgotten in a crash", "failure that stays", Decided, []edit{{"session/execute.go",
		"	if x.run.Claims > 1 {\n		if err := x.heed(", "	if false {\n		if err := x.heed("}}},
	{"a stale owner decides", "second node, schedule", Fence, []edit{{"session/ledger.go",
		"err != nil || c.Generation != x.run.Generation {", "err != nil || c.State == \"\" {"}}},
	{"requests of earlier claims are not counted", "bound", Bound, []edit{{"session/execute.go",
		"x.run.Requests,", "0,"}}},
	{"the output is judged before the fence", "second node", Fence, []edit{
		{"session/execute.go", "		if err = x.writer.claimed(); err == nil {\n			err = x.insist", "		if err == nil {\n			err = x.insist"},
		{"session/restart.go", "		why := failure.Interrupted\n", "		if err := x.writer.claimed(); err != nil {\n			return err\n		}\n		why := failure.Interrupted\n"},
		{"session/ledger.go", "	go func() {\n		defer close(w.done)\n		w.Writer, w.err = log.Claim(ctx, r.SessionID, r.ID, r.Generation)\n	}()",
			"	time.AfterFunc(time.Second, func() {\n		defer close(w.done)\n		w.Writer, w.err = log.Claim(ctx, r.SessionID, r.ID, r.Generation)\n	})"}}},
	{"an open attempt is not sealed by who takes over", "answer", GoesOn, []edit{{"session/restart.go",
		"	if err := tx.SealOpen(r.ID, At(now)); err != nil {\n		return err\n	}\n", "	_ = now\n"}}},
	{"a partial reply is not kept", "answer", Kept, []edit{{"session/execute.go",
		"		if parts := stopped.Output.Parts(); len(parts) > 0 {", "		if parts := stopped.Output.Parts(); len(parts) > 1 {"}}},
	{"nobody takes runs over", "second node", Progress, []edit{{"session/nodes.go",
		"		if s.quiet >= lease {\n", "		if s.quiet < 0 {\n"}}},
	{"a record is appended twice", "answer", Once, []edit{{"session/ledger.go",
		"	return x.writer.Append(ctx, data)\n", "	if err := x.writer.Append(ctx, data); err != nil {\n		return err\n	}\n	return x.writer.Append(ctx, data)\n"}}},
	{"an old owner ends the run again", "second node", OneEnd, []edit{
		{"session/execute.go", "		if run.Generation != x.run.Generation || run.State != Running {\n			return ErrLost\n		}\n		s, st, err := sessionStatus", "		s, st, err := sessionStatus"},
		{"session/execute.go", "PutRun(run, Running, x.run.Generation)", "PutRun(run, Running, run.Generation)"},
		{"session/state.go", "		if s.Run == Running && !s.Stopping {\n			s.Run, s.Paused = \"\", s.Waiting\n			return s, DoFailRun, nil\n		}\n",
			"		if !s.Stopping {\n			s.Run, s.Paused = \"\", s.Waiting\n			return s, DoFailRun, nil\n		}\n"},
		{"store/runs.go", "WHERE id = $1 AND state = $2 AND generation = $3`", "WHERE id = $1 AND $2 <> '' AND generation = $3`"}}},
}

var violated = regexp.MustCompile(`violated: (.*)\n.*\n\s*after (\d+) schedules`)

// The explorer sees each planted defect. Without -mutants the test is that they can be planted.
func TestMutants(t *testing.T) {
	dir := t.TempDir()
	overlay, err := plant(mutants, dir)
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "explore.test")
	if *hunt {
		if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", bin, ".").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if _, err := scenarioNamed(m.scenario); err != nil {
				t.Fatal(err)
			}
			if !*hunt {
				return
			}
			cmd := exec.CommandContext(t.Context(), bin, "-test.run", "^TestExplore$", "-deviations", "2", "-scenario", m.scenario)
			cmd.Env = append(os.Environ(), chosen+"="+m.name)
			out, err := cmd.CombinedOutput()
			found := violated.FindSubmatch(out)
			if err == nil || found == nil {
				t.Fatalf("nobody has seen it: %v\n%s", err, out)
			}
			if got := Invariant(found[1]); got != m.violates {
				t.Errorf("it broke %q, want %q\n%s", got, m.violates, out)
			}
			fmt.Printf("%-50s %s, after %s schedules\n", m.name+":", found[1], found[2])
		})
	}
}
