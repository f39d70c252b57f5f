package explore

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// observer is a page that watches the session: it folds what it is sent, and comes back to
// another process where the one that it watched dies.
type observer struct {
	w  *world
	mu sync.Mutex
	// Each is of a run and step: what streams, and the row that replaces it.
	streams map[stepOf][]string
	rows    map[stepOf][]string
	last    string // the id to come back with
	life    int    // of the connection: what an older one still brings is not looked at
	leave   context.CancelFunc
}

type stepOf struct {
	run  session.RunID
	step int
}

func (w *world) observe() {
	w.page = &observer{w: w, streams: map[stepOf][]string{}, rows: map[stepOf][]string{}}
	w.page.come(w.nodes[0])
}

// come watches at a node, from what was seen last on.
func (o *observer) come(n *node) {
	ctx, cancel := context.WithCancel(context.Background())
	o.mu.Lock()
	o.life++
	life, after := o.life, o.last
	o.leave = cancel
	o.mu.Unlock()
	go func() {
		select {
		case <-n.ready:
		case <-ctx.Done():
			return
		}
		if n.m != nil {
			// It ends with the node, or with us.
			_ = n.m.Watch(ctx, session.Watch{Session: o.w.id, After: after}, func(frames []*session.Frame) error { return o.take(life, frames) })
		}
	}()
}

// reload forgets everything and starts from a snapshot.
func (o *observer) reload(n *node) {
	o.leave()
	o.mu.Lock()
	o.last = ""
	o.mu.Unlock()
	o.come(n)
}

func (o *observer) take(life int, frames []*session.Frame) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if life != o.life {
		return session.ErrClosed
	}
	f := &o.w.facts
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, frame := range frames {
		var e session.Event
		if err := json.Unmarshal(frame.Data, &e); err != nil {
			f.violate(Watched, "a frame cannot be read: %v", err)
			return nil
		}
		if frame.ID != "" {
			o.last = frame.ID
		}
		switch {
		case e.Snapshot != nil:
			clear(o.streams)
			clear(o.rows)
			for i := range e.Snapshot.Messages {
				o.row(&e.Snapshot.Messages[i])
			}
			if e.Snapshot.Output != nil {
				o.output(e.Snapshot.Output)
			}
		case e.Output != nil:
			o.output(e.Output)
		case e.Message != nil:
			o.row(e.Message)
		}
	}
	return nil
}

func (o *observer) row(m *session.Message) {
	if m.Role == session.RoleReply {
		k := stepOf{m.RunID, m.Step}
		o.rows[k] = tokensOf(m.Parts)
		delete(o.streams, k)
	}
}

// output takes in what streams. Nothing comes twice, and nothing after the row.
func (o *observer) output(out *session.Output) {
	k := stepOf{out.RunID, out.Step}
	for _, e := range out.Events {
		if e.Kind != llm.EventText && e.Kind != llm.EventThinking {
			continue
		}
		for token := range strings.FieldsSeq(e.Text) {
			row, done := o.rows[k]
			if done && !slices.Contains(row, token) || slices.Contains(o.streams[k], token) {
				o.w.facts.violate(Watched, "%q came after %q, when %q was stored", token, o.streams[k], row)
			}
			if !done {
				o.streams[k] = append(o.streams[k], token)
			}
		}
	}
}

func tokensOf(parts []llm.Part) (list []string) {
	for _, p := range parts {
		list = append(list, strings.Fields(p.Text)...)
	}
	return list
}

// audit compares what the page shows in the end with what is stored. It is called with the
// facts' lock held.
func (o *observer) audit(f *facts) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, stream := range o.streams {
		f.violate(Watched, "the page shows %q of step %d, which no row has replaced", stream, k.step)
	}
	for _, m := range f.rows {
		if m.Role != session.RoleReply {
			continue
		}
		if got := o.rows[stepOf{m.RunID, m.Step}]; !slices.Equal(got, tokensOf(m.Parts)) && f.current(m) {
			f.violate(Watched, "the page shows %q, and %q is stored", got, tokensOf(m.Parts))
		}
	}
}
