package explore

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// schedule is what tells a schedule from the default: at these steps another choice than the
// first was taken.
type schedule []deviation

type deviation struct {
	step  int
	label string
}

// point is a step at which there were other choices than the default.
type point struct {
	step   int
	labels []string
}

func (s schedule) String() string {
	var list []string
	for _, d := range s {
		list = append(list, fmt.Sprintf("%d=%s", d.step, d.label))
	}
	return strings.Join(list, "; ")
}

// parseSchedule reads what String writes.
func parseSchedule(text string) (s schedule, err error) {
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part == "" || part == "default" {
			continue
		}
		step, label, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(step)
		if err != nil {
			return nil, fmt.Errorf("schedule %q: want STEP=CHOICE; STEP=CHOICE", text)
		}
		s = append(s, deviation{n, label})
	}
	return s, nil
}

// children are the schedules with one deviation more, after the last.
func (s schedule) children(open []point) []schedule {
	var list []schedule
	for _, p := range open {
		for _, l := range p.labels {
			list = append(list, append(s[:len(s):len(s)], deviation{p.step, l}))
		}
	}
	return list
}

// search goes through the scenarios' schedules, those with fewer deviations first: the first
// counterexample is one of the shortest.
type search struct {
	scenarios []*scenario
	counts    map[*scenario][]int // by deviations

	mu     sync.Mutex
	queue  []task    // what is left of the level
	done   []task    // what was played of it
	next   []task    // the level after it
	beyond int       // how many schedules the level after the bound has
	until  time.Time // no more is taken then; zero: never
	played int
	steps  int
	bad    map[Invariant]bool
}

// task is a schedule to play.
type task struct {
	sc *scenario
	s  schedule
}

func newSearch() *search {
	s := &search{counts: map[*scenario][]int{}, bad: map[Invariant]bool{}}
	for _, sc := range scenarios {
		if *named == "" || *named == sc.name {
			s.scenarios = append(s.scenarios, sc)
			s.next = append(s.next, task{sc, nil})
		}
	}
	return s
}

// chunk is how many schedules share a bubble and a database.
const chunk = 250

// level plays every schedule with so many deviations.
func (s *search) level(t *testing.T, deviations, bound int) {
	s.queue, s.next, s.done = s.next, nil, nil
	s.work(t, fmt.Sprintf("%d deviations", deviations), chunk, func(t *testing.T, l *lab, k task) {
		r := l.play(k.sc, k.s, nil)
		children := s.judge(t, k, r)
		s.mu.Lock()
		defer s.mu.Unlock()
		if deviations < bound {
			for _, c := range children {
				s.next = append(s.next, task{k.sc, c})
			}
			return
		}
		s.beyond += len(children)
		s.done = append(s.done, k)
	})
}

// sample plays schedules with one deviation more than the last level's, for about so long: in
// random order all that follow from one of those, then from another.
func (s *search) sample(t *testing.T, long time.Duration) {
	s.queue, s.done, s.until = s.done, nil, time.Now().Add(long)
	rand.Shuffle(len(s.queue), func(i, j int) { s.queue[i], s.queue[j] = s.queue[j], s.queue[i] })
	s.work(t, "further", 4, func(t *testing.T, l *lab, k task) {
		for _, c := range k.s.children(l.play(k.sc, k.s, nil).open) {
			s.judge(t, task{k.sc, c}, l.play(k.sc, c, nil))
		}
	})
}

// work hands the queue to the workers, some tasks at a time.
func (s *search) work(t *testing.T, name string, n int, do func(t *testing.T, l *lab, k task)) {
	t.Run(name, func(t *testing.T) {
		for range workers {
			t.Run("worker", func(t *testing.T) {
				t.Parallel()
				for tasks := s.take(n); len(tasks) > 0; tasks = s.take(n) {
					synctest.Test(t, func(t *testing.T) {
						l := newLab(t)
						defer l.close()
						for _, k := range tasks {
							do(t, l, k)
						}
					})
				}
			})
		}
	})
}

func (s *search) take(n int) []task {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bad) > 0 || !s.until.IsZero() && time.Now().After(s.until) {
		return nil
	}
	n = min(n, len(s.queue))
	tasks := s.queue[:n]
	s.queue = s.queue[n:]
	return tasks
}

// judge counts a schedule and returns what follows from it. One counterexample of an invariant
// is told.
func (s *search) judge(t *testing.T, k task, r result) []schedule {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.played++; s.played%5000 == 0 {
		fmt.Printf("%d schedules so far\n", s.played)
	}
	s.steps += r.steps
	for len(s.counts[k.sc]) <= len(k.s) {
		s.counts[k.sc] = append(s.counts[k.sc], 0)
	}
	s.counts[k.sc][len(k.s)]++
	if r.invariant == "" {
		return k.s.children(r.open)
	}
	if !s.bad[r.invariant] {
		s.bad[r.invariant] = true
		name := k.s.String()
		if name == "" {
			name = "default"
		}
		t.Errorf("violated: %s\n%s\nafter %d schedules, in scenario %q; see what happened:\n  go test ./internal/explore -run TestReplay -scenario %q -schedule %q",
			r.invariant, r.detail, s.played, k.sc.name, k.sc.name, name)
	}
	return nil
}

// table says how many schedules each scenario has, by deviations.
func (s *search) table() string {
	var b strings.Builder
	for _, sc := range s.scenarios {
		fmt.Fprintf(&b, "  %-28s %v\n", sc.name, strings.Trim(fmt.Sprint(s.counts[sc]), "[]"))
	}
	return b.String()
}
