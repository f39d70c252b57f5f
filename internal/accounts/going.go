package accounts

import (
	"cmp"
	"slices"
	"sync"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// going are the calls of this process that have not ended. They are listed from memory, so that no
// call is written before it leaves only to be seen.
type going struct {
	mu   sync.Mutex
	byID map[string]*record
}

func (g *going) add(r *record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byID == nil {
		g.byID = map[string]*record{}
	}
	g.byID[r.call.ID] = r
}

func (g *going) remove(r *record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.byID, r.call.ID)
}

// all returns the calls as they are now, with their attempts.
func (g *going) all() map[string]session.GatewayCall {
	g.mu.Lock()
	defer g.mu.Unlock()
	calls := make(map[string]session.GatewayCall, len(g.byID))
	for id, r := range g.byID {
		calls[id] = r.now()
	}
	return calls
}

// now is the call as it is.
func (r *record) now() session.GatewayCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.call
	if c.Outcome != session.GatewayOpen { // it has ended, and waits to be stored
		return c
	}
	c.Attempts = slices.Clone(c.Attempts)
	c.Requests, c.Reserved, c.Cost.Kind = len(c.Attempts), r.reserved, llm.CostEstimated
	for i := range c.Attempts {
		a := &c.Attempts[i]
		c.Answered = &recovery.Candidate{Provider: a.Provider, Model: a.Model, Key: a.Key}
		if a.Cost != nil {
			c.Cost.Amount += a.Cost.Amount
		}
	}
	return c
}

// merge puts calls that go on among those that are stored, the newest first. What is stored of one that
// goes on says less, and of one that has ended meanwhile more.
func merge(stored []session.GatewayCall, now map[string]session.GatewayCall, q session.GatewayQuery) []session.GatewayCall {
	all := slices.DeleteFunc(stored, func(c session.GatewayCall) bool {
		_, goes := now[c.ID]
		if goes && c.Outcome != session.GatewayOpen {
			delete(now, c.ID)
			return false
		}
		return goes
	})
	for _, c := range now {
		if q.Fits(&c) {
			c.Attempts = nil
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b session.GatewayCall) int {
		return -cmp.Or(cmp.Compare(a.BeganAt, b.BeganAt), cmp.Compare(a.ID, b.ID))
	})
	if q.Limit > 0 && len(all) > q.Limit {
		all = all[:q.Limit]
	}
	return all
}
