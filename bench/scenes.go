package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

func (b *bench) loads() (direct, proxy, ours load) {
	return load{name: "direct", base: b.upstream.url},
		load{name: "proxy", p: b.proxy, base: b.proxy.url},
		load{name: "reprise", p: b.reprise, base: b.reprise.url, ours: true}
}

// latency measures what is added to the first delta and to each delta.
func (b *bench) latency(ctx context.Context, rounds int, fsync time.Duration) error {
	direct, proxy, ours := b.loads()
	fmt.Fprintf(b.out, "%-36s %12s %12s %12s\n", "at the median", "direct", "proxy", "reprise")
	rows := []struct {
		name    string
		streams int
		model   string
		repeat  int
	}{
		{"first delta, one stream", 1, "d2-1ms", 20},
		{"transit of a delta, 1 stream", 1, "d100-20ms", 1},
		{"transit of a delta, 50 streams", 50, "d100-20ms", 1},
	}
	for _, row := range rows {
		var cells [3]time.Duration
		var firsts, transits [3][]time.Duration
		for range rounds * row.repeat {
			for i, l := range []load{direct, proxy, ours} {
				results, _, err := l.streams(ctx, row.streams, row.model)
				if err != nil {
					return err
				}
				for _, r := range results {
					firsts[i] = append(firsts[i], r.first)
					transits[i] = append(transits[i], r.transit[1:]...)
				}
			}
			fmt.Fprint(os.Stderr, ".")
		}
		fmt.Fprint(os.Stderr, "\n")
		for i := range cells {
			cells[i] = median(transits[i])
			if strings.HasPrefix(row.name, "first") {
				cells[i] = median(firsts[i])
			}
		}
		note := fmt.Sprintf("adds %s to the proxy's (target 300 µs)", round(cells[2]-cells[1]))
		if strings.HasPrefix(row.name, "first") {
			note = fmt.Sprintf("adds %s (target: fsync + 2 ms = %s)", round(cells[2]-cells[0]), round(fsync+2*time.Millisecond))
		}
		fmt.Fprintf(b.out, "%-36s %12s %12s %12s   %s\n", row.name, round(cells[0]), round(cells[1]), round(cells[2]), note)
	}
	return nil
}

// throughput measures the processor time of a million deltas.
func (b *bench) throughput(ctx context.Context, rounds int) error {
	_, proxy, ours := b.loads()
	fmt.Fprintf(b.out, "\n%-36s %12s %12s %12s\n", "CPU seconds a million deltas", "", "proxy", "reprise")
	for _, row := range []struct {
		name    string
		streams int
		model   string
		target  float64
	}{
		{"paced, 50 streams, 20 ms", 50, "d250-20ms", 4},
		{"saturated, 64 streams", 64, "d2000-0s", 10},
	} {
		var cost [2][]float64
		var ratio []float64
		for range rounds {
			for i, l := range []load{proxy, ours} {
				results, cpu, err := l.streams(ctx, row.streams, row.model)
				if err != nil {
					return err
				}
				deltas := 0
				for _, r := range results {
					deltas += len(r.transit)
				}
				cost[i] = append(cost[i], cpu.Seconds()*1e6/float64(deltas))
			}
			n := len(cost[0]) - 1
			ratio = append(ratio, cost[1][n]/cost[0][n])
			fmt.Fprint(os.Stderr, ".")
		}
		fmt.Fprint(os.Stderr, "\n")
		fmt.Fprintf(b.out, "%-36s %12s %12.1f %12.1f   %.1f × the proxy's (target %.0f ×)\n",
			row.name, "", median(cost[0]), median(cost[1]), median(ratio), row.target)
	}
	return nil
}

// memory measures the resident set with a thousand open streams, one delta a second each.
func (b *bench) memory(ctx context.Context) error {
	const n = 1000
	_, _, ours := b.loads()
	before, err := b.reprise.memory()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		_, _, err := ours.streams(ctx, n, "d25-1s")
		ended <- err
	}()
	peak := 0.0
	sample := time.NewTicker(250 * time.Millisecond)
	defer sample.Stop()
	for {
		select {
		case <-sample.C:
			rss, err := b.reprise.memory()
			if err != nil {
				return err
			}
			peak = max(peak, rss)
		case err := <-ended:
			fmt.Fprintf(b.out, "\nresident memory, %d open streams     %8.1f MB at the peak, %.1f before (target 250)\n", n, peak, before)
			return err
		}
	}
}
