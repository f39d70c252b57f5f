package accounts

import (
	"context"
	"time"

	"github.com/reprise-run/reprise/session"
)

const (
	queued     = 1024                   // calls that wait to be stored, before one that ends waits itself
	batch      = 256                    // that are stored together at most
	linger     = 100 * time.Millisecond // from one transaction to the next, for the calls that end meanwhile
	pruneEvery = 10 * time.Minute
)

// entry is a call that has ended, and what it adds to its key's sums.
type entry struct {
	call session.GatewayCall
	use  session.ClientUse
}

// put hands a call that has ended to the writer.
func (a *Accounts) put(e entry) {
	select {
	case a.queue <- e:
	case <-a.stopped:
		a.log.Error("a gateway's call has ended after the books were closed", "call", e.call.ID, "outcome", e.call.Outcome, "cost", e.call.Cost.Amount)
	}
}

// Flush returns when every call that has ended is stored.
func (a *Accounts) Flush(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case a.flush <- done:
	case <-a.stopped:
		return session.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// write stores what has ended, in batches, until the books are closed.
func (a *Accounts) write() {
	defer close(a.stopped)
	prune := time.NewTicker(pruneEvery)
	defer prune.Stop()
	a.prune()
	var soon <-chan time.Time // nil: nothing waits
	var wait []entry
	var last time.Time
	save := func() {
		a.save(wait)
		wait, soon, last = wait[:0], nil, time.Now()
	}
	drain := func() {
		for len(a.queue) > 0 { // nobody else takes from it
			if wait = append(wait, <-a.queue); len(wait) == batch {
				save()
			}
		}
		save()
	}
	for {
		select {
		case e := <-a.queue:
			if wait = append(wait, e); len(wait) == batch {
				save()
			} else if soon == nil {
				soon = time.After(time.Until(last.Add(linger)))
			}
		case <-soon:
			save()
		case done := <-a.flush:
			drain()
			close(done)
		case <-prune.C:
			a.prune()
		case <-a.closing:
			drain()
			return
		}
	}
}

// save stores calls with their sums, in one transaction. What cannot be stored is logged: nobody
// waits for it any more.
func (a *Accounts) save(all []entry) {
	if len(all) == 0 {
		return
	}
	type hour struct {
		key session.ClientKeyID
		at  session.Time
	}
	sums := map[hour]session.ClientUse{}
	for i := range all {
		u := &all[i].use
		at := hour{u.Key, u.Hour}
		sums[at] = u.Plus(sums[at])
	}
	err := a.store.Update(context.Background(), session.Full, func(tx session.Tx) error {
		for i := range all {
			if err := tx.PutGatewayCall(all[i].call); err != nil {
				return err
			}
		}
		for _, u := range sums {
			if err := tx.AddClientUse(u); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		a.log.Error("gateway calls are not in the books", "calls", len(all), "first", all[0].call.ID, "error", err)
	}
}

// prune deletes what is too old, or too many.
func (a *Accounts) prune() {
	if a.o.Keep == 0 && a.o.KeepCalls == 0 {
		return
	}
	var before session.Time
	if a.o.Keep > 0 {
		before = session.At(time.Now().Add(-a.o.Keep))
	}
	for more := true; more; {
		err := a.store.Update(context.Background(), session.Soft, func(tx session.Tx) (err error) {
			more, err = tx.PruneGateway(before, a.o.KeepCalls)
			return err
		})
		if err != nil {
			a.log.Error("delete old gateway calls", "error", err)
			return
		}
	}
}

// Calls lists calls, the newest first, without their attempts: what is stored, and what goes on in this
// process.
func (a *Accounts) Calls(ctx context.Context, q session.GatewayQuery) (list []session.GatewayCall, err error) {
	now := a.going.all() // before the flush: what ends in between is in both
	if c, ok := now[q.Before]; ok {
		q.Began = c.BeganAt
	}
	if err := a.Flush(ctx); err != nil {
		return nil, err
	}
	err = a.store.View(ctx, func(tx session.ReadTx) error {
		if q.Before != "" && q.Began == 0 {
			c, err := tx.GatewayCall(q.Before)
			if err != nil {
				return err
			}
			q.Began = c.BeganAt
		}
		list, err = tx.GatewayCalls(q)
		return err
	})
	return merge(list, now, q), err
}

// Call reads a call with its attempts.
func (a *Accounts) Call(ctx context.Context, id string) (c session.GatewayCall, err error) {
	if c, ok := a.going.all()[id]; ok && c.Outcome == session.GatewayOpen {
		return c, nil
	}
	if err := a.Flush(ctx); err != nil {
		return c, err
	}
	err = a.store.View(ctx, func(tx session.ReadTx) error {
		c, err = tx.GatewayCall(id)
		return err
	})
	return c, err
}
