//go:build race

package explore

// bound is how many deviations are explored by default, and every how many-th schedule with one is
// played twice: the race detector makes a schedule ten times as dear, and needs few.
const (
	bound  = 0
	stride = 40
)
