package session

import (
	"slices"
	"testing"
	"time"
)

// A lease is what this node has seen without a gap, by its own clock.
func TestPeers(t *testing.T) {
	const lease = 3 * time.Second
	type at struct {
		after time.Duration // since the start
		took  time.Duration // to read the list
		beat  int64         // of the other node
	}
	every := func(step, until time.Duration, beat func(time.Duration) int64) (looks []at) {
		for d := step; d <= until; d += step {
			looks = append(looks, at{d, 0, beat(d)})
		}
		return looks
	}
	still := func(time.Duration) int64 { return 7 }
	for name, c := range map[string]struct {
		looks  []at
		silent time.Duration // when it was found so; 0: never
	}{
		"silent":               {every(500*time.Millisecond, 10*time.Second, still), 3500 * time.Millisecond},
		"never there":          {every(500*time.Millisecond, 10*time.Second, func(time.Duration) int64 { return 0 }), 3500 * time.Millisecond},
		"beats":                {every(time.Second, 10*time.Second, func(d time.Duration) int64 { return int64(d / time.Second) }), 0},
		"beats seldom":         {every(time.Second, 20*time.Second, func(d time.Duration) int64 { return int64(d / (3 * time.Second)) }), 0},
		"this one looks late":  {every(1100*time.Millisecond, 10*time.Second, still), 4400 * time.Millisecond},
		"this one is too late": {every(1600*time.Millisecond, 20*time.Second, still), 0},
		"the store was away": {slices.Concat(every(500*time.Millisecond, 2*time.Second, still),
			[]at{{9 * time.Second, 0, 7}, {10 * time.Second, 0, 7}, {11 * time.Second, 0, 7}, {12 * time.Second, 0, 7}}), 11 * time.Second},
		"the store was slow": {[]at{{0, 0, 7}, {time.Second, 5 * time.Second, 7}, {6500 * time.Millisecond, 0, 8}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var p peers
			start := time.Now()
			for _, l := range c.looks {
				began := start.Add(l.after)
				silent, _ := p.look([]Node{{"other", l.beat}}, began, began.Add(l.took), lease)
				if len(silent) > 0 != (c.silent != 0 && l.after >= c.silent) {
					t.Fatalf("after %v: %v", l.after, silent)
				}
			}
		})
	}
}

// What runs is spread evenly, and a slot that was freed is filled.
func TestShare(t *testing.T) {
	for _, c := range []struct{ running, own, waiting, nodes, freed, want int }{
		{0, 0, 1, 1, 0, 1}, {50, 50, 9, 1, 0, 9}, // alone: all
		{0, 0, 1, 3, 0, 1}, {1, 1, 1, 3, 0, 0}, {1, 0, 1, 3, 0, 1}, {3, 1, 1, 3, 0, 1}, {3, 2, 1, 3, 0, 0},
		{0, 0, 9, 3, 0, 3}, {9, 3, 30, 3, 0, 10}, {10, 10, 1, 2, 0, 0},
		{10, 10, 5, 2, 1, 1}, {10, 10, 5, 2, claimAtOnce, 5}, // freed, or swept
		{4, 4, 0, 2, 1, 0},
	} {
		if got := share(c.running, c.own, c.waiting, c.nodes, c.freed); got != c.want {
			t.Errorf("%+v: it takes %d", c, got)
		}
	}
}
