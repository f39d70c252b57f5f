// Package e2e tests the binary that users run, from outside: its command line, its API, its
// page in a real browser, and what is left of a reply after kill -9.
//
// It promises: every test starts processes of its own on free ports with data folders of its
// own, and ends them; the judge of how often something was sent is the upstream, which counts
// in the test's process and outlives whatever is killed; nothing waits for a time to pass,
// only for something to happen. It refuses to reach into the binary: there are no hooks.
package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var (
	seed  = flag.Uint64("seed", rand.Uint64(), "`number` that the moments of kill -9 follow from")
	kills = flag.Int("kills", 30, "how often the server is killed")
	soak  = flag.Duration("soak", time.Minute, "how long the server is killed under load")
	race  = flag.Bool("racebinary", false, "build the binary with the race detector")
)

// patience is how long something that must happen is waited for. A machine that is busy
// with other tests needs some.
const patience = 60 * time.Second

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "reprise-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "reprise")
	args := []string{"build", "-o", binary}
	if *race {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "../cmd/reprise")...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the binary: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
