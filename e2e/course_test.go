package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// courses is how long things took, minute by minute of a long test: whether they slow down.
type courses struct {
	began time.Time
	mu    sync.Mutex
	took  map[string][][]time.Duration // by what and minute
}

func newCourses() *courses {
	return &courses{began: time.Now(), took: map[string][][]time.Duration{}}
}

// add notes what began at a time and has just ended.
func (c *courses) add(what string, at time.Time) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	minute := int(now.Sub(c.began) / time.Minute)
	of := c.took[what]
	for len(of) <= minute {
		of = append(of, nil)
	}
	of[minute] = append(of[minute], now.Sub(at))
	c.took[what] = of
}

// log writes the least, the median and the most of each minute.
func (c *courses) log(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for what, minutes := range c.took {
		var b strings.Builder
		for n, all := range minutes {
			if len(all) == 0 {
				continue
			}
			slices.Sort(all)
			round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
			fmt.Fprintf(&b, "\n  minute %2d: %5d, %s, %s, %s", n, len(all), round(all[0]), round(all[len(all)/2]), round(all[len(all)-1]))
		}
		t.Logf("%s: how many, least, median and most of the time%s", what, b.String())
	}
}
