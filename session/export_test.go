package session

import "context"

// RegenerateAs takes the path of Regenerate with an origin of its own, as whatever repeats a
// run by itself does.
func (m *Manager) RegenerateAs(ctx context.Context, q Act, id ID, mid MessageID, origin Origin) (Receipt, error) {
	return m.ask(ctx, q, id, func(tx Tx, s Session, st Status) (Receipt, error) {
		return regenerate(tx, s, st, Run{Trigger: TriggerRetry, Actor: q.Actor, Origin: origin, MessageID: mid}, RegenerateRequest{})
	})
}

// Unended counts the runs of which the hub has output and no end.
func (m *Manager) Unended() int { return len(m.hub.unended()) }
