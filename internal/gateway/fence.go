package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// HeaderInsist is how a client asks again for what a fence keeps from it: the id of the call that
// broke, or "1", whichever that was. The fence is taken down.
const HeaderInsist = "X-Reprise-Insist"

// SessionHeaders are the fields in which clients say which conversation a request is of; the first
// one that is there counts. Each stays the same when its client repeats a request: Claude Code,
// Qwen Code, Codex (its newer and its older form), opencode, Cline, and what others have in common. Who
// says none of it may name the request: the same one under another name is meant.
var SessionHeaders = []string{"X-Claude-Code-Session-Id", "X-Qwen-Code-Session-Id", "Session-Id", "Session_id", "Conversation_id",
	"X-Session-Affinity", "X-Opencode-Session", "X-Task-Id", "X-Session-Id", "Idempotency-Key"}

// unnamed is how long a fence stands at most whose client names neither conversation nor request: long
// enough for whatever repeats by itself, which comes back within a minute, and is stopped by the
// first refusal. Then whoever sends the same is somebody else, or means it.
const unnamed = 2 * time.Minute

// longest is how much of a client's name for its conversation counts, in bytes.
const longest = 256

// StoredFences are Fences in the store. What a request is, is computed only where it breaks and
// where its client has a fence that stands.
type StoredFences struct {
	barriers *session.Barriers
	window   time.Duration
	sole     bool

	mu    sync.Mutex
	until map[string]time.Time // when the last fence of a client ends that this process knows of
}

var _ Fences = (*StoredFences)(nil)

// NewFences opens the fences of a store, each of which stands for the window, or for two minutes where
// its client names no conversation. sole says that no
// other process raises any: then clients without one cost no look at the store.
func NewFences(ctx context.Context, b *session.Barriers, window time.Duration, sole bool) (*StoredFences, error) {
	f := &StoredFences{barriers: b, window: window, sole: sole, until: map[string]time.Time{}}
	list, err := b.Fences(ctx)
	for i := range list {
		f.note(list[i].Client, list[i].ExpiresAt.Std())
	}
	return f, err
}

// Stands implements Fences.
func (f *StoredFences) Stands(ctx context.Context, c *Call) (*Fence, error) {
	if c.Target.Count {
		return nil, nil // nothing is said
	}
	if live, err := f.live(ctx, c.Client); err != nil || !live {
		return nil, err
	}
	of, err := f.of(c)
	if err != nil {
		return nil, nil // it is no JSON, so nobody has answered it
	}
	found, err := f.barriers.FenceOf(ctx, of)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if said := c.Header.Get(HeaderInsist); said == "1" || said == found.CallID {
		err := f.barriers.LiftFence(ctx, c.Client, found.ID)
		if errors.Is(err, session.ErrNotFound) { // somebody else was first
			err = nil
		}
		return nil, err
	}
	return &Fence{ID: string(found.ID), Call: found.CallID, At: found.CreatedAt.Std(), Until: found.ExpiresAt.Std()},
		f.barriers.HitFence(ctx, found.ID)
}

// Raise implements Fences.
func (f *StoredFences) Raise(ctx context.Context, c *Call, s *recovery.Stopped) error {
	if c.Target.Count {
		return nil
	}
	fence, err := f.of(c)
	if err != nil {
		return err
	}
	now := time.Now()
	fence.ID, fence.Model, fence.CallID, fence.Reason = session.NewID[session.FenceID]("fen_", now), c.Model, c.ID, s.Failure.Class.String()
	window := f.window
	if fence.Session == "" {
		window = min(window, unnamed)
	}
	fence.CreatedAt, fence.ExpiresAt = session.At(now), session.At(now.Add(window))
	if err := f.barriers.RaiseFence(ctx, fence); err != nil {
		return err
	}
	f.note(c.Client, fence.ExpiresAt.Std())
	return nil
}

// of is what identifies the call's fence.
func (f *StoredFences) of(c *Call) (session.Fence, error) {
	hash, err := fingerprint(c.Model, c.Body)
	return session.Fence{Client: c.Client, Session: conversation(c.Header), Dialect: c.Target.Dialect.Dialect(), Hash: hash}, err
}

// conversation is the client's name for the conversation that a request is of; empty: it has none.
func conversation(h http.Header) string {
	for _, name := range SessionHeaders {
		if v := h.Get(name); v != "" {
			return v[:min(len(v), longest)]
		}
	}
	return ""
}

// live reports whether a client may have a fence that stands.
func (f *StoredFences) live(ctx context.Context, client string) (bool, error) {
	if !f.sole {
		until, err := f.barriers.FencedUntil(ctx, client)
		return until.Std().After(time.Now()), err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	until, ok := f.until[client]
	if ok && !until.After(time.Now()) {
		delete(f.until, client)
		ok = false
	}
	return ok, nil
}

// note remembers when a client's fence ends.
func (f *StoredFences) note(client string, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if until.After(f.until[client]) {
		f.until[client] = until
	}
}
