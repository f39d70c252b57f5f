package recovery_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/llmtest"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// memory is the state of credentials as a map, with the generations that the contract asks
// for.
type memory struct {
	mu   sync.Mutex
	rows map[recovery.Lane]recovery.CoolOff

	generation int64
	opened     chan struct{}
}

func (m *memory) Opened() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.opened == nil {
		m.opened = make(chan struct{})
	}
	return m.opened
}

func (m *memory) CoolOffs(context.Context) ([]recovery.CoolOff, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.rows)), nil
}

func (m *memory) CoolOff(_ context.Context, c recovery.CoolOff) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows == nil {
		m.rows = map[recovery.Lane]recovery.CoolOff{}
	}
	old := m.rows[c.Lane]
	m.generation++
	c.Generation = m.generation
	if old.Until.After(c.Until) {
		c.Until, c.Stated = old.Until, old.Stated
	}
	m.rows[c.Lane] = c
	return nil
}

func (m *memory) Probe(_ context.Context, lanes []recovery.CoolOff, until time.Time) (taken []recovery.CoolOff, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range lanes {
		if m.rows[l.Lane].Generation != l.Generation {
			return nil, nil
		}
	}
	for _, l := range lanes {
		m.generation++
		l.Probed, l.Generation = until, m.generation
		m.rows[l.Lane] = l
		taken = append(taken, l)
	}
	return taken, nil
}

func (m *memory) Settle(_ context.Context, lanes []recovery.CoolOff, answered bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range lanes {
		switch old := m.rows[l.Lane]; {
		case old.Generation != l.Generation:
		case answered:
			delete(m.rows, l.Lane)
			if m.opened != nil {
				close(m.opened)
				m.opened = nil
			}
		default:
			old.Probed = time.Time{}
			m.generation++
			old.Generation = m.generation
			m.rows[l.Lane] = old
		}
	}
	return nil
}

// crowd is a provider that is limited until a time, and slow to answer then.
type crowd struct {
	until      time.Time
	busy       bool // it says that the model is, and nothing of the key
	mu         sync.Mutex
	early, now int // requests before the time; at work
	most       int // at work at once before the first answer
	answered   bool
	times      []time.Duration
	began      time.Time
}

func (c *crowd) Name() string { return "alpha" }

func (c *crowd) Stream(ctx context.Context, p llm.Permit, _ *llm.Request) (llm.Stream, error) {
	if err := p.Spend(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times = append(c.times, time.Since(c.began))
	if time.Now().Before(c.until) {
		c.early++
		if c.busy {
			return nil, &failure.Failure{Class: failure.Overloaded, Retryable: true, Status: 503, NotBefore: c.until}
		}
		return nil, &failure.Failure{Class: failure.RateLimited, Retryable: true, Status: 429, NotBefore: c.until}
	}
	if c.now++; !c.answered {
		c.most = max(c.most, c.now)
	}
	return &slow{c: c}, nil
}

type slow struct {
	c *crowd
	n int
}

func (s *slow) Next() (llm.Event, error) {
	if s.n++; s.n == 1 {
		<-time.After(3 * time.Second)
		s.c.mu.Lock()
		defer s.c.mu.Unlock()
		s.c.answered = true
		return llm.Event{Kind: llm.EventText, Text: "hello"}, nil
	}
	return llm.Event{Kind: llm.EventDone, Stop: llm.StopEnd}, nil
}

func (s *slow) Ready() bool  { return s.n == 1 }
func (s *slow) Close() error { return nil }

// patient adds up how long it waited for who cools off.
type patient struct {
	teller
	waited time.Duration
}

func (p *patient) Chosen(c recovery.Choice) { p.waited += c.Waited }

// F74: sessions that share a limited key wait together. At the reset one of them tries, the
// others follow when it is answered, and not all at the same moment.
func TestAResetIsNoStampede(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{until: time.Now().Add(20 * time.Second), began: time.Now()}
		state := &memory{}
		entries := []recovery.Entry{{Provider: "alpha", Model: "large", Keys: []recovery.Key{{Label: "A", Hash: "hash", Provider: c}}}}
		var wg sync.WaitGroup
		var failed atomic.Int32
		var waited atomic.Int64
		for i := range 12 {
			wg.Go(func() {
				ledger := replay.NewMemory()
				scope := llm.Scope{Session: "ses", Run: "run", Lineage: llm.LineageMain, Generation: ledger.Claim("run")}
				w := &patient{teller: teller{began: c.began}}
				plan := recovery.Plan{Policy: recovery.DefaultPolicy(), Trace: w, Jitter: func() float64 { return float64(i) / 12 },
					Route: &recovery.Route{Entries: func() []recovery.Entry { return entries }, State: state, Person: true}}
				gate := replay.New(scope, ledger, replay.Operator{Actor: "ann", Message: "msg"})
				if _, err := recovery.Do(t.Context(), plan, gate, w, &llm.Request{}); err != nil {
					failed.Add(1)
					t.Errorf("session %d: %v\n%s", i, err, w)
				}
				waited.Add(int64(w.waited))
			})
		}
		wg.Wait()
		if failed.Load() > 0 || c.most != 1 {
			t.Errorf("%d of 12 failed, %d tried at once: %v", failed.Load(), c.most, c.times)
		}
		if c.early > 12 {
			t.Errorf("%d requests before the reset: %v", c.early, c.times)
		}
		if left, _ := state.CoolOffs(t.Context()); len(left) != 0 {
			t.Errorf("still cooling: %+v", left)
		}
		after := map[time.Duration]int{}
		for _, at := range c.times {
			if at > 20*time.Second {
				after[at]++
			}
		}
		if all := time.Duration(waited.Load()); all == 0 || all > 12*(c.times[len(c.times)-1]-20*time.Second) {
			t.Errorf("%s of waits are told of, with requests at %v", all, c.times)
		}
		if len(after) < 8 {
			t.Errorf("they came together: %v", c.times)
		}
	})
}

