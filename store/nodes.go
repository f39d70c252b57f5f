package store

import "github.com/reprise-run/reprise/session"

func (r *reader) Nodes() ([]session.Node, error) {
	return list(r, func(n *session.Node) []any { return []any{&n.ID, &n.Beat} }, `SELECT id, beat FROM nodes
UNION SELECT owner, 0 FROM runs WHERE state = 'running' AND owner NOT IN (SELECT id FROM nodes) ORDER BY 1`)
}

func (r *reader) OwnedRuns(node string) ([]session.Owned, error) {
	return list(r, func(o *session.Owned) []any { return []any{&o.ID, &o.Generation, &o.CancelRequested} },
		`SELECT id, generation, cancel_requested FROM runs WHERE state = 'running' AND owner = $1 ORDER BY id`, node)
}

func (t *tx) Beat(node string) (int64, error) {
	return t.returning(`INSERT INTO nodes (id, beat) VALUES ($1, 1)
ON CONFLICT (id) DO UPDATE SET beat = nodes.beat + 1 RETURNING beat`, node)
}

func (t *tx) Bury(node string) error {
	for _, gone := range []string{`DELETE FROM nodes WHERE id = $1`, `DELETE FROM viewers WHERE viewer = $1`} {
		if _, err := t.exec(gone, node); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) Watched(now session.Time) ([]session.Viewer, error) {
	return list(r, func(v *session.Viewer) []any { return []any{&v.SessionID, &v.Viewer, &v.Until} },
		`SELECT session_id, viewer, until FROM viewers WHERE until = 0 OR until > $1 ORDER BY session_id, viewer`, now)
}

func (t *tx) PutViewer(v session.Viewer) error {
	return t.change(`INSERT INTO viewers (session_id, viewer, until) VALUES ($1, $2, $3)
ON CONFLICT (session_id, viewer) DO UPDATE SET until = excluded.until`, v.SessionID, v.Viewer, v.Until)
}

func (t *tx) DeleteViewer(id session.ID, viewer string) error {
	_, err := t.exec(`DELETE FROM viewers WHERE session_id = $1 AND viewer = $2`, id, viewer)
	return err
}
