package logtest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/reprise-run/reprise/session"
)

// Memory is a session.Log that lives as long as its process. It fences and deduplicates as the
// real one does, keeps everything, and never fails.
type Memory struct {
	mu      sync.Mutex
	records []session.Record
	seq     uint64
	outputs map[session.RunID]*output
	ids     map[string]bool // of lifecycle events
	more    chan struct{}   // closed at the next record, and at the end
	closed  bool
}

type output struct {
	generation int64
	writer     *memoryWriter // who may append
	wrote      bool          // in this generation
}

// NewMemory returns an empty log.
func NewMemory() *Memory {
	return &Memory{outputs: map[session.RunID]*output{}, ids: map[string]bool{}, more: make(chan struct{})}
}

func (l *Memory) enter(ctx context.Context, ids ...string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, id := range ids {
		if id == "" || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			return fmt.Errorf("%q is not an id", id)
		}
	}
	if l.closed {
		return session.ErrClosed
	}
	return nil
}

func (l *Memory) add(r session.Record) {
	l.seq++
	r.Seq, r.Data = l.seq, slices.Clone(r.Data)
	l.records = append(l.records, r)
	close(l.more)
	l.more = make(chan struct{})
}

// Ready implements session.Log.
func (l *Memory) Ready(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enter(ctx)
}

// Claim implements session.Log.
func (l *Memory) Claim(ctx context.Context, s session.ID, run session.RunID, generation int64) (session.Writer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.enter(ctx, string(s), string(run)); err != nil {
		return nil, err
	}
	o := l.outputs[run]
	if o == nil {
		o = &output{}
		l.outputs[run] = o
	}
	if generation < o.generation || generation == o.generation && o.wrote {
		return nil, session.ErrFenced
	}
	o.generation, o.wrote = generation, false
	o.writer = &memoryWriter{log: l, session: s, run: run}
	return o.writer, nil
}

type memoryWriter struct {
	log     *Memory
	session session.ID
	run     session.RunID
}

// Append implements session.Writer.
func (w *memoryWriter) Append(ctx context.Context, data []byte) error {
	l := w.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.enter(ctx); err != nil {
		return err
	}
	o := l.outputs[w.run]
	if o == nil || o.writer != w {
		return session.ErrFenced
	}
	o.wrote = true
	l.add(session.Record{Session: w.session, Run: w.run, Data: data})
	return nil
}

// Publish implements session.Log.
func (l *Memory) Publish(ctx context.Context, s session.ID, id string, data []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.enter(ctx, string(s)); err != nil || l.ids[id] {
		return err
	}
	l.ids[id] = true
	l.add(session.Record{Session: s, Data: data})
	return nil
}

// after returns the records behind a position, and what ends the wait for the next.
func (l *Memory) after(ctx context.Context, seq uint64) ([]session.Record, chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.enter(ctx); err != nil {
		return nil, nil, err
	}
	i, _ := slices.BinarySearchFunc(l.records, seq+1, func(r session.Record, seq uint64) int { return int(r.Seq) - int(seq) })
	return slices.Clone(l.records[i:]), l.more, nil
}

// Output implements session.Log.
func (l *Memory) Output(ctx context.Context, s session.ID, run session.RunID) iter.Seq2[session.Record, error] {
	return func(yield func(session.Record, error) bool) {
		l.mu.Lock()
		err := l.enter(ctx, string(s), string(run))
		all := slices.Clone(l.records)
		l.mu.Unlock()
		if err != nil {
			yield(session.Record{}, err)
			return
		}
		for _, r := range all {
			if r.Run == run && !yield(r, nil) {
				return
			}
		}
	}
}

// Follow implements session.Log.
func (l *Memory) Follow(ctx context.Context, f func(session.Record) error, caughtUp func()) error {
	for last := uint64(0); ; {
		records, more, err := l.after(ctx, last)
		if err != nil {
			return err
		}
		for _, r := range records {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := f(r); err != nil {
				return err
			}
			last = r.Seq
		}
		if caughtUp != nil {
			caughtUp()
			caughtUp = nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Incarnation implements session.Log.
func (l *Memory) Incarnation() string { return "memory" }

// Purge implements session.Log.
func (l *Memory) Purge(ctx context.Context, s session.ID, run session.RunID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.enter(ctx, string(s), string(run)); err != nil {
		return err
	}
	l.records = slices.DeleteFunc(l.records, func(r session.Record) bool { return r.Run == run })
	delete(l.outputs, run)
	return nil
}

// Close implements session.Log.
func (l *Memory) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.more)
	}
	return nil
}

// Records are what the log has, in order.
func (l *Memory) Records() []session.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.records)
}
