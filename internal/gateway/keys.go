package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
	"github.com/reprise-run/reprise/transport"
)

// resolve returns who may answer the call: where its key does not allow the name, those of the
// models that the name stands for that it does.
func (h *Handler) resolve(c *Call) ([]recovery.Entry, error) {
	entries, err := h.o.Models.Resolve(c.Target.Dialect.Dialect(), c.Asked)
	if err != nil || c.Key.Allows(c.Asked) {
		return entries, err
	}
	entries = slices.DeleteFunc(entries, func(e recovery.Entry) bool { return !c.Key.Allows(e.Name()) })
	if len(entries) == 0 {
		return nil, &refusal{status: http.StatusNotFound, code: "model_not_found", message: fmt.Sprintf("The key %s may not ask %q, but %s.",
			c.Key.Label, c.Asked, strings.Join(c.Key.Models, ", "))}
	}
	return entries, nil
}

// allow treats the exchange as its key's terms say.
func allow(x *transport.Exchange, k *session.ClientKey) error {
	if k.Hold != "" {
		hold, err := replay.ParseHold(k.Hold)
		if err != nil {
			return fmt.Errorf("key %s: %w", k.ID, err)
		}
		x.Hold = hold
	}
	if k.MaxAttempts > 0 {
		atMost(&x.Policy, k.MaxAttempts)
	}
	x.Route.NoFallback = k.NoFallback
	return nil
}

// atMost bounds the requests for one of a client's.
func atMost(p *recovery.Policy, n int) {
	p.MaxRequests, p.Tier1.Attempts = min(n, p.MaxRequests), min(n, p.Tier1.Attempts)
}

// paced refuses what comes faster than its key allows. Where the wait is short the client is told
// to come back, else not to.
func (h *Handler) paced(k *session.ClientKey) error {
	wait := h.rates.take(k.ID, k.Rate, time.Now())
	if wait == 0 {
		return nil
	}
	at := time.Now().Add(wait).UTC().Truncate(time.Second).Add(time.Second)
	no := &refusal{status: http.StatusTooManyRequests, code: "rate_limit_exceeded", header: http.Header{transport.HeaderRetryAt: {at.Format(time.RFC3339)}},
		message: fmt.Sprintf("The key %s may send %d requests a minute, and this is one more. The next one may pass at %s.", k.Label, k.Rate, at.Format(time.RFC3339))}
	if wait > h.o.Policy().Tier1.Cap {
		no.status = http.StatusBadRequest
	} else {
		no.header["Retry-After"] = []string{strconv.Itoa(int((wait + time.Second - 1) / time.Second))}
	}
	return no
}

// rates count the requests of keys, each in a bucket that holds a minute's and is filled as time
// goes by. They are this process's own: of several nodes each lets through as many.
type rates struct {
	mu sync.Mutex
	by map[session.ClientKeyID]bucket
}

// bucket holds what could be sent at once at a time.
type bucket struct {
	at   time.Time
	left float64
}

// take takes one request out, or says how long it takes until there is one. A rate of 0 is none.
func (r *rates) take(id session.ClientKeyID, rate int, now time.Time) (wait time.Duration) {
	if rate == 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[session.ClientKeyID]bucket{}
	}
	most := float64(rate)
	b, ok := r.by[id]
	if !ok {
		b = bucket{now, most}
	}
	b.left = min(most, b.left+max(now.Sub(b.at), 0).Minutes()*most)
	b.at = now
	if b.left >= 1 {
		b.left--
	} else {
		wait = max(time.Duration((1-b.left)/most*float64(time.Minute)), 1)
	}
	r.by[id] = b
	return wait
}
