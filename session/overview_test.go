package session

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Observers that come together share what they read, and none gets what was read before it came.
func TestReadingsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, readings := newReadings(), 0
		read := func() (overview, error) {
			readings++
			n := readings
			<-time.After(time.Second)
			return overview{system: System{Running: n}}, nil
		}
		var all sync.WaitGroup
		come := func(want int) {
			all.Go(func() {
				if got, err := r.share(t.Context(), read); err != nil || got.system.Running != want {
					t.Errorf("reading %d, %v; want %d", got.system.Running, err, want)
				}
			})
			synctest.Wait()
		}
		come(1)
		for range 49 {
			come(2)
		}
		left, leave := context.WithCancelCause(t.Context())
		gone := errors.New("the page was closed")
		all.Go(func() {
			if _, err := r.share(left, read); !errors.Is(err, gone) {
				t.Error(err)
			}
		})
		synctest.Wait()
		leave(gone)
		<-time.After(1500 * time.Millisecond)
		come(3)
		all.Wait()
		come(4)
		all.Wait()
	})
}