// A first refusal for a moment speaks for its own request: one other tries at once, and when that
// is refused too, nobody does before the time. A longer one speaks for the key.
func TestAMomentIsDoubted(t *testing.T) {
	for _, c := range []struct {
		wait  time.Duration
		busy  bool
		early int
	}{{time.Second, false, 2}, {2 * time.Second, false, 2}, {3 * time.Second, false, 1}, {time.Second, true, 2}, {3 * time.Second, true, 1}} {
		synctest.Test(t, func(t *testing.T) {
			crowd := &crowd{until: time.Now().Add(c.wait), busy: c.busy, began: time.Now()}
			entries := []recovery.Entry{{Provider: "alpha", Model: "large", Keys: []recovery.Key{{Label: "A", Hash: "hash", Provider: crowd}}}}
			state := new(memory)
			var all sync.WaitGroup
			for i := range 6 {
				all.Go(func() {
					<-time.After(time.Duration(i) * 50 * time.Millisecond)
					ledger := replay.NewMemory()
					scope := llm.Scope{Session: "ses", Run: "run", Lineage: llm.LineageMain, Generation: ledger.Claim("run")}
					plan := recovery.Plan{Policy: recovery.DefaultPolicy(), Trace: &patient{teller: teller{began: crowd.began}},
						Route: &recovery.Route{Entries: func() []recovery.Entry { return entries }, State: state, Going: true}}
					gate := replay.New(scope, ledger, replay.Operator{Actor: "ann", Message: "msg"})
					if _, err := recovery.Do(t.Context(), plan, gate, &patient{teller: teller{began: crowd.began}}, &llm.Request{}); err != nil {
						t.Errorf("request %d: %v", i, err)
					}
				})
			}
			all.Wait()
			if crowd.early != c.early || crowd.most != 1 {
				t.Errorf("%s: %d requests before the time, %d tried at once after it: %v", c.wait, crowd.early, crowd.most, crowd.times)
			}
		})
	}
}

// A probe that ends without an answer, by a cancel, is given back: the next one tries.
func TestACancelledProbeIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := &memory{}
		lane := recovery.Lane{Key: "hash", Model: "alpha/large"}
		if err := state.CoolOff(t.Context(), recovery.CoolOff{Lane: lane, Until: time.Now().Add(time.Second)}); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		p := llmtest.Script([]llmtest.Step{{Stall: true}}, []llmtest.Step{llmtest.Text("hello"), llmtest.Done(llm.StopEnd)})
		entries := []recovery.Entry{{Provider: "alpha", Model: "large", Keys: []recovery.Key{{Hash: "hash", Provider: p}}}}
		do := func(ctx context.Context) error {
			ledger := replay.NewMemory()
			scope := llm.Scope{Session: "ses", Run: "run", Lineage: llm.LineageMain, Generation: ledger.Claim("run")}
			w := &teller{began: time.Now()}
			plan := recovery.Plan{Policy: recovery.DefaultPolicy(), Trace: w,
				Route: &recovery.Route{Entries: func() []recovery.Entry { return entries }, State: state}}
			_, err := recovery.Do(ctx, plan, replay.New(scope, ledger, replay.Operator{Actor: "ann", Message: "msg"}), w, &llm.Request{})
			return err
		}
		if err := do(ctx); err == nil {
			t.Error("it was not cancelled")
		}
		before := time.Now()
		if err := do(t.Context()); err != nil || time.Since(before) != 0 {
			t.Errorf("after the cancelled probe: %v, waited %s", err, time.Since(before))
		}
	})
}
