package eventlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/reprise-run/reprise/eventlog/natstest"
	"github.com/reprise-run/reprise/session"
)

// eachLog runs f as one run and as 50 at once, on the embedded log, on a server of its own (R1), and on three of which each has every
// record (R3). All are in this process and on one disk.
func eachLog(b *testing.B, f func(b *testing.B, log session.Log, runs int)) {
	b.Run("embedded", func(b *testing.B) {
		eachRuns(b, f, func(b *testing.B) session.Log {
			log, err := Open(b.Context(), Options{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() {
				if err := log.Close(); err != nil {
					b.Error(err)
				}
			})
			return log
		})
	})
	for _, n := range []int{1, 3} {
		b.Run(fmt.Sprintf("R%d", n), func(b *testing.B) {
			c := natstest.Start(b, n)
			eachRuns(b, f, func(b *testing.B) session.Log { return joinCluster(b, c, freshStream()) })
		})
	}
}

func eachRuns(b *testing.B, f func(*testing.B, session.Log, int), open func(*testing.B) session.Log) {
	for _, runs := range []int{1, 50} {
		b.Run(fmt.Sprintf("runs=%d", runs), func(b *testing.B) { f(b, open(b), runs) })
	}
}

// start begins what is measured, and returns what ends it: it reports the processor time of an append.
func start(b *testing.B) (end func()) {
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime()
	return func() {
		b.StopTimer()
		b.ReportMetric(float64(processorTime()-before)/float64(time.Microsecond)/float64(b.N), "cpu-µs/op")
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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

func claimRuns(b *testing.B, log session.Log, n int) []session.Writer {
	writers := make([]session.Writer, n)
	for i := range writers {
		w, err := log.Claim(b.Context(), "ses_a", session.RunID(fmt.Sprintf("run_%d", i)), 1)
		if err != nil {
			b.Fatal(err)
		}
		writers[i] = w
	}
	return writers
}

// BenchmarkAppend appends 200 bytes.
func BenchmarkAppend(b *testing.B) {
	eachLog(b, func(b *testing.B, log session.Log, runs int) {
		data := make([]byte, 200)
		took := make([]time.Duration, b.N)
		writers := claimRuns(b, log, runs)
		end := start(b)
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
		end()
		report(b, "append", took)
	})
}

// BenchmarkTransit measures from Append's start, and from its return, to the follower's call. Each
// run waits for its record before it appends the next, so that this is the way, not a queue.
func BenchmarkTransit(b *testing.B) {
	eachLog(b, func(b *testing.B, log session.Log, runs int) {
		writers := claimRuns(b, log, runs)
		arrived := make([]chan time.Time, runs)
		for r := range runs {
			arrived[r] = make(chan time.Time, 1)
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
		end := start(b)
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
		end()
		cancel()
		followed.Wait()
		report(b, "start", sinceStart)
		report(b, "return", sinceReturn)
	})
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
