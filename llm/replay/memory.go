package replay

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/reprise-run/reprise/llm"
)

// Bounds of a Memory ledger.
const (
	MemoryAttempts = 1024
	MemoryRuns     = 256
)

// Memory is a ledger that lives as long as its process. It keeps the newest MemoryAttempts
// attempts and MemoryRuns runs; evidence of what it dropped is StateEvicted, and requests of
// a run that it dropped are stale. Safe for concurrent use.
type Memory struct {
	mu       sync.Mutex
	attempts ring[Evidence]
	runs     ring[memoryRun]
}

type memoryRun struct {
	generation int64
	cancelled  error
}

// NewMemory returns an empty ledger.
func NewMemory() *Memory {
	return &Memory{
		attempts: ring[Evidence]{limit: MemoryAttempts, byKey: map[string]*Evidence{}},
		runs:     ring[memoryRun]{limit: MemoryRuns, byKey: map[string]*memoryRun{}},
	}
}

// Claim begins a run, or takes it over: its generation grows, and what the older one left
// open is stale from now on. It returns the new generation.
func (m *Memory) Claim(run string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs.byKey[run]
	if r == nil {
		r = m.runs.put(run, memoryRun{})
	}
	r.generation++
	return r.generation
}

// Cancel lets no further attempt of the run begin; cause says why.
func (m *Memory) Cancel(run string, cause error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.runs.byKey[run]; r != nil && r.cancelled == nil {
		r.cancelled = cause
	}
}

func (m *Memory) check(s llm.Scope) error {
	r := m.runs.byKey[s.Run]
	if r == nil || r.generation != s.Generation {
		return fmt.Errorf("run %s, generation %d: %w", s.Run, s.Generation, ErrStale)
	}
	if r.cancelled != nil {
		return fmt.Errorf("run %s: %w: %w", s.Run, ErrStale, r.cancelled)
	}
	return nil
}

// Check implements Ledger.
func (m *Memory) Check(_ context.Context, s llm.Scope) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.check(s)
}

// Open implements Ledger. Ids are the attempts' numbers, from 1.
func (m *Memory) Open(_ context.Context, o Opening) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.check(o.Scope); err != nil {
		return "", err
	}
	id := strconv.Itoa(m.attempts.made + 1)
	m.attempts.put(id, Evidence{Scope: o.Scope, Attempt: id, State: StateOpen, Remote: o.Remote})
	return id, nil
}

// Mark implements Ledger.
func (m *Memory) Mark(_ context.Context, s llm.Scope, attempt string, effects Reasons) error {
	return m.change(s, attempt, func(e *Evidence) { e.Marks |= effects & Effects })
}

// Seal implements Ledger.
func (m *Memory) Seal(_ context.Context, s llm.Scope, attempt string, seal Seal) error {
	return m.change(s, attempt, func(e *Evidence) {
		e.State = StateSealed
		e.Marks |= seal.Marks & Effects
		e.Published, e.Delivery = seal.Published, seal.Delivery
	})
}

// change alters the record of an attempt of the current generation. A cancelled run's
// attempts still take marks and seals: they say what has happened.
func (m *Memory) change(s llm.Scope, attempt string, f func(*Evidence)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, e := m.runs.byKey[s.Run], m.attempts.byKey[attempt]
	if r == nil || r.generation != s.Generation || e == nil || e.Scope != s {
		return fmt.Errorf("attempt %s of run %s, generation %d: %w", attempt, s.Run, s.Generation, ErrStale)
	}
	f(e)
	return nil
}

// Evidence implements Ledger.
func (m *Memory) Evidence(_ context.Context, s llm.Scope, attempt string) (Evidence, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.attempts.byKey[attempt]
	if e == nil {
		gone := Evidence{Scope: s, Attempt: attempt}
		if n, err := strconv.Atoi(attempt); err == nil && n > 0 && n <= m.attempts.made {
			gone.State = StateEvicted
		}
		return gone, nil
	}
	ev := *e
	if r := m.runs.byKey[e.Scope.Run]; r == nil {
		ev.State = StateEvicted
	} else if r.generation != e.Scope.Generation {
		ev.State = StateStale
	}
	return ev, nil
}

// ring keeps the newest entries by key.
type ring[T any] struct {
	limit int
	made  int
	order []string // the keys held, oldest at made % limit once full
	byKey map[string]*T
}

func (r *ring[T]) put(key string, v T) *T {
	if len(r.order) < r.limit {
		r.order = append(r.order, key)
	} else {
		oldest := &r.order[r.made%r.limit]
		delete(r.byKey, *oldest)
		*oldest = key
	}
	r.made++
	r.byKey[key] = &v
	return &v
}
