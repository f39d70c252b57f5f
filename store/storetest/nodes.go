package storetest

import (
	"fmt"

	"github.com/reprise-run/reprise/session"
)

func nodes(w *world) {
	beat := func(node string, want int64) {
		w.Helper()
		w.do(func(tx session.Tx) error {
			n, err := tx.Beat(node)
			if err == nil && n != want {
				return fmt.Errorf("beat %d of %s, want %d", n, node, want)
			}
			return err
		})
	}
	there := func(want ...session.Node) {
		w.Helper()
		w.same("nodes", read(w, session.ReadTx.Nodes), want)
	}
	there()
	beat("a", 1)
	beat("b", 1)
	beat("a", 2)
	there(session.Node{ID: "a", Beat: 2}, session.Node{ID: "b", Beat: 1})
	for i, owner := range []string{"a", "c", "a"} { // of c there is no sign of life
		id := session.ID(fmt.Sprintf("ses_%d", i))
		w.session(id)
		r := w.running(session.RunID(fmt.Sprintf("run_%d", i)), id)
		r.Owner, r.CancelRequested = owner, i == 2
		w.do(func(tx session.Tx) error { return tx.PutRun(r, session.Running, r.Generation) })
	}
	there(session.Node{ID: "a", Beat: 2}, session.Node{ID: "b", Beat: 1}, session.Node{ID: "c"})
	own := read(w, func(tx session.ReadTx) ([]session.Owned, error) { return tx.OwnedRuns("a") })
	w.same("runs of a", own, []session.Owned{{ID: "run_0", Generation: 1}, {ID: "run_2", Generation: 1, CancelRequested: true}})
	w.move(w.run("run_1"), session.Succeeded)
	w.do(func(tx session.Tx) error { return tx.Bury("b") })
	w.do(func(tx session.Tx) error { return tx.Bury("nobody") })
	there(session.Node{ID: "a", Beat: 2})
	beat("b", 1) // it was not dead
	there(session.Node{ID: "a", Beat: 2}, session.Node{ID: "b", Beat: 1})
}

func viewers(w *world) {
	put := func(id session.ID, viewer string, until session.Time) {
		w.do(func(tx session.Tx) error {
			return tx.PutViewer(session.Viewer{SessionID: id, Viewer: viewer, Until: until})
		})
	}
	watched := func(now session.Time, want ...session.Viewer) {
		w.Helper()
		got := read(w, func(tx session.ReadTx) ([]session.Viewer, error) { return tx.Watched(now) })
		w.same("viewers", got, want)
	}
	put("ses_1", "tab", t0+5)
	put("ses_1", "tab", t0+10)
	put("ses_2", "tab", t0+20)
	put("ses_1", "node", 0)
	put("ses_2", "node", 0)
	tab1, tab2 := session.Viewer{SessionID: "ses_1", Viewer: "tab", Until: t0 + 10}, session.Viewer{SessionID: "ses_2", Viewer: "tab", Until: t0 + 20}
	node1, node2 := session.Viewer{SessionID: "ses_1", Viewer: "node"}, session.Viewer{SessionID: "ses_2", Viewer: "node"}
	watched(t0+9, node1, tab1, node2, tab2)
	watched(t0+10, node1, node2, tab2)
	w.do(func(tx session.Tx) error { return tx.DeleteViewer("ses_1", "node") })
	w.do(func(tx session.Tx) error { return tx.DeleteViewer("ses_9", "node") })
	watched(t0+10, node2, tab2)
	w.do(func(tx session.Tx) error { return tx.Prune(t0 + 15) })
	watched(t0, node2, tab2)
	w.do(func(tx session.Tx) error { return tx.Bury("node") })
	watched(t0, tab2)
}
