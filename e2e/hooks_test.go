package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/provider/rehearsal"
	"github.com/reprise-run/reprise/session"
)

// F10, N22: a command that is told as an attempt opens counts as an effect: after a typed failure
// before any output exactly one request has left. The same command, declared to observe, lets the
// retry happen.
func TestHookCommand(t *testing.T) {
	for _, observe := range []bool{false, true} {
		t.Run(fmt.Sprintf("observe %v", observe), func(t *testing.T) {
			up := newUpstream(t, script("busy", 0,
				rehearsal.Take{{Do: rehearsal.Failed, Fault: &rehearsal.Fault{Kind: rehearsal.Overloaded}}}, rehearsal.Take{say("there it is")}))
			out := filepath.Join(t.TempDir(), "told")
			s := serve(t, up.config("busy", fmt.Sprintf(`recovery: {tier1: {base: 5ms}, tier2: {mode: unattended, base: 5ms, max_elapsed: 1h}}
hooks:
  notify: {on: [attempt.opened], command: [sh, -c, 'cat >/dev/null; echo $REPRISE_RUN $REPRISE_ATTEMPT $REPRISE_GENERATION >> %s'], observe: %v}`, out, observe)))
			id := s.session("")
			o := watch(s, id)
			r := s.post(id, "hi")
			run := o.end(r.RunID)
			attempts := s.attempts(id, r.RunID)
			sent := map[bool]int{false: 1, true: 2}[observe]
			if got := up.quiet(t).Total; got != sent || len(attempts) != sent {
				t.Errorf("%d requests, %d attempts, want %d", got, len(attempts), sent)
			}
			said := s.explain(r.RunID)
			if observe {
				if run.State != session.Succeeded || attempts[0].Evidence.Marks != 0 || !strings.Contains(said, "hooks 0") {
					t.Errorf("%+v\n%s", run, said)
				}
			} else {
				if run.State != session.Failed || run.Recovery.Auto || run.Recovery.Evidence != replay.HookRan || !slices.Equal(run.Recovery.Hooks, []string{"notify"}) {
					t.Errorf("%+v %+v", run, run.Recovery)
				}
				if !strings.Contains(said, "hooks 1  notify was told of attempt.opened") || !strings.Contains(said, "hooks:          notify") {
					t.Errorf("explain says\n%s", said)
				}
				warning := "The hook notify counts as an effect"
				if !strings.Contains(s.proc.stderr.String(), warning) {
					t.Error("the start does not warn")
				}
				if _, stdout, _ := reprise(t, s.home, "serve", "--check"); !strings.Contains(stdout, warning) {
					t.Errorf("--check says %s", stdout)
				}
			}
			s.stop() // what waits is told before
			var want string
			for _, a := range attempts {
				want += fmt.Sprintf("%s %s %d\n", r.RunID, a.ID, a.Evidence.Scope.Generation)
			}
			if b, err := os.ReadFile(out); err != nil || string(b) != want {
				t.Errorf("told %q, %v, want %q", b, err, want)
			}
		})
	}
}

// A webhook hears of a run that fails and of what will be done about it, signed and in order; a
// message goes on while it does not answer.
func TestWebhook(t *testing.T) {
	up := newUpstream(t, script("busy", 0,
		rehearsal.Take{{Do: rehearsal.Failed, Fault: &rehearsal.Fault{Kind: rehearsal.Overloaded}}}, rehearsal.Take{say("there it is")}))
	type told struct {
		Event, Delivery string
		Scope           struct{ Session, Run string }
		Run             *session.Run
		Schedule        *session.Schedule
	}
	heard := make(chan told, 16)
	answer := make(chan struct{})
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mac := hmac.New(sha256.New, []byte("from a file"))
		mac.Write(body)
		if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); r.Header.Get("X-Reprise-Signature") != want {
			t.Errorf("signed %s, want %s", r.Header.Get("X-Reprise-Signature"), want)
		}
		var one told
		if err := json.Unmarshal(body, &one); err != nil {
			t.Error(err)
		}
		heard <- one
		<-answer
	}))
	t.Cleanup(hook.Close)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, up.config("busy", fmt.Sprintf(`recovery: {tier1: {attempts: 1}, tier2: {mode: unattended, base: 5ms, max_elapsed: 1h}}
hooks: {chat: {on: ["run.*", schedule.armed], url: "%s", secret: "file:%s", observe: true}}`, hook.URL, secret)))
	id := s.session("")
	o := watch(s, id)
	first := s.post(id, "hi")
	o.end(first.RunID)
	var second *session.Run
	for second == nil { // it ends although nobody has answered
		select {
		case <-time.After(5 * time.Millisecond):
		case <-within(t).Done():
			t.Fatal("no second run")
		}
		got, err := s.Session(within(t), id)
		if err != nil {
			t.Fatal(err)
		}
		if r := got.LastRun; r.ID != first.RunID && r.State == session.Succeeded {
			second = r
		}
	}
	close(answer)
	s.stop()
	close(heard)
	var list []string
	for one := range heard {
		list = append(list, one.Event)
		if one.Scope.Session != string(id) || one.Delivery == "" {
			t.Errorf("%+v", one)
		}
	}
	if got := strings.Join(list, " "); got != "run.started run.failed schedule.armed run.started run.succeeded" {
		t.Errorf("heard %s", got)
	}
	up.quiet(t)
}

// The server is killed with kill -9 after a hook with an effect was told of an attempt: its mark
// is there, the request is not repeated by itself, and the hook is not told again.
func TestKillAfterHook(t *testing.T) {
	up := newUpstream(t, script("hang", 0, rehearsal.Take{{Do: rehearsal.Stall}}))
	out := filepath.Join(t.TempDir(), "told")
	s := serve(t, up.config("hang", everyRetry+fmt.Sprintf("\nhooks: {notify: {on: [attempt.opened], command: [sh, -c, 'echo $REPRISE_RUN >> %s']}}", out)))
	id := s.session("")
	r := s.post(id, "hi")
	up.await(t, "the request", func(r rehearsal.Report) bool { return r.Total == 1 })
	for b, _ := os.ReadFile(out); len(b) == 0; b, _ = os.ReadFile(out) {
		select {
		case <-time.After(time.Millisecond):
		case <-within(t).Done():
			t.Fatal("the hook was not told")
		}
	}
	s.restart()
	o := watch(s, id)
	run := o.end(r.RunID)
	if run.State != session.Failed || run.Recovery.Auto || run.Recovery.Evidence&replay.HookRan == 0 || !slices.Equal(run.Recovery.Hooks, []string{"notify"}) {
		t.Errorf("%+v %+v", run, run.Recovery)
	}
	s.stop()
	if b, err := os.ReadFile(out); err != nil || string(b) != string(r.RunID)+"\n" {
		t.Errorf("told %q, %v", b, err)
	}
	if n := up.quiet(t).Total; n != 1 {
		t.Errorf("%d requests", n)
	}
}
