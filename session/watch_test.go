package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// An observer gets all that has happened since its last call at once, and hears after 15
// seconds of silence that nothing did.
func TestWatchBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Manager{hub: newHub("i"), accept: t.Context()}
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		var got []string
		done := make(chan error)
		go func() {
			done <- m.Watch(ctx, Watch{Session: "s", After: "i.0"}, func(frames []*Frame) error {
				line := fmt.Sprint(time.Since(start))
				for _, f := range frames {
					line += " " + f.ID
				}
				got = append(got, line)
				if len(got) == 2 {
					<-time.After(time.Second) // what comes now, waits
				}
				return nil
			})
		}()
		record := func(seq uint64) {
			if err := m.hub.record(Record{Seq: seq, Session: "s", Run: "r"}); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		<-time.After(16 * time.Second)
		record(1)
		record(2)
		record(3)
		<-time.After(32 * time.Second)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		want := []string{"15s", "16s i.1", "17s i.2 i.3", "32s", "47s"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
