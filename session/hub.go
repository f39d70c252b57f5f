package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/reprise-run/reprise/llm"
)

// Bounds of the hub. Whoever falls further behind starts again from a snapshot.
const (
	ringFrames = 8192    // kept for observers that come back
	ringBytes  = 4 << 20 // of their data
	behind     = 4096    // frames that may wait for one observer
)

// Frame is one event as an observer gets it. ID is where to resume; it is empty for events
// that are not in the log. Data is one JSON Event, shared: it must not be changed.
type Frame struct {
	ID   string
	Data []byte
}

// hub spreads the log over this node's observers, and keeps what they need to start or to
// come back: the newest frames, and the output of the runs that are going on. Safe for
// concurrent use; it never waits for an observer.
type hub struct {
	mu          sync.Mutex
	incarnation string

	seq   uint64 // of the last record
	ring  []ringFrame
	bytes int
	live  map[RunID]*liveRun
	ended []endedRun
	held  map[ID]*Progress                // what was told last of what is held back
	tools map[ID]map[callKey]ToolProgress // and of how far the tools of its run are
	subs  map[ID]map[*subscriber]struct{} // by the session that they follow; empty: none

	moved chan struct{} // closed at the next record; nil: nobody waits for it

	heard func(r Record, e *life) // is told of each lifecycle event; e is nil where it is a session's. nil: nobody is
}

type ringFrame struct {
	seq     uint64
	session ID // whose observers get it; empty: everybody's
	frame   *Frame
}

type liveRun struct {
	session ID
	output  *Output  // merged; of the run's newest step
	raw     [][]byte // records that are not merged yet
}

type endedRun struct {
	session ID
	run     RunID
	at      Time
}

// subscriber is one observer's queue. It grows with what waits and holds nothing else.
type subscriber struct {
	session ID
	ready   chan struct{} // holds a token when there is something to take

	mu     sync.Mutex
	frames []*Frame
	lost   bool // frames were dropped: the observer starts again
}

// put adds a frame. It reports false where too much is waiting.
func (s *subscriber) put(f *Frame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.frames) >= behind {
		return false
	}
	s.frames = append(s.frames, f)
	kick(s.ready)
	return true
}

// take empties the queue.
func (s *subscriber) take() (frames []*Frame, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	frames, s.frames = s.frames, nil
	return frames, s.lost
}

func (s *subscriber) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
	kick(s.ready)
}

func newHub(incarnation string) *hub {
	return &hub{incarnation: incarnation, live: map[RunID]*liveRun{}, held: map[ID]*Progress{}, tools: map[ID]map[callKey]ToolProgress{}, subs: map[ID]map[*subscriber]struct{}{}}
}

// restart begins with another log, of which nothing is known yet: every observer starts again.
func (h *hub) restart(incarnation string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.incarnation, h.seq, h.ring, h.bytes, h.live = incarnation, 0, nil, 0, map[RunID]*liveRun{}
	for s := range h.observers("") {
		s.lose()
	}
	clear(h.subs)
}

// record takes the log's next record in.
func (h *hub) record(r Record) error {
	e, err := h.take(r)
	if err == nil && r.Run == "" && h.heard != nil {
		h.heard(r, e)
	}
	return err
}

// take does so, and returns what it has read of a lifecycle event.
func (h *hub) take(r Record) (e *life, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Seq <= h.seq {
		return nil, nil
	}
	h.seq = r.Seq
	rf := ringFrame{seq: r.Seq, session: r.Session, frame: &Frame{ID: h.id(r.Seq), Data: r.Data}}
	if r.Run != "" {
		delete(h.held, r.Session)
		l := h.live[r.Run]
		if l == nil {
			l = &liveRun{session: r.Session}
			h.live[r.Run] = l
		}
		l.raw = append(l.raw, r.Data)
	} else if t := typeOf(r.Data); t == EventSession {
		rf.session = "" // it changes the list of sessions, which everybody sees
	} else if e, err = h.lifecycle(t, r); err != nil {
		return nil, fmt.Errorf("record %d: %w", r.Seq, err)
	}
	h.keep(rf)
	if h.moved != nil {
		close(h.moved)
		h.moved = nil
	}
	for s := range h.observers(rf.session) {
		if !s.put(rf.frame) {
			h.forget(s) // too slow: it starts again from a snapshot
			s.lose()
		}
	}
	return e, nil
}

