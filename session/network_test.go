package session

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/recovery"
)

// oneSchedule is a store with nothing but a schedule, in a transaction of its own.
type oneSchedule struct {
	Store
	Tx
	now  Schedule
	seen []Schedule
}

func (o *oneSchedule) View(_ context.Context, f func(ReadTx) error) error             { return f(o) }
func (o *oneSchedule) Update(_ context.Context, _ Durability, f func(Tx) error) error { return f(o) }
func (o *oneSchedule) Schedules(...ScheduleState) ([]Schedule, error)                 { return []Schedule{o.now}, nil }
func (o *oneSchedule) Watched(Time) ([]Viewer, error)                                 { return nil, nil }
func (o *oneSchedule) Run(id RunID) (Run, error)                                      { return Run{ID: id, Model: "far/m"}, nil }
func (o *oneSchedule) Session(id ID) (Session, error)                                 { return Session{ID: id}, nil }
func (o *oneSchedule) Touch(ID, int, Time) (int64, error)                             { return 1, nil }
func (o *oneSchedule) AppendOutbox(ID, ...[]byte) error                               { return nil }
func (o *oneSchedule) PutSchedule(s Schedule, _ int64, _ ScheduleState) error {
	o.now, o.seen = s, append(o.seen, s)
	return nil
}

// away is a network that is gone until it is plugged in. A look at it takes its time.
type away struct {
	there atomic.Bool
	looks []time.Time
}

func (a *away) Remote(string) bool { return true }
func (a *away) Reach(ctx context.Context) bool {
	a.looks = append(a.looks, time.Now())
	if a.there.Load() {
		return true
	}
	<-ctx.Done()
	return false
}

// A due retry is held while the network is gone, which is looked at again ten seconds after each
// answer, and armed with ten seconds of warning when it is back.
func TestNetworkComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := arm(failedRun(1, 0, true), recovery.DefaultPolicy(), 5, Spend{}, start) // due in 2 s
		s.RetryClass = failure.Network
		store, net := &oneSchedule{now: s}, &away{}
		m := &Manager{store: store, hub: newHub("i"), cfg: Config{Policy: recovery.DefaultPolicy(), Network: net, Hooks: noHooks{}},
			relay: make(chan struct{}, 1), clock: make(chan struct{}, 1), look: make(chan struct{}, 1)}
		m.accept, m.stop = context.WithCancel(t.Context())
		m.hub.add(s.SessionID)
		m.loop(m.scheduleLoop)
		m.loop(m.lookoutLoop)
		time.AfterFunc(22*time.Second, func() { net.there.Store(true) })
		<-time.After(30 * time.Second)
		m.stop()
		m.loops.Wait()
		var said []string
		for _, s := range store.seen {
			said = append(said, string(s.State)+" "+s.HoldReason+" "+s.UpdatedAt.Std().Sub(At(start).Std()).String()+" "+s.NextAt.Std().Sub(At(start).Std()).String())
		}
		if want := []string{"held offline 5s 2s", "armed  28s 38s"}; !slices.Equal(said, want) {
			t.Errorf("%q, want %q", said, want)
		}
		var looks []time.Duration
		for _, at := range net.looks {
			looks = append(looks, at.Sub(start))
		}
		if want := []time.Duration{2 * time.Second, 15 * time.Second, 28 * time.Second}; !slices.Equal(looks, want) {
			t.Errorf("looked at %v, want %v", looks, want)
		}
	})
}
