package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/session"
)

// What a delta costs the nodes of a cluster, in processor time of all of them together: one node, three
// that share its load, and three that have as much each, in turn. The ratios are what a delta costs three of
// what it costs one.
func BenchmarkNodes(b *testing.B) {
	const streams, deltas = 20, 250
	text := tokens("delta", deltas)
	up := newUpstream(b, rehearsal.Script{Name: "paced", Pause: rehearsal.Duration(20 * time.Millisecond),
		Scenes: []rehearsal.Scene{{rehearsal.Take{say(text)}}}})
	config := up.config("paced", fmt.Sprintf("limits: {concurrent_runs: %d}", 6*streams))
	one, three := serveCluster(b, 1, config), serveCluster(b, 3, config)
	var single, shared, each time.Duration
	for b.Loop() {
		single += one.paced(streams, text)
		shared += three.paced(streams, text)
		each += three.paced(3*streams, text) / 3
	}
	b.ReportMetric(float64(single.Microseconds())/float64(b.N*streams*deltas), "µs/delta")
	b.ReportMetric(float64(shared)/float64(single), "ratio-shared")
	b.ReportMetric(float64(each)/float64(single), "ratio-each")
	b.ReportMetric(0, "ns/op")
}

// paced lets conversations go on beside each other, each watched, and returns the processor time that
// the nodes have used meanwhile.
func (c *cluster) paced(streams int, text string) time.Duration {
	s := &server{Client: &c.api, t: c.t}
	var watched []*observer
	for range streams {
		o := watch(s, s.session("chat/paced"))
		defer o.stop()
		watched = append(watched, o)
	}
	before := c.cpu()
	var all sync.WaitGroup
	for _, o := range watched {
		all.Go(func() {
			r, err := s.Post(within(c.t), o.id, []llm.Part{llm.Text("go on")}, session.Routing{}, "")
			if err != nil {
				c.t.Error(err)
				return
			}
			o.end(r.RunID)
			if got := o.shown(r.RunID, 0); got != text {
				c.t.Errorf("%d bytes of %d were shown", len(got), len(text))
			}
		})
	}
	all.Wait()
	return c.cpu() - before
}

// cpu is the processor time that all nodes have used.
func (c *cluster) cpu() (sum time.Duration) {
	c.t.Helper()
	for _, s := range c.nodes {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.proc.cmd.Process.Pid))
		if err != nil {
			c.t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		for _, field := range strings.Fields(rest)[11:13] { // user and system, in hundredths of a second
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				c.t.Fatal(err)
			}
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}
