package session

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/states.md")

func statuses() (all []Status) {
	for _, run := range []RunState{"", Queued, Running} {
		for i := range 32 {
			s := Status{Run: run, Stopping: i&1 != 0, Waiting: i&2 != 0, Paused: i&4 != 0, Archived: i&8 != 0, Begun: i&16 != 0}
			if s.Begun && run != Queued || s.Stopping && run != Running && !s.Begun || s.Paused && !s.Waiting || s.Archived && run != "" {
				continue // cannot be
			}
			all = append(all, s)
		}
	}
	return all
}

// TestStates checks the table for every status and every move. K-024, K-036, K-041, K-043,
// K-044, K-078.
func TestStates(t *testing.T) {
	for _, s := range statuses() {
		for m := Move(1); m < moves; m++ {
			next, do, err := Next(s, m)
			name := fmt.Sprintf("%+v, %s → %+v, %s", s, m, next, do)
			var no *Refusal
			if err != nil {
				if !errors.As(err, &no) || next != s || do != 0 {
					t.Errorf("%s: a refusal that changes something: %v", name, err)
				}
				continue
			}
			ends := do & (DoCancelRun | DoSucceedRun | DoFailRun | DoReleaseRun)
			starts := do & (DoQueueRun | DoPromote)
			switch {
			case starts != 0 && s.Run != "" && ends == 0:
				t.Errorf("%s: a second run beside the active one", name)
			case starts != 0 && next.Run != Queued:
				t.Errorf("%s: a run is queued and the state does not say so", name)
			case ends&(ends-1) != 0:
				t.Errorf("%s: two ends", name)
			case s.Stopping && do&(DoSucceedRun|DoFailRun) != 0:
				t.Errorf("%s: a run that was asked to stop ends otherwise", name)
			case s.Begun && do&DoCancelRun != 0:
				t.Errorf("%s: what it has shown is dropped", name)
			case next.Paused && starts != 0:
				t.Errorf("%s: something starts and the queue stays paused", name)
			case do&DoPromote != 0 && !s.Waiting && do&DoQueuePend == 0:
				t.Errorf("%s: promotes what is not there", name)
			case s.Archived && starts != 0:
				t.Errorf("%s: an archived session starts something", name)
			}
		}
	}
}

// TestStatesDocument keeps docs/states.md equal to the table; -update rewrites it.
func TestStatesDocument(t *testing.T) {
	var b strings.Builder
	b.WriteString("# What may happen to a session\n\nGenerated from `session/state.go` by `make generate`. A dash means that the move is refused.\n" +
		"Each cell says the status after the move and, behind the colon, what is done in the same transaction.\n\n| status |")
	for m := Move(1); m < moves; m++ {
		fmt.Fprintf(&b, " %s |", m)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", int(moves)-1) + "\n")
	for _, s := range statuses() {
		fmt.Fprintf(&b, "| **%s** |", word(s))
		for m := Move(1); m < moves; m++ {
			next, do, err := Next(s, m)
			switch {
			case err != nil:
				b.WriteString(" – |")
			case do == 0 && next == s:
				b.WriteString(" no change |")
			case do == 0:
				fmt.Fprintf(&b, " %s |", word(next))
			default:
				fmt.Fprintf(&b, " %s: %s |", word(next), do)
			}
		}
		b.WriteString("\n")
	}
	const file = "../docs/states.md"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != b.String() {
		t.Errorf("%s is not what the table says; run make generate (%v)", file, err)
	}
}

func word(s Status) string {
	w := "idle"
	if s.Run != "" {
		w = string(s.Run)
	}
	for _, x := range []struct {
		on   bool
		name string
	}{{s.Begun, "begun"}, {s.Stopping, "stopping"}, {s.Waiting, "messages waiting"}, {s.Paused, "paused"}, {s.Archived, "archived"}} {
		if x.on {
			w += ", " + x.name
		}
	}
	return w
}
