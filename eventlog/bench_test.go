package eventlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/session"
)

func openTB(tb testing.TB, dir string) *embedded {
	tb.Helper()
	log, err := Open(tb.Context(), Options{Dir: dir})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := log.Close(); err != nil {
			tb.Error(err)
		}
	})
	return log.(*embedded)
}

// report prints the median and the 99th percentile of some durations, in µs.
func report(b *testing.B, name string, took []time.Duration) {
	slices.Sort(took)
	at := func(p float64) float64 {
		return float64(took[int(p*float64(len(took)-1))]) / float64(time.Microsecond)
	}
	b.ReportMetric(at(0.5), name+"-p50-µs")
	b.ReportMetric(at(0.99), name+"-p99-µs")
}

// BenchmarkAppend appends 200 bytes, as one run and as 50 at once.
func BenchmarkAppend(b *testing.B) {
	for _, runs := range []int{1, 50} {
		b.Run(fmt.Sprintf("runs=%d", runs), func(b *testing.B) {
			log := openTB(b, b.TempDir())
			data := make([]byte, 200)
			took := make([]time.Duration, b.N)
			writers := make([]session.Writer, runs)
			for i := range writers {
				w, err := log.Claim(b.Context(), "ses_a", session.RunID(fmt.Sprintf("run_%d", i)), 1)
				if err != nil {
					b.Fatal(err)
				}
				writers[i] = w
			}
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for r, w := range writers {
				wg.Go(func() {
					for i := r; i < b.N; i += runs {
						start := time.Now()
						if err := w.Append(b.Context(), data); err != nil {
							b.Error(err)
							return
						}
						took[i] = time.Since(start)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			report(b, "append", took)
		})
	}
}

// BenchmarkTransit measures from Append's start, and from its return, to the follower's call. Each
// run waits for its record before it appends the next, so that this is the way, not a queue.
func BenchmarkTransit(b *testing.B) {
	for _, runs := range []int{1, 50} {
		b.Run(fmt.Sprintf("runs=%d", runs), func(b *testing.B) {
			log := openTB(b, b.TempDir())
			writers := make([]session.Writer, runs)
			arrived := make([]chan time.Time, runs)
			for r := range runs {
				w, err := log.Claim(b.Context(), "ses_a", session.RunID(fmt.Sprintf("run_%d", r)), 1)
				if err != nil {
					b.Fatal(err)
				}
				writers[r], arrived[r] = w, make(chan time.Time, 1)
			}
			ctx, cancel := context.WithCancel(b.Context())
			caught := make(chan struct{})
			var followed sync.WaitGroup
			followed.Go(func() {
				err := log.Follow(ctx, func(r session.Record) error {
					arrived[binary.LittleEndian.Uint64(r.Data)] <- time.Now()
					return nil
				}, func() { close(caught) })
				if !errors.Is(err, context.Canceled) {
					b.Error(err)
				}
			})
			<-caught
			sinceStart, sinceReturn := make([]time.Duration, b.N), make([]time.Duration, b.N)
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for r, w := range writers {
				wg.Go(func() {
					data := binary.LittleEndian.AppendUint64(make([]byte, 0, 200), uint64(r))[:200]
					for i := r; i < b.N; i += runs {
						started := time.Now()
						if err := w.Append(b.Context(), data); err != nil {
							b.Error(err)
							return
						}
						returned := time.Now()
						at := <-arrived[r]
						sinceStart[i], sinceReturn[i] = at.Sub(started), at.Sub(returned)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			cancel()
			followed.Wait()
			report(b, "start", sinceStart)
			report(b, "return", sinceReturn)
		})
	}
}

// BenchmarkOpen opens a log of 100 records.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	for i := range b.N {
		b.StopTimer()
		if i == 0 {
			log, err := Open(b.Context(), Options{Dir: dir})
			if err != nil {
				b.Fatal(err)
			}
			w, err := log.Claim(b.Context(), "ses_a", "run_a", 1)
			if err != nil {
				b.Fatal(err)
			}
			for range 100 {
				if err := w.Append(b.Context(), make([]byte, 200)); err != nil {
					b.Fatal(err)
				}
			}
			if err := log.Close(); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		log, err := Open(b.Context(), Options{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := log.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
