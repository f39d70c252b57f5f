package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/reprise-run/reprise/session"
)

// sampled is of how many appends one is timed: reading the clock twice is a thousandth of an
// append, and a writer has thousands.
const sampled = 16

// EventLog is the log, with the time of appends measured.
func (t *Telemetry) EventLog(log session.Log) session.Log { return &timedLog{log, t.appends} }

type timedLog struct {
	session.Log
	took prometheus.Histogram
}

// Claim implements session.Log.
func (l *timedLog) Claim(ctx context.Context, id session.ID, run session.RunID, generation int64) (session.Writer, error) {
	w, err := l.Log.Claim(ctx, id, run, generation)
	if err != nil {
		return nil, err
	}
	return &timedWriter{Writer: w, took: l.took}, nil
}

type timedWriter struct {
	session.Writer
	took prometheus.Histogram
	n    uint
}

// Append implements session.Writer.
func (w *timedWriter) Append(ctx context.Context, data []byte) error {
	w.n++
	if w.n%sampled != 1 {
		return w.Writer.Append(ctx, data)
	}
	began := time.Now()
	err := w.Writer.Append(ctx, data)
	w.took.Observe(time.Since(began).Seconds())
	return err
}
