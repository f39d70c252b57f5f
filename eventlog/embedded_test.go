package eventlog

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/eventlog/logtest"
	"github.com/reprise-run/reprise/eventlog/natstest"
	"github.com/reprise-run/reprise/session"
)

// childDir names the folder for a process that appends until it is killed.
const childDir = "EVENTLOG_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	natstest.Child()
	if dir := os.Getenv(childDir); dir != "" {
		fmt.Fprintln(os.Stderr, appendForever(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// appendForever prints each number once its record is acknowledged.
func appendForever(dir string) error {
	log, err := Open(context.Background(), Options{Dir: dir})
	if err != nil {
		return err
	}
	w, err := log.Claim(context.Background(), "ses_a", "run_a", 1)
	if err != nil {
		return err
	}
	fmt.Println(log.Incarnation())
	for i := 0; ; i++ {
		if err := w.Append(context.Background(), fmt.Append(nil, i)); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

func openLog(t *testing.T, o Options) session.Log {
	t.Helper()
	log, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLog(t, log) })
	return log
}

func closeLog(t *testing.T, log session.Log) {
	t.Helper()
	if err := log.Close(); err != nil {
		t.Error("close:", err)
	}
}

func TestSuite(t *testing.T) {
	logtest.Run(t, func(t *testing.T) session.Log { return openLog(t, Options{Dir: t.TempDir()}) })
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	log := openLog(t, Options{Dir: dir})
	first := log.Incarnation()
	logtest.Append(t, logtest.Claim(t, log, "run_a", 1), "1", "2")
	publish := func() { // as a relay does that did not note its success before the restart
		t.Helper()
		if err := log.Publish(t.Context(), "ses_a", "e1", []byte("life")); err != nil {
			t.Fatal(err)
		}
	}
	publish()
	closeLog(t, log)

	log = openLog(t, Options{Dir: dir, MaxBytes: 64 << 20, MaxAge: time.Hour})
	if log.Incarnation() != first {
		t.Error("a clean stop changed the incarnation")
	}
	if _, err := log.Claim(t.Context(), "ses_a", "run_a", 1); err == nil {
		t.Error("a generation was claimed again after a restart")
	}
	publish()
	logtest.Append(t, logtest.Claim(t, log, "run_a", 2), "3")
	fo := logtest.Follow(t, log)
	logtest.Want(t, "followed", fo.Take(t, 4), "run_a 1", "run_a 2", "ses_a life", "run_a 3")
	logtest.Want(t, "output", logtest.Output(t, log, "run_a"), "1", "2", "3")
	closeLog(t, log)

	// The folder says that it stopped elsewhere than the stream ends.
	if err := os.WriteFile(filepath.Join(dir, stopFile), []byte("5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log = openLog(t, Options{Dir: dir})
	second := log.Incarnation()
	if second == first {
		t.Error("a stream that lost its end kept its incarnation")
	}
	closeLog(t, log)

	if err := os.RemoveAll(filepath.Join(dir, "jetstream")); err != nil {
		t.Fatal(err)
	}
	log = openLog(t, Options{Dir: dir})
	if id := log.Incarnation(); id == first || id == second || id == "" {
		t.Error("a new stream has the incarnation of an old one")
	}
}

func TestStopFile(t *testing.T) {
	for _, c := range []struct {
		text  string
		seq   uint64
		clean bool
	}{
		{"12\n", 12, true}, {"0\n", 0, true}, {"", 0, false}, {"12", 0, false}, {"\n", 0, false}, {"x\n", 0, false},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, stopFile), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if seq, clean, err := takeStop(dir); seq != c.seq || clean != c.clean || err != nil {
			t.Errorf("%q: got %d, %v, %v", c.text, seq, clean, err)
		}
		if _, clean, err := takeStop(dir); clean || err != nil {
			t.Errorf("%q: clean again: %v, %v", c.text, clean, err)
		}
	}
}

// A copy of a running server's folder is what a crash leaves.
func TestUncleanStart(t *testing.T) {
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	log := openLog(t, Options{Dir: dir})
	w := logtest.Claim(t, log, "run_a", 1)
	var want []string
	for i := range 500 {
		want = append(want, fmt.Sprint(i))
	}
	logtest.Append(t, w, want...)
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	crashed := openLog(t, Options{Dir: copied})
	if crashed.Incarnation() == log.Incarnation() {
		t.Error("an unclean start kept the incarnation")
	}
	logtest.Append(t, logtest.Claim(t, crashed, "run_a", 2), "more")
	logtest.Want(t, "output", logtest.Output(t, crashed, "run_a"), append(want, "more")...)
}

// Whatever was acknowledged before kill -9 is there afterwards, once and in order.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childDir+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	incarnation := lines.Text()
	acknowledged := 0
	for lines.Scan() {
		if acknowledged++; acknowledged == 1000 {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil || acknowledged < 1000 {
		t.Fatalf("the child ended with %v after %d records", err, acknowledged)
	}

	log := openLog(t, Options{Dir: dir})
	if log.Incarnation() == incarnation {
		t.Error("kill -9 kept the incarnation")
	}
	got := logtest.Output(t, log, "run_a")
	// One more may have been stored than the child could print.
	if len(got) < acknowledged || len(got) > acknowledged+1 {
		t.Errorf("%d records for %d acknowledgements", len(got), acknowledged)
	}
	for i, s := range got {
		if s != fmt.Sprint(i) {
			t.Fatalf("record %d is %q", i, s)
		}
	}
}

// A writer whose last record fell to the limits must not go on: the fence may have fallen too.
func TestDroppedByLimits(t *testing.T) {
	log := openLog(t, Options{Dir: t.TempDir(), MaxBytes: 1 << 20})
	w := logtest.Claim(t, log, "run_a", 1)
	logtest.Append(t, w, "1")
	flood := logtest.Claim(t, log, "run_b", 1)
	for range 64 {
		logtest.Append(t, flood, strings.Repeat("x", 64<<10))
	}
	for range 2 {
		if err := w.Append(t.Context(), []byte("2")); err == nil || !strings.Contains(err.Error(), errGone.Error()) {
			t.Fatalf("Append: %v", err)
		}
	}
	logtest.Append(t, logtest.Claim(t, log, "run_a", 1), "3")
	logtest.Want(t, "output", logtest.Output(t, log, "run_a"), "3")
	if got := logtest.Output(t, log, "run_b"); len(got) == 0 || len(got) > 16 {
		t.Errorf("%d records of 64 KiB in a log of 1 MiB", len(got))
	}
}

// A record above the limit is refused without harm.
func TestTooLarge(t *testing.T) {
	log := openLog(t, Options{Dir: t.TempDir()})
	w := logtest.Claim(t, log, "run_a", 1)
	if err := w.Append(t.Context(), make([]byte, maxPayload)); err == nil {
		t.Fatal("accepted")
	}
	logtest.Append(t, w, "1")
	logtest.Want(t, "output", logtest.Output(t, log, "run_a"), "1")
}

func TestOpenFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, open := range map[string]func() (session.Log, error){
		"no folder":    func() (session.Log, error) { return Open(t.Context(), Options{}) },
		"a file":       func() (session.Log, error) { return Open(t.Context(), Options{Dir: file}) },
		"done context": func() (session.Log, error) { return Open(ctx, Options{Dir: t.TempDir()}) },
	} {
		if _, err := open(); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

// A small store opens fast, and its server says nothing while all is well.
func TestOpenIsFastAndQuiet(t *testing.T) {
	dir := t.TempDir()
	var said strings.Builder
	o := Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(&said, nil))}
	best := time.Hour
	for i := range 5 {
		start := time.Now()
		log := openLog(t, o)
		best = min(best, time.Since(start))
		logtest.Append(t, logtest.Claim(t, log, "run_a", int64(i+1)), "1", "2", "3")
		closeLog(t, log)
	}
	if best > 100*time.Millisecond {
		t.Errorf("the fastest of five took %v", best)
	}
	if said.Len() > 0 {
		t.Error(said.String())
	}
}

// Close waits for what it started. The server's and client's own goroutines end soon after.
func TestCloseLeavesNothing(t *testing.T) {
	cycle := func() {
		log := openLog(t, Options{Dir: t.TempDir()})
		fo := logtest.Follow(t, log)
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() { logtest.Append(t, logtest.Claim(t, log, session.RunID(fmt.Sprint("run_", i)), 1), "1") })
		}
		wg.Wait()
		fo.Take(t, 10)
		closeLog(t, log)
		closeLog(t, log)
	}
	cycle() // starts what lives as long as the process
	before := runtime.NumGoroutine()
	cycle()
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}

// A log does not grow with the lifecycle events of its past: what a follower has to read when it
// begins is bounded, over restarts too. The output of runs stays.
func TestLifecycleIsBounded(t *testing.T) {
	o := Options{Dir: t.TempDir(), Lifecycle: 10}
	for life := range 3 {
		log, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		logtest.Append(t, logtest.Claim(t, log, session.RunID(fmt.Sprintf("run_%d", life)), 1), "out")
		for i := range 25 {
			if err := log.Publish(t.Context(), "ses_a", fmt.Sprint(life, i), []byte("life")); err != nil {
				t.Fatal(err)
			}
		}
		var events, outputs int
		ctx, caughtUp := context.WithCancel(t.Context())
		if err := log.Follow(ctx, func(r session.Record) error {
			if r.Run == "" {
				events++
			} else {
				outputs++
			}
			return nil
		}, caughtUp); ctx.Err() == nil {
			t.Fatal(err)
		}
		if events < 10 || events >= 20 || outputs != life+1 {
			t.Errorf("life %d: %d lifecycle events and %d outputs", life, events, outputs)
		}
		closeLog(t, log)
	}
}
