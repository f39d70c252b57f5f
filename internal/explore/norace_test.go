//go:build !race

package explore

// bound is how many deviations are explored by default, and every how many-th schedule with one is
// played twice.
const (
	bound  = 1
	stride = 8
)