// life is what a node reads of a lifecycle event.
type life struct {
	Type      EventType
	SessionID ID `json:"session_id"`
	At        Time
	Run       *struct {
		ID              RunID
		SessionID       ID `json:"session_id"`
		State           RunState
		CancelRequested bool `json:"cancel_requested"`
	}
	Message *struct {
		RunID RunID `json:"run_id"`
		Role  Role
		Step  int
	}
	ToolCall *struct {
		Step   int
		CallID string `json:"call_id"`
		State  CallState
	} `json:"tool_call"`
}

// typeOf reads an event's type, which comes first, and nothing else.
func typeOf(event []byte) EventType {
	begin, _, _ := bytes.Cut(bytes.TrimPrefix(event, []byte(`{"type":"`)), []byte{'"'})
	return EventType(begin)
}

// ofReply is in every event of a reply's message.
var ofReply = fmt.Appendf(nil, `"role":%q`, RoleReply)

// lifecycle notes which outputs are over: those of ended runs, and of committed steps. What says
// nothing of that is not read, and nil: every node has every event.
func (h *hub) lifecycle(t EventType, r Record) (*life, error) {
	if t == EventRun || t == EventAttempt { // what was held is out, or gone
		delete(h.held, r.Session)
	}
	switch {
	case t == EventRun, t == EventToolCall:
	case t == EventMessage && bytes.Contains(r.Data, ofReply):
	default:
		return nil, nil
	}
	e := &life{}
	if err := json.Unmarshal(r.Data, e); err != nil {
		return nil, err
	}
	switch {
	case e.Type == EventToolCall && e.ToolCall.State != CallStarted:
		delete(h.tools[e.SessionID], callKey{e.ToolCall.Step, e.ToolCall.CallID})
	case e.Type == EventRun && e.Run.State.Terminal():
		delete(h.tools, e.SessionID)
		delete(h.live, e.Run.ID)
		h.ended = append(h.ended, endedRun{e.Run.SessionID, e.Run.ID, e.At})
	case e.Type == EventMessage && e.Message.Role == RoleReply:
		if l := h.live[e.Message.RunID]; l != nil {
			if err := l.merge(); err != nil {
				return nil, err
			}
			if l.output != nil && l.output.Step <= e.Message.Step {
				l.output = nil
			}
		}
	}
	return e, nil
}

func (h *hub) keep(rf ringFrame) {
	h.ring = append(h.ring, rf)
	h.bytes += len(rf.frame.Data)
	drop := 0
	for len(h.ring)-drop > ringFrames || h.bytes > ringBytes && drop < len(h.ring) {
		h.bytes -= len(h.ring[drop].frame.Data)
		drop++
	}
	if drop > 0 {
		clear(h.ring[:drop])
		h.ring = h.ring[drop:]
	}
}

// broadcast tells observers something that is not in the log. Who is behind misses it.
func (h *hub) broadcast(e Event) {
	data, err := json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("encode an event of our own making: %v", err))
	}
	frame := &Frame{Data: data}
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Progress != nil {
		h.held[e.SessionID] = e.Progress
	}
	if p := e.Tool; p != nil {
		if h.tools[e.SessionID] == nil {
			h.tools[e.SessionID] = map[callKey]ToolProgress{}
		}
		h.tools[e.SessionID][callKey{p.Step, p.CallID}] = *p
	}
	for s := range h.observers(e.SessionID) {
		s.put(frame)
	}
}

func (h *hub) id(seq uint64) string {
	return h.incarnation + "." + strconv.FormatUint(seq, 10)
}

// standing is what the hub alone knows of a session: what its run has published of its newest
// step, what it holds back, and how far its tools are.
type standing struct {
	output *Output
	held   *Progress
	tools  []ToolProgress
}

// subscribe begins to follow from now on. It returns where that is, and how things stand there.
func (h *hub) subscribe(session ID) (s *subscriber, at string, now standing, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.live {
		if session == "" || l.session != session {
			continue
		}
		if err := l.merge(); err != nil {
			return nil, "", now, err
		}
		if l.output != nil {
			o := *l.output
			now.output = &o
		}
	}
	now.held, now.tools = h.held[session], slices.Collect(maps.Values(h.tools[session]))
	return h.add(session), h.id(h.seq), now, nil
}

// position reads an id of this incarnation.
func (h *hub) position(id string) (seq uint64, ok bool) {
	incarnation, n, _ := strings.Cut(id, ".")
	seq, err := strconv.ParseUint(n, 10, 64)
	return seq, err == nil && incarnation == h.incarnation
}

