package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-run/reprise/agent"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// Models finds who answers for a session's model. It is safe for concurrent use.
type Models interface {
	// Entries returns who may answer, in order, with keys as they are now. Its error is a
	// *failure.Failure: model_not_found, or credentials_unresolved where no key of any entry
	// can be read.
	Entries(model string) ([]recovery.Entry, error)
	// About is what is known of an entry's model.
	About(provider, model string) llm.ModelFacts
}

// Config is how a Manager behaves. Model is required; zero limits have the defaults below.
type Config struct {
	Version        string
	Rehearsal      bool   // told to observers: no provider key is configured
	Model          string // of a session that names none
	System         string // system prompt of a session that has none
	ConcurrentRuns int    // over all sessions; 0: every run stays queued
	// OperatorStarts: a run that finds no slot free waits for the operator to start it; else it
	// starts by itself, in order of arrival.
	OperatorStarts  bool
	MaxSteps        int // default 50
	MaxOutputTokens int // of each reply; 0: the provider's default
	Hold            replay.Hold
	Holds           map[string]replay.Hold // of chains that have one of their own
	Policy          recovery.Policy
	Spend           Limits
	Compaction      agent.Compaction
	// Tools opens what a session may use, for one run, until its context ends; nil: nothing.
	Tools     func(ctx context.Context, set Settings) []agent.Tool
	Subagents Subagents
	// AnswerWithin is how long the operator may take to answer about a tool call; default 10m.
	AnswerWithin time.Duration
	// Unattended: the second tier starts a due retry although nobody watches. Ask: it starts
	// none, each waits for the operator's click.
	Unattended, Ask bool
	// Override says what Policy, Unattended, Ask and Spend become by the settings that were changed
	// while a server worked (Manager.Override); nil: they stay.
	Override func(set map[string]string) Live
	// Network says whether a retry can reach anybody; nil: it is taken to be there.
	Network Network
	// Passing: this process ends with its one task. A retry that waits is left to the next one,
	// but for those of a session that is watched here where WatchedRetries is set.
	Passing, WatchedRetries bool
	// Jitter draws from [0,1) for the waits between attempts; nil: a random source.
	Jitter func() float64
	// Lease is how long a node may be silent before another takes its runs; default 3s.
	Lease time.Duration
	// Queue tells several nodes of runs that wait; nil: each node looks for itself. Where Sole is set it
	// is not used.
	Queue Queue
	// Sole: no other node uses the store, so that runs of other owners are orphans at once.
	Sole bool
	// Grace is how long runs may go on after Close was called; default 10s.
	Grace time.Duration
	Log   *slog.Logger // default slog.Default()
	// Observer is told what is done; nil: nobody is.
	Observer Observer
	// Hooks are the operator's; nil: there are none.
	Hooks Hooks
}

// Bounds of a run's life.
const (
	maxClaims  = 3
	sweepEvery = 2 * time.Second
	keepOutput = 10 * time.Minute // after a run's end
	keepAnswer = 24 * time.Hour   // of an idempotent request
)

// Causes of a run's cancellation, read back with context.Cause.
var (
	errStopped  = errors.New("the operator stopped the run")
	errShutdown = errors.New("the server is shutting down")
	errLostRun  = errors.New("another node has taken the run over")
)

// Manager owns the sessions of one node. Its methods are safe for concurrent use.
type Manager struct {
	store  Store
	log    Log
	models Models
	cfg    Config
	owner  string
	began  time.Time // when it knew what there is
	hub    *hub

	accept   context.Context // new requests; done first
	claims   context.Context // of runs; done with accept, or when another node is to have what comes
	drain    context.CancelFunc
	work     context.Context // runs
	stop     context.CancelFunc
	halt     context.CancelCauseFunc
	loops    sync.WaitGroup
	runs     sync.WaitGroup
	alive    context.Context // until the last run here has ended
	bury     context.CancelFunc
	last     sync.WaitGroup // what goes on until then
	wake     chan struct{}  // the dispatcher has something to look at
	relay    chan struct{}  // the outbox has something
	counts   chan struct{}  // the number of runs has changed
	opened   signal         // what cooled off may be asked
	answered signal         // the operator has answered about a call
	outbox   outbox         // the relay's
	inLog    inLog          // of what it publishes
	peers    peers          // the node loop's
	nodes    atomic.Int32   // how many there are
	freed    atomic.Int32   // slots, since the dispatcher has looked
	present  chan struct{}  // who watches here has changed
	waiting  chan waiting   // runs to be announced
	quiet    chan struct{}  // a run has ended
	clock    chan struct{}  // a schedule, who watches, or the network has changed
	look     chan struct{}  // somebody wants to know of the network
	lookout  lookout
	// overviews is the reading that observers share as they begin.
	overviews *readings
	// unstored counts the runs whose rows or end the store does not take.
	unstored atomic.Int64
	notices  noticeLine

	mu     sync.Mutex
	active map[RunID]activity
	closed bool // Close was called
	ended  bool // no run is started any more
}

