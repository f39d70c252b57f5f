// Package storetest holds what every session.Store must do, as tests. An implementation
// calls Run with a function that makes empty databases.
package storetest

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/session"
)

// Create makes an empty database that lives as long as the test. The function that it
// returns opens the database, also several times at once and again after a close.
type Create func(t testing.TB) (open func() (session.Store, error))

// Run tests the stores that create makes.
func Run(t *testing.T, create Create) {
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"Sessions", sessions},
		{"SessionDerived", sessionDerived},
		{"SessionList", sessionList},
		{"MessagePositions", messagePositions},
		{"MessagePages", messagePages},
		{"MessagesImmutable_K060_K072_K073", messagesImmutable},
		{"Supersede_K066_K067_K071", supersede},
		{"SupersedeOneRun", supersedeOneRun},
		{"SupersedeCompaction", supersedeCompaction},
		{"FailureOnLastRow", failureOnLastRow},
		{"Pending", pending},
		{"OneActiveRun", oneActiveRun},
		{"PutRun", putRun},
		{"TerminalOnce_K041", terminalOnce},
		{"RunLists", runLists},
		{"Nodes", nodes},
		{"Viewers_K124", viewers},
		{"ClaimRace", claimRace},
		{"InsertRunRace", insertRunRace},
		{"OpenAttempt", openAttempt},
		{"Marks", marks},
		{"Seals", seals},
		{"LateMark_F20_N36", lateMark},
		{"WrongScope", wrongScope},
		{"SealOpen", sealOpen},
		{"HookMarks_F10", hookMarks},
		{"MissingEvidence_F14_F16", missingEvidence},
		{"Decisions", decisions},
		{"MarkRace", markRace},
		{"Spend", spend},
		{"SpendRace_K155", spendRace},
		{"CoolOffs_F74", coolOffs},
		{"CoolOffRace_F74", coolOffRace},
		{"CoolOffLifted", coolOffLifted},
		{"Fences", fences},
		{"FencesBounded", fencesBounded},
		{"ClientKeys", clientKeys},
		{"ClientUsage_K155_K158", clientUsage},
		{"ClientSpendRace_K155", clientSpendRace},
		{"GatewayCalls", gatewayCalls},
		{"ToolCalls", toolCalls},
		{"Approvals", approvals},
		{"Subagents", subagents},
		{"UnknownWords", unknownWords},
		{"Outbox", outbox},
		{"Idempotency", idempotency},
		{"Audit", audit},
		{"Meta", meta},
		{"Rollback", rollback},
		{"Reopen_K032", reopen},
		{"Snapshot", snapshot},
		{"OverTransaction", overTransaction},
		{"Panic", panics},
		{"Contexts", contexts},
		{"Close", closing},
		{"OpenTogether", openTogether},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newWorld(t, create)) })
	}
	t.Run("GroupIndependence", func(t *testing.T) { groupIndependence(t, create) })
	t.Run("GroupContext", func(t *testing.T) { groupContext(t, create) })
	t.Run("GroupPanic", func(t *testing.T) { groupPanic(t, create) })
}

// t0 is when the tests begin.
const t0 session.Time = 1_790_000_000_000

// world is one database, opened once, and the test that uses it.
type world struct {
	testing.TB
	open func() (session.Store, error)
	s    session.Store
}

func newWorld(t testing.TB, create Create) *world {
	t.Helper()
	w := &world{TB: t, open: create(t)}
	w.s = w.another()
	return w
}

// another opens the database once more.
func (w *world) another() session.Store {
	w.Helper()
	s, err := w.open()
	if err != nil {
		w.Fatalf("open: %v", err)
	}
	w.Cleanup(func() { s.Close() })
	return s
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) is(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Fatalf("error %v, want %v", err, want)
	}
}

func (w *world) update(f func(tx session.Tx) error) error {
	return w.s.Update(w.Context(), session.Soft, f)
}

// do updates and expects no error.
func (w *world) do(f func(tx session.Tx) error) {
	w.Helper()
	w.ok(w.update(f))
}

// lost updates and expects ErrLost.
func (w *world) lost(f func(tx session.Tx) error) {
	w.Helper()
	w.is(w.update(f), session.ErrLost)
}

// read reads one value and expects no error.
func read[T any](w *world, f func(tx session.ReadTx) (T, error)) (v T) {
	w.Helper()
	w.ok(w.s.View(w.Context(), func(tx session.ReadTx) (err error) {
		v, err = f(tx)
		return err
	}))
	return v
}

