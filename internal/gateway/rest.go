package gateway

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/reprise-run/reprise/transport"
	"github.com/reprise-run/reprise/wire"
)

// forgotten is how long after the time that a client was told its next failure still counts as
// another one in a row. restsOfClient bounds what one client makes the gateway remember.
const (
	forgotten     = time.Minute
	restsOfClient = 100
)

// rests answer clients that come again before the time that they were told, from memory: else
// each of their repetitions would be several requests to a provider that is down. Each failure in a
// row doubles the time. They are this process's own.
type rests struct {
	mu sync.Mutex
	by map[string]map[string]rest // of a client, by what it asked
}

// rest is a request that failed in a way that may pass.
type rest struct {
	until time.Time
	wait  time.Duration
	told  wire.Refusal
}

// before refuses a call that comes too early, and else says how long its client should stay away
// if it fails; most is the longest.
func (r *rests) before(c *Call, most time.Duration) (time.Duration, error) {
	last, ok := r.of(c)
	if !ok {
		return 0, nil
	}
	left := time.Until(last.until)
	if left <= 0 || c.Header.Get(HeaderInsist) != "" {
		return min(2*last.wait, most), nil
	}
	at := last.until.UTC().Format(time.RFC3339)
	return 0, &refusal{status: last.told.Status, code: last.told.Code,
		message: fmt.Sprintf("%s The provider was not asked again: that may be done at %s.", last.told.Message, at),
		header:  http.Header{transport.HeaderRetryAt: {at}, "Retry-After": {strconv.Itoa(int((left + time.Second - 1) / time.Second))}}}
}

// after learns how a call has ended.
func (r *rests) after(c *Call, result *transport.Result) {
	if result.Wait == 0 {
		if _, ok := r.of(c); ok && result.Stopped == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.by[c.Client], c.print)
		}
		return
	}
	if !c.identify() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[string]map[string]rest{}
	}
	mine := r.by[c.Client]
	if mine == nil {
		mine = map[string]rest{}
		r.by[c.Client] = mine
	}
	if len(mine) >= restsOfClient {
		drop(mine)
	}
	mine[c.print] = rest{until: time.Now().Add(result.Wait), wait: result.Wait, told: result.Refusal}
}

// of returns what is remembered of a call's request. What that is, is computed only where its client
// has anything remembered.
func (r *rests) of(c *Call) (rest, bool) {
	r.mu.Lock()
	mine := r.by[c.Client]
	for print, old := range mine {
		if time.Since(old.until) > forgotten {
			delete(mine, print)
		}
	}
	any := len(mine) > 0
	if mine != nil && !any {
		delete(r.by, c.Client)
	}
	r.mu.Unlock()
	if !any || !c.identify() {
		return rest{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.by[c.Client][c.print]
	return last, ok
}

// drop forgets the rest that is over first.
func drop(mine map[string]rest) {
	var first string
	for print, old := range mine {
		if first == "" || old.until.Before(mine[first].until) {
			first = print
		}
	}
	delete(mine, first)
}

// identify computes what the call's request is, once; false: it is nothing that is repeated. To ask
// for another treatment is another request.
func (c *Call) identify() bool {
	if c.print == "" && !c.Target.Count {
		if hash, err := fingerprint(c.Model, c.Body); err == nil {
			h := c.Header
			c.print = strings.Join([]string{conversation(h), c.Asked, h.Get(HeaderHold), h.Get(HeaderAttempts), h.Get(HeaderFallback), hash}, "\n")
		}
	}
	return c.print != ""
}
