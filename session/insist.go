package session

import (
	"context"
	"errors"
	"time"

	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
)

// Waits between two tries to store something; the first one doubles.
const (
	firstInsist = 100 * time.Millisecond
	lastInsist  = 5 * time.Second
)

// insist repeats f, which stores what was shown or how the run has ended, while the store fails:
// until it is stored, or the run is another's, and once more when ctx is done. Its error is that of
// the last try.
func (x *execution) insist(ctx context.Context, what string, f func() error) error {
	err := f()
	if err == nil || settled(err) || ctx.Err() != nil {
		return err
	}
	x.m.unstored.Add(1)
	defer x.m.unstored.Add(-1)
	for wait := firstInsist; ; wait = min(2*wait, lastInsist) {
		x.m.cfg.Log.Error(what, "session", x.run.SessionID, "run", x.run.ID, "error", err, "again_in", wait)
		over := pause(ctx, wait) != nil
		if err = f(); over || err == nil || settled(err) {
			return err
		}
	}
}

// settled reports whether an error is an answer, which another try does not change.
func settled(err error) bool {
	return errors.As(err, new(*recovery.Stopped)) || errors.Is(err, ErrLost) || errors.Is(err, ErrFenced) ||
		errors.Is(err, errLostRun) || errors.Is(err, replay.ErrStale)
}