// aheadAtMost is how long an observer waits for a position that is still to come.
const aheadAtMost = time.Second

// reach waits until an observer can go on after an id that it has from another node, which may have
// been a little ahead of this one.
func (h *hub) reach(ctx context.Context, after string) {
	limit := time.NewTimer(aheadAtMost)
	defer limit.Stop()
	for {
		h.mu.Lock()
		seq, ok := h.position(after)
		if ok = ok && seq > h.seq; ok && h.moved == nil {
			h.moved = make(chan struct{})
		}
		moved := h.moved
		h.mu.Unlock()
		if !ok {
			return
		}
		select {
		case <-moved:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// resume begins to follow after an id. ok is false where that position is not of this
// incarnation, or no longer, or not yet, here.
func (h *hub) resume(session ID, after string) (s *subscriber, missed []*Frame, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seq, ok := h.position(after)
	if !ok || seq > h.seq {
		return nil, nil, false
	}
	if seq < h.seq && (len(h.ring) == 0 || h.ring[0].seq > seq+1) {
		return nil, nil, false
	}
	for _, rf := range h.ring {
		if rf.seq > seq && (rf.session == "" || rf.session == session) {
			missed = append(missed, rf.frame)
		}
	}
	return h.add(session), missed, true
}

func (h *hub) add(session ID) *subscriber {
	s := &subscriber{session: session, ready: make(chan struct{}, 1)}
	if h.subs[session] == nil {
		h.subs[session] = map[*subscriber]struct{}{}
	}
	h.subs[session][s] = struct{}{}
	return s
}

// watchedHere are the sessions that an open stream of this node follows.
func (h *hub) watchedHere() map[ID]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	watched := make(map[ID]bool, len(h.subs))
	for id := range h.subs {
		if id != "" {
			watched[id] = true
		}
	}
	return watched
}

// audience counts the open streams, and those of them that watch a session.
func (h *hub) audience() (watching, all int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for session, of := range h.subs {
		all += len(of)
		if session != "" {
			watching += len(of)
		}
	}
	return watching, all
}

func (h *hub) remove(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(s)
}

func (h *hub) forget(s *subscriber) {
	delete(h.subs[s.session], s)
	if len(h.subs[s.session]) == 0 {
		delete(h.subs, s.session)
	}
}

// observers are those who follow a session; without one, all.
func (h *hub) observers(session ID) iter.Seq[*subscriber] {
	if session != "" {
		return maps.Keys(h.subs[session])
	}
	return func(yield func(*subscriber) bool) {
		for _, of := range h.subs {
			for s := range of {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// unended lists the runs of which there is output and no end, with their sessions.
func (h *hub) unended() map[RunID]ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	runs := make(map[RunID]ID, len(h.live))
	for id, l := range h.live {
		runs[id] = l.session
	}
	return runs
}

// end notes that a run has ended whose end is not in the log any more.
func (h *hub) end(r endedRun) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.live, r.run)
	h.ended = append(h.ended, r)
}

// endedBefore takes out the runs that ended before a time.
func (h *hub) endedBefore(t Time) (old []endedRun) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.ended) > 0 && h.ended[0].at < t {
		old = append(old, h.ended[0])
		h.ended = h.ended[1:]
	}
	return old
}

// merge folds the raw records into the output of the newest step.
func (l *liveRun) merge() error {
	var events []llm.Event
	if l.output != nil {
		events = l.output.Events
	}
	for _, data := range l.raw {
		var e Event
		if err := json.Unmarshal(data, &e); err != nil {
			return fmt.Errorf("merge output: %w", err)
		}
		if l.output == nil || e.Output.Step != l.output.Step {
			events = nil
		}
		l.output = e.Output
		events = append(events, e.Output.Events...)
	}
	if len(l.raw) > 0 {
		l.output.Events = joinDeltas(events)
		l.raw = nil
	}
	return nil
}

// joinDeltas makes one event of deltas of one part that follow each other.
func joinDeltas(events []llm.Event) []llm.Event {
	joined := make([]llm.Event, 0, len(events))
	for i := 0; i < len(events); {
		e := events[i]
		j := i + 1
		switch e.Kind {
		case llm.EventText, llm.EventThinking, llm.EventCallDelta:
			var text strings.Builder
			text.WriteString(e.Text)
			for ; j < len(events) && events[j].Kind == e.Kind && events[j].Part == e.Part; j++ {
				text.WriteString(events[j].Text)
			}
			e.Text = text.String()
		}
		joined = append(joined, e)
		i = j
	}
	return joined
}
