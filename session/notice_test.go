package session

import (
	"slices"
	"testing"
)

// teller notes what it is told.
type teller struct{ told []string }

func (t *teller) Asks(HookEvent) (bool, []string) { return true, nil }
func (t *teller) Tell(n Notice)                   { t.told = append(t.told, n.ID) }

// Of transactions whose ends are heard of in another order than theirs, hooks are told in theirs,
// and of one that was undone nothing.
func TestNoticeLine(t *testing.T) {
	var l noticeLine
	h := &teller{}
	var turns []*turn
	for _, id := range []string{"a", "b", "c", "d"} {
		turn := l.join()
		turn.notices = []*Notice{{ID: id + "1"}, {ID: id + "2"}}
		turns = append(turns, turn)
	}
	for _, step := range []struct {
		leaves int
		stored bool
		told   []string
	}{
		{2, true, nil},
		{1, false, nil},
		{0, true, []string{"a1", "a2", "c1", "c2"}},
		{3, true, []string{"a1", "a2", "c1", "c2", "d1", "d2"}},
	} {
		l.leave(turns[step.leaves], step.stored, h)
		if !slices.Equal(h.told, step.told) {
			t.Errorf("told %q, want %q", h.told, step.told)
		}
	}
	if len(l.line) != 0 {
		t.Errorf("%d are left in the line", len(l.line))
	}
}
