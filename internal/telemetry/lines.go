package telemetry

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// lines writes log records in a goroutine of its own, so that a log that is slow, or blocked,
// holds nobody up. What finds the queue full is dropped and counted.
type lines struct {
	queue   chan line
	dropped prometheus.Counter
	stop    chan struct{}
	done    chan struct{}
}

type line struct {
	to     slog.Handler
	record slog.Record
}

// maxLines is how many may wait.
const maxLines = 1024

func queueLines(dropped prometheus.Counter) *lines {
	l := &lines{queue: make(chan line, maxLines), dropped: dropped, stop: make(chan struct{}), done: make(chan struct{})}
	go l.write()
	return l
}

func (l *lines) write() {
	defer close(l.done)
	for {
		select {
		case n := <-l.queue:
			l.one(n)
		case <-l.stop:
			for {
				select {
				case n := <-l.queue:
					l.one(n)
				default:
					return
				}
			}
		}
	}
}

// one writes a record. What the log could not take is gone, as with slog itself.
func (l *lines) one(n line) {
	if n.to.Handle(context.Background(), n.record) != nil {
		l.dropped.Inc()
	}
}

// close writes what waits, for so long at most. Later lines are dropped.
func (l *lines) close(within time.Duration) {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	select {
	case <-l.done:
	case <-time.After(within): // the log is blocked, and could not be told
	}
}

// handler queues records for another handler.
func (l *lines) handler(to slog.Handler) slog.Handler { return &queued{l, to} }

type queued struct {
	lines *lines
	to    slog.Handler
}

// Enabled implements slog.Handler.
func (q *queued) Enabled(ctx context.Context, level slog.Level) bool { return q.to.Enabled(ctx, level) }

// Handle implements slog.Handler.
func (q *queued) Handle(_ context.Context, r slog.Record) error {
	select {
	case q.lines.queue <- line{q.to, r.Clone()}:
	default:
		q.lines.dropped.Inc()
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (q *queued) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &queued{q.lines, q.to.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (q *queued) WithGroup(name string) slog.Handler { return &queued{q.lines, q.to.WithGroup(name)} }