// New starts a manager over a store and a log, which stay the caller's to close after it. It
// returns when it follows the log and the runs that an earlier process left are queued again.
func New(ctx context.Context, store Store, log Log, models Models, cfg Config) (*Manager, error) {
	if cfg.MaxSteps == 0 {
		cfg.MaxSteps = 50
	}
	if cfg.Lease == 0 {
		cfg.Lease = 3 * time.Second
	}
	if cfg.Sole {
		cfg.Queue = nil
	}
	if cfg.AnswerWithin == 0 {
		cfg.AnswerWithin = 10 * time.Minute
	}
	if cfg.Grace == 0 {
		cfg.Grace = 10 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Hooks == nil {
		cfg.Hooks = noHooks{}
	}
	m := &Manager{
		store: store, log: log, models: models, cfg: cfg,
		owner:     NewID[string]("node_", time.Now()),
		hub:       newHub(log.Incarnation()),
		wake:      make(chan struct{}, 1),
		relay:     make(chan struct{}, 1),
		counts:    make(chan struct{}, 1),
		quiet:     make(chan struct{}, 1),
		clock:     make(chan struct{}, 1),
		look:      make(chan struct{}, 1),
		present:   make(chan struct{}, 1),
		waiting:   make(chan waiting, 256),
		overviews: newReadings(),
		active:    map[RunID]activity{},
	}
	m.nodes.Store(1)
	m.alive, m.bury = context.WithCancel(context.Background())
	m.accept, m.stop = context.WithCancel(context.Background())
	m.claims, m.drain = context.WithCancel(m.accept)
	m.work, m.halt = context.WithCancelCause(context.Background())
	if !cfg.Sole {
		m.hub.heard = m.heard
	}
	caughtUp := make(chan struct{})
	m.loop(func() { m.follow(caughtUp) })
	select {
	case <-caughtUp:
	case <-ctx.Done():
		m.Close()
		return nil, context.Cause(ctx)
	}
	if err := m.join(ctx); err != nil {
		m.Close()
		return nil, err
	}
	if err := m.endOutputs(ctx); err != nil {
		m.Close()
		return nil, fmt.Errorf("look for output of runs that have ended: %w", err)
	}
	m.began = time.Now()
	m.loop(m.relayLoop)
	m.loop(m.dispatchLoop)
	m.loop(m.announceLoop)
	if !cfg.Passing || cfg.WatchedRetries {
		m.loop(m.scheduleLoop)
	}
	if cfg.Network != nil {
		m.loop(m.lookoutLoop)
	}
	kick(m.relay)
	kick(m.wake)
	return m, nil
}

// join makes this node one of those that work.
func (m *Manager) join(ctx context.Context) error {
	if m.cfg.Sole {
		if err := m.releaseOrphans(ctx); err != nil {
			return fmt.Errorf("take over runs: %w", err)
		}
		return nil
	}
	if _, err := m.beat(ctx); err != nil {
		return fmt.Errorf("join the other nodes: %w", err)
	}
	m.last.Go(m.nodeLoop)
	if m.cfg.Queue != nil {
		m.last.Go(m.queueLoop)
		if m.cfg.ConcurrentRuns > 0 {
			m.loop(m.serveLoop)
		}
	}
	return nil
}

func (m *Manager) loop(f func()) {
	m.loops.Add(1)
	go func() {
		defer m.loops.Done()
		f()
	}()
}

// Drain lets this node begin nothing any more: what it is asked for is stored as before, and started
// by another node. It returns at once; Close is to follow.
func (m *Manager) Drain() {
	m.drain()
	kick(m.wake) // what waits is announced
}

// Close stops the manager. Runs may end within the grace time; what is left is queued again
// for the next start where nothing of its step was shown, and else ends as interrupted.
// Closing twice is fine.
func (m *Manager) Close() error {
	m.mu.Lock()
	first := !m.closed
	m.closed = true
	m.mu.Unlock()
	if !first {
		m.loops.Wait()
		return nil
	}
	m.stop()
	grace := time.NewTimer(m.cfg.Grace)
	defer grace.Stop()
	for waiting := true; waiting && m.busy(); {
		select {
		case <-m.quiet:
		case <-grace.C:
			waiting = false
		}
	}
	m.halt(errShutdown)
	m.loops.Wait()
	m.mu.Lock()
	m.ended = true
	m.mu.Unlock()
	m.runs.Wait()
	err := m.settleOutbox(context.Background())
	m.bury()
	m.last.Wait()
	if !m.cfg.Sole {
		err = errors.Join(err, m.leave(context.Background()))
	}
	return err
}

func (m *Manager) busy() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.active) > 0
}

