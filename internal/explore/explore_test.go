// Package explore proves the engine by trying what may happen: it plays schedules of the real
// session.Manager, with recovery, agent and llm/replay in it, over the real store, under a
// scheduler that decides what happens next, and judges each of them from outside.
//
// A schedule runs in a bubble of testing/synctest. Whatever a manager asks of store, log,
// provider and tools parks until the scheduler grants it, one call at a time and only when
// nothing moves any more. The default grants what was asked for first; when nothing is asked for
// it lets time pass to the next timer. A deviation is any other choice: another call first, a
// provider that fails, a context that ended meanwhile, a transaction that runs twice, a process
// that dies, a node that is cut off until its lease has ended, an act of the operator. Explored is
// every schedule of every scenario with up to a number of deviations.
//
// docs/proof.md says what that proves, and what it does not.
package explore

import (
	"bytes"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	deviations = flag.Int("deviations", bound, "explore every schedule with up to so many deviations")
	further    = flag.Duration("for", 0, "go on for so long with one deviation more")
	named      = flag.String("scenario", "", "the only scenario to explore, or to replay a schedule of")
	replayed   = flag.String("schedule", "", "with TestReplay and -scenario: play this schedule and print what happens")
)

// Every schedule up to the bound keeps every invariant.
func TestExplore(t *testing.T) {
	s := newSearch()
	began := time.Now()
	for d := range *deviations + 1 {
		s.level(t, d, *deviations)
		if t.Failed() {
			return
		}
	}
	fmt.Printf("explored %d schedules, %d steps, in %v: every one of %d scenarios with up to %d deviations\n%s",
		s.played, s.steps, time.Since(began).Round(time.Second), len(s.scenarios), *deviations, s.table())
	if *further == 0 {
		return
	}
	before := s.played
	s.sample(t, *further)
	fmt.Printf("and %d of the %d schedules with %d deviations, at random\n", s.played-before, s.beyond, *deviations+1)
}

// TestReplay plays a schedule that was printed for a failure. Without one it plays some of each
// scenario twice: what happens is the same to the letter.
func TestReplay(t *testing.T) {
	if *replayed != "" {
		sc, err := scenarioNamed(*named)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseSchedule(*replayed)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		var r result
		synctest.Test(t, func(t *testing.T) { r = newLab(t).once(sc, s, &out) })
		fmt.Print(out.String())
		if r.invariant != "" {
			t.Errorf("%s: %s", r.invariant, r.detail)
		}
		return
	}
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t)
				defer l.close()
				var out [2]bytes.Buffer
				for i := range out {
					r := l.play(sc, nil, &out[i])
					for j, s := range schedule(nil).children(r.open) {
						if j%stride == 0 {
							l.play(sc, s, &out[i])
						}
					}
				}
				if !bytes.Equal(out[0].Bytes(), out[1].Bytes()) {
					t.Errorf("first it was\n%s\nand then\n%s", out[0].Bytes(), out[1].Bytes())
				}
			})
		})
	}
}

// workers is how many schedules are played at the same time.
var workers = runtime.GOMAXPROCS(0)