// same compares two values by their JSON, which is what everybody else sees of them.
func (w *world) same(what string, got, want any) {
	w.Helper()
	g, err := json.Marshal(got)
	w.ok(err)
	x, err := json.Marshal(want)
	w.ok(err)
	if string(g) != string(x) {
		w.Fatalf("%s:\n got %s\nwant %s", what, g, x)
	}
}

// session stores a session.
func (w *world) session(id session.ID) session.Session {
	w.Helper()
	s := session.Session{ID: id, Title: "A title", Model: "rehearsal/steady", Actor: "ann",
		CreatedAt: t0, UpdatedAt: t0, Revision: 1, State: session.Idle}
	w.do(func(tx session.Tx) error { return tx.InsertSession(s) })
	return s
}

// queued stores a queued run of a session.
func (w *world) queued(id session.RunID, of session.ID) session.Run {
	w.Helper()
	r := newRun(id, of)
	w.do(func(tx session.Tx) error { return tx.InsertRun(r) })
	return r
}

func newRun(id session.RunID, of session.ID) session.Run {
	return session.Run{ID: id, SessionID: of, MessageID: "msg_1", State: session.Queued,
		Trigger: session.TriggerMessage, Actor: "ann", Model: "rehearsal/steady", QueuedAt: t0,
		Routing: session.Routing{NoFallback: true, Key: "env:A"}}
}

// running stores a run and claims it.
func (w *world) running(id session.RunID, of session.ID) session.Run {
	w.Helper()
	r := w.queued(id, of)
	return w.move(r, session.Running)
}

// move puts a run into another state; a claim raises its generation.
func (w *world) move(r session.Run, to session.RunState) session.Run {
	w.Helper()
	from, generation := r.State, r.Generation
	r.State = to
	if to == session.Running {
		r.Generation++
		r.Claims++
		r.StartedAt = t0 + 1
	}
	if to.Terminal() {
		r.EndedAt = t0 + 9
	}
	w.do(func(tx session.Tx) error { return tx.PutRun(r, from, generation) })
	return r
}

// run reads a run, and checks that what its owner asks for says the same.
func (w *world) run(id session.RunID) session.Run {
	w.Helper()
	return read(w, func(tx session.ReadTx) (session.Run, error) {
		r, err := tx.Run(id)
		if err != nil {
			return r, err
		}
		c, err := tx.Claimed(id)
		w.same("claimed", c, session.Claimed{State: r.State, Generation: r.Generation, CancelRequested: r.CancelRequested})
		return r, err
	})
}

// message stores a message and returns it with its position.
func (w *world) message(m session.Message) session.Message {
	w.Helper()
	if m.Parts == nil {
		m.Parts = []llm.Part{llm.Text("words of " + string(m.ID))}
	}
	if m.CreatedAt == 0 {
		m.CreatedAt = t0
	}
	w.do(func(tx session.Tx) (err error) {
		m.Position, err = tx.InsertMessage(m)
		return err
	})
	return m
}

func (w *world) messages(id session.ID, superseded bool) []session.Message {
	w.Helper()
	return read(w, func(tx session.ReadTx) ([]session.Message, error) {
		return tx.Messages(id, superseded, 0, 0)
	})
}

func ids(messages []session.Message) []session.MessageID {
	list := make([]session.MessageID, len(messages))
	for i, m := range messages {
		list[i] = m.ID
	}
	return list
}

// scope is that of the first step of a run, in its generation.
func scope(r session.Run) llm.Scope {
	return llm.Scope{Session: string(r.SessionID), Run: string(r.ID), Lineage: llm.LineageMain,
		Generation: r.Generation}
}

func newAttempt(id session.AttemptID, r session.Run) session.Attempt {
	return session.Attempt{ID: id, RunID: r.ID, SessionID: r.SessionID, Provider: "rehearsal",
		Model: "steady", OpenedAt: t0 + 2, Evidence: replay.Evidence{Scope: scope(r)}}
}

// opened stores an open attempt of a run.
func (w *world) opened(id session.AttemptID, r session.Run) {
	w.Helper()
	w.do(func(tx session.Tx) error {
		_, err := tx.OpenAttempt(newAttempt(id, r))
		return err
	})
}

func (w *world) attempt(id session.AttemptID) session.Attempt {
	w.Helper()
	return read(w, func(tx session.ReadTx) (session.Attempt, error) { return tx.Attempt(id) })
}