// kick wakes a loop that waits on c, if it does not know yet.
func kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause waits. It ends early, with the cause, where ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// update runs f in a transaction and lets the loops, the observer and hooks look at what it has
// left.
func (m *Manager) update(ctx context.Context, d Durability, f func(tx Tx) error) error {
	began := time.Now()
	var t *telling
	stored := false
	defer func() { t.over(stored) }()
	err := m.store.Update(ctx, d, func(tx Tx) error {
		t.over(false) // an earlier try
		t = &telling{Tx: tx, hooks: m.cfg.Hooks, line: &m.notices}
		if err := f(t); err != nil {
			return err
		}
		return t.tell()
	})
	if err != nil {
		return err
	}
	stored = true
	if len(t.events) > 0 {
		kick(m.relay)
		m.tell(func(o Observer) { o.Committed(ctx, began, t.events) })
	}
	return nil
}

// emit tells lifecycle events of a session, when its transaction has done everything else. They
// are encoded then, so what they point to stays as it is.
func emit(tx Tx, id ID, events ...Event) error {
	t, ok := tx.(*telling)
	if !ok {
		return errors.New("an event is told in a transaction of Manager.update alone")
	}
	for _, e := range events {
		e.SessionID = id
		t.waiting = append(t.waiting, e)
		if err := t.noteOf(&e); err != nil {
			return fmt.Errorf("note %s for hooks: %w", e.Type, err)
		}
	}
	return nil
}

// emitRun tells of a run and of what it makes of its session.
func emitRun(tx Tx, r Run) error {
	if r.State.Terminal() {
		spent, err := tx.Spent(Spending{Session: r.SessionID, Run: r.ID})
		if err != nil {
			return err
		}
		r.Spend = &spent
	}
	return emit(tx, r.SessionID, Event{Type: EventRun, Run: &r}, Event{Type: EventSession})
}

func emitPending(tx Tx, id ID) error {
	list, err := tx.Pending(id)
	if err != nil {
		return err
	}
	if list == nil {
		list = []Pending{}
	}
	return emit(tx, id, Event{Type: EventPending, Pending: &list})
}

// status reads what Next decides on.
func status(tx ReadTx, s Session) (Status, error) {
	st := Status{Paused: s.Paused, Archived: s.Archived}
	if r := s.LastRun; r != nil && !r.State.Terminal() {
		st.Run, st.Stopping = r.State, r.CancelRequested
		st.Begun = r.State == Queued && r.Claims > 0
	}
	waiting, err := tx.Pending(s.ID)
	st.Waiting = len(waiting) > 0
	return st, err
}

// sessionStatus reads a session, and what decides what may happen to it.
func sessionStatus(tx ReadTx, id ID) (Session, Status, error) {
	s, err := tx.Session(id)
	if err != nil {
		return s, Status{}, err
	}
	st, err := status(tx, s)
	return s, st, err
}
