package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// Every call of the client reaches the manager with what it was given, and its actor (K-035),
// and brings back what the manager answers.
func TestCalls(t *testing.T) {
	w := start(t)
	ctx, c := t.Context(), w.client
	title, model, archived := "new", "chain", false
	said := []llm.Part{llm.Text("hi there")}
	for _, tc := range []struct {
		name string
		call func() (any, error)
		want string // what the manager was asked
		back any
	}{
		{"create", func() (any, error) {
			return c.CreateSession(ctx, session.NewSession{Title: "t", Model: "m", Settings: session.Settings{MaxSteps: 7}})
		}, "create operator t m 7", aSession},
		{"create from defaults", func() (any, error) { return c.CreateSession(ctx, session.NewSession{}) }, "create operator   0", aSession},
		{"list", func() (any, error) { return c.Sessions(ctx, false) }, "sessions false 0", []session.Session{aSession}},
		{"list archived (K-034)", func() (any, error) { return c.Sessions(ctx, true) }, "sessions true 0", []session.Session{}},
		{"list of subagents", func() (any, error) { return c.Children(ctx, "ses_1") }, "children ses_1", []session.Session{}},
		{"settings", func() (any, error) { return c.Settings(ctx) }, "settings", someSettings},
		{"change settings", func() (any, error) {
			return c.ChangeSettings(ctx, map[string]string{"a.b": "2s"}, []string{"c.d"})
		}, "change-settings operator map[a.b:2s] c.d", someSettings},
		{"read", func() (any, error) { return c.Session(ctx, "ses_1") }, "session ses_1", aSession},
		{"change", func() (any, error) {
			return c.PatchSession(ctx, "ses_1", session.SessionPatch{Title: &title, Model: &model, Settings: &session.Settings{MaxSteps: 2}, Archived: &archived})
		}, "patch operator ses_1 title=new model=chain steps=2 archived=false", aSession},
		{"change nothing", func() (any, error) { return c.PatchSession(ctx, "ses_1", session.SessionPatch{}) }, "patch operator ses_1", aSession},
		{"archive (K-034)", func() (any, error) { return c.ArchiveSession(ctx, "ses_1") }, "patch operator ses_1 archived=true", aSession},
		{"history", func() (any, error) { return c.Messages(ctx, "ses_1", false, 0, 0) }, "messages ses_1 false 0 0", []session.Message{aMessage}},
		{"history, all of it (K-193)", func() (any, error) { return c.Messages(ctx, "ses_1", true, 4, 9) }, "messages ses_1 true 4 9", []session.Message{aMessage}},
		{"post", func() (any, error) { return c.Post(ctx, "ses_1", said, session.Routing{}, "") },
			"post operator POST /api/v1/sessions/ses_1/messages  ses_1 text hi there", aReceipt},
		{"post with a key (K-194)", func() (any, error) { return c.Post(ctx, "ses_1", said, session.Routing{}, "k1") },
			"post operator POST /api/v1/sessions/ses_1/messages k1 ses_1 text hi there", aReceipt},
		{"regenerate (K-194)", func() (any, error) {
			return c.Regenerate(ctx, "ses_1", "msg_1", session.RegenerateRequest{Revision: 3, ConfirmEffects: true}, "k2")
		}, "regenerate operator POST /api/v1/sessions/ses_1/messages/msg_1/regenerate k2 ses_1 msg_1 3 true", aReceipt},
		{"resume", func() (any, error) { return c.Resume(ctx, "ses_1", "run_1", "k3") },
			"resume operator POST /api/v1/sessions/ses_1/runs/run_1/resume k3 ses_1 run_1", aReceipt},
		{"edit pending", func() (any, error) { return c.EditPending(ctx, "ses_1", "msg_2", said) },
			"edit operator ses_1 msg_2 hi there", []session.Pending{aPending}},
		{"remove pending", func() (any, error) { return nil, c.RemovePending(ctx, "ses_1", "msg_2") }, "remove operator ses_1 msg_2", nil},
		{"send now", func() (any, error) { return c.SendNow(ctx, "ses_1", "msg_2") }, "send-now operator ses_1 msg_2", aReceipt},
		{"run", func() (any, error) { return c.Run(ctx, "ses_1", "run_1") }, "run ses_1 run_1", aRun},
		{"cancel", func() (any, error) { return c.Cancel(ctx, "ses_1", "run_1") }, "cancel operator ses_1 run_1", aRun},
		{"start", func() (any, error) { return c.StartRun(ctx, "ses_1", "run_1") }, "start operator ses_1 run_1", aRun},
		{"attempts", func() (any, error) { return c.Attempts(ctx, "ses_1", "run_1") }, "attempts ses_1 run_1",
			[]session.Attempt{{ID: "att_1", RunID: "run_1", Number: 1}}},
		{"retry now", func() (any, error) { return c.RetryNow(ctx, "ses_1", 3, true) }, "retry-now operator POST /api/v1/sessions/ses_1/retry/now  ses_1 3 true", aReceipt},
		{"cancel retry", func() (any, error) { return c.CancelRetry(ctx, "ses_1", 3) }, "cancel-retry operator ses_1 3", session.Retired{Run: &aRun}},
		{"snooze", func() (any, error) { return c.Snooze(ctx, "ses_1", 3, time.UnixMilli(1790000000000)) }, "snooze operator ses_1 3 1790000000000", aSchedule},
		{"schedule", func() (any, error) { return c.Schedule(ctx, "ses_1", 3) }, "schedule operator ses_1 3", aSchedule},
		{"tool calls", func() (any, error) { return c.ToolCalls(ctx, "ses_1", "run_1") }, "tool-calls ses_1 run_1", []session.ToolCall{aCall}},
		{"approve", func() (any, error) { return c.ApproveCall(ctx, "ses_1", "call_1") }, "answer operator ses_1 call_1 true", aCall},
		{"deny", func() (any, error) { return c.DenyCall(ctx, "ses_1", "call_1", "not there") }, "answer operator ses_1 call_1 false not there", aCall},
		{"deny without a word", func() (any, error) { return c.DenyCall(ctx, "ses_1", "call/1", "") }, "answer operator ses_1 call/1 false", aCall},
		{"resolve", func() (any, error) { return c.ResolveCall(ctx, "ses_1", "call_1", session.MarkDone) }, "resolve operator ses_1 call_1 mark_done",
			session.ToolCall{CallID: "call_1", State: session.CallEnded}},
		{"find", func() (any, error) { return c.FindRun(ctx, "run_1") }, "find run_1", aRun},
		{"an id that needs escapes", func() (any, error) { return c.FindRun(ctx, "run/../1 ?") }, "find run/../1 ?", aRun},
		{"ids that need escapes", func() (any, error) { return c.Run(ctx, "ses/1", "run?1") }, "run ses/1 run?1", aRun},
		{"models", func() (any, error) { return c.Models(ctx) }, "",
			httpapi.ModelList{Models: w.List(), Chains: []httpapi.Chain{}}},
		{"check (K-163)", func() (any, error) { return c.Check(ctx, "openai") }, "check openai", httpapi.Check{}},
		{"tools", func() (any, error) { return c.Tools(ctx) }, "tools", someTools},
		{"start tools", func() (any, error) { return c.StartTools(ctx) }, "start-tools", someTools},
		{"fences", func() (any, error) {
			list, err := c.Fences(ctx)
			list.Now = 0
			return list, err
		}, "fences", httpapi.FenceList{Fences: []session.Fence{aFence}}},
		{"lift a fence", func() (any, error) { return nil, c.LiftFence(ctx, "fen_1") }, "lift-fence operator fen_1", nil},
		{"cool-offs", func() (any, error) {
			list, err := c.CoolOffs(ctx)
			list.Now = 0
			return list, err
		}, "cool-offs", httpapi.CoolOffList{CoolOffs: []recovery.CoolOff{aCoolOff}}},
		{"lift a cool-off", func() (any, error) { return nil, c.LiftCoolOff(ctx, aCoolOff.Candidate) }, "lift-cool-off operator openai/gpt with env:A", nil},
		{"lift a key's cool-off", func() (any, error) {
			return nil, c.LiftCoolOff(ctx, recovery.Candidate{Provider: "openai", Key: "env:A"})
		}, "lift-cool-off operator openai with env:A", nil},
		{"client keys (K-158)", func() (any, error) { return c.ClientKeys(ctx) }, "keys", httpapi.ClientKeyList{ClientKeys: []session.ClientKey{aKey}}},
		{"create a client key", func() (any, error) {
			return c.CreateClientKey(ctx, httpapi.NewClientKey{Label: "laptop", ClientTerms: aKey.ClientTerms})
		}, "create-key operator laptop [openai/*] 3", httpapi.CreatedClientKey{Key: "rpk_1", ClientKey: aKey}},
		{"change a client key", func() (any, error) {
			return c.ChangeClientKey(ctx, "key_1", session.ClientTermsPatch{Rate: &aKey.Rate})
		}, "change-key operator key_1 3 true", aKey},
		{"revoke a client key", func() (any, error) { return c.RevokeClientKey(ctx, "key_1") }, "revoke-key operator key_1", aKey},
		{"gateway calls", func() (any, error) {
			return c.GatewayCalls(ctx, session.GatewayQuery{Key: "key_1", Client: "laptop", Outcome: session.GatewayWhole, Before: "gw_9", Limit: 7})
		}, "calls key_1 laptop whole gw_9 7", []session.GatewayCall{aGatewayCall}},
		{"a gateway call", func() (any, error) { return c.GatewayCall(ctx, "gw_1") }, "gateway-call gw_1", aGatewayCall},
		{"audit (K-180)", func() (any, error) { return c.Audit(ctx, "ses_1", 7) }, "audit ses_1 7", []session.Audit{anAct}},
		{"audit of all (K-180)", func() (any, error) { return c.Audit(ctx, "", 0) }, "audit  100", []session.Audit{anAct}},
		{"system (K-029)", func() (any, error) { return c.System(ctx) }, "system", aSystem},
		{"ready", func() (any, error) { return nil, c.Ready(ctx) }, "", nil},
	} {
		w.fake.calls = nil
		back, err := tc.call()
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if got := w.last(); got != tc.want {
			t.Errorf("%s: the manager was asked %q, want %q", tc.name, got, tc.want)
		}
		if !reflect.DeepEqual(back, tc.back) {
			t.Errorf("%s:\n got %+v\nwant %+v", tc.name, back, tc.back)
		}
	}
}

// K-044: a cancel is accepted while it is not acknowledged, and reports the state of a run
// that has ended.
func TestCancel(t *testing.T) {
	w := start(t)
	for state, want := range map[session.RunState]int{
		session.Queued: 202, session.Running: 202, session.Succeeded: 200, session.Failed: 200, session.Cancelled: 200,
	} {
		w.fake.run.State = state
		resp, body := w.send(t, "POST", "/api/v1/sessions/ses_1/runs/run_1/cancel", "", w.bearer())
		if resp.StatusCode != want || !strings.Contains(body, `"state":"`+string(state)+`"`) {
			t.Errorf("%s: %d %s, want %d", state, resp.StatusCode, body, want)
		}
	}
}

// What the page reads and the command line does not.
func TestReadOnly(t *testing.T) {
	w := start(t)
	for path, want := range map[string][2]string{
		"/api/v1/sessions/ses_1/runs":                      {"runs ses_1", `{"runs":[{"id":"run_1"`},
		"/api/v1/sessions/ses_1/messages/msg_1/regenerate": {"preview ses_1 msg_1", `{"revision":3,"superseded":0,"replies":0,"later":0,"pending":0,"effects":[]`},
	} {
		resp, body := w.send(t, "GET", path, "", w.bearer())
		if resp.StatusCode != 200 || !strings.HasPrefix(body, want[1]) || w.last() != want[0] {
			t.Errorf("%s: %d %s, asked %q", path, resp.StatusCode, body, w.last())
		}
	}
}

// The statuses of success, where they say more than 200.
func TestSuccess(t *testing.T) {
	w := start(t)
	for _, tc := range []struct {
		route, body string
		want        int
	}{
		{"POST /api/v1/sessions", "{}", 201},
		{"POST /api/v1/sessions/ses_1/messages", `{"parts":[{"kind":"text","text":"hi"}]}`, 202},
		{"POST /api/v1/sessions/ses_1/messages/msg_1/regenerate", "", 202},
		{"POST /api/v1/sessions/ses_1/messages/msg_1/regenerate", `{"confirm_effects":true}`, 202},
		{"POST /api/v1/sessions/ses_1/runs/run_1/resume", "", 202},
		{"DELETE /api/v1/sessions/ses_1/pending/msg_2", "", 204},
		{"GET /healthz", "", 200},
		{"HEAD /healthz", "", 200},
	} {
		method, path, _ := strings.Cut(tc.route, " ")
		resp, body := w.send(t, method, path, tc.body, w.bearer())
		if resp.StatusCode != tc.want {
			t.Errorf("%s: %d %s, want %d", tc.route, resp.StatusCode, body, tc.want)
		}
	}
}

// K-194: repeats of a request have one hash, whatever their white space; other requests
// have another.
func TestActHash(t *testing.T) {
	w := start(t)
	const path = "/api/v1/sessions/ses_1/messages"
	for _, body := range []string{
		`{"parts":[{"kind":"text","text":"hi"}]}`,
		"{ \"parts\": [\n{\"text\":\"hi\", \"kind\":\"text\"}]}",
		`{"parts":[{"kind":"text","text":"hi!"}]}`,
	} {
		if resp, got := w.send(t, "POST", path, body, w.bearer(), "Idempotency-Key: k"); resp.StatusCode != 202 {
			t.Fatalf("%d %s", resp.StatusCode, got)
		}
	}
	a := w.fake.acts
	if a[0].Hash == "" || a[0] != a[1] {
		t.Errorf("a repeat differs: %+v %+v", a[0], a[1])
	}
	if a[2].Hash == a[0].Hash {
		t.Error("another body has the same hash")
	}
}

// K-163, K-164, K-134: what a provider's test says.
func TestCheck(t *testing.T) {
	w := start(t)
	w.fake.check = httpapi.Check{OK: true, Provider: "openai", Model: "m", Millis: 5}
	if got, err := w.client.Check(t.Context(), "openai"); err != nil || !reflect.DeepEqual(got, w.fake.check) {
		t.Errorf("%+v, %v", got, err)
	}
	w.fake.check = httpapi.Check{Model: "m"}
	for class := range failure.Classes() {
		f := &failure.Failure{Class: failure.Class(class), Message: "said so", Rule: "r"}
		w.fake.err = f
		got, err := w.client.Check(t.Context(), "openai")
		var e *client.Error
		switch f.Class {
		case failure.Network, failure.Timeout:
			if !asError(err, &e) || e.Code != "provider_unreachable" || e.Status != 502 ||
				!strings.Contains(string(e.Details), `"class":"`+f.Class.String()+`"`) {
				t.Errorf("%s: %v", f.Class, err)
			}
		default:
			if err != nil || got.OK || got.Provider != "openai" || got.Model != "m" || got.Failure == nil || got.Failure.Class != f.Class || got.Failure.Message != "said so" {
				t.Errorf("%s: %+v, %v", f.Class, got, err)
			}
		}
	}
	w.fake.err = session.ErrNotFound
	if _, err := w.client.Check(t.Context(), "nobody"); status(err) != 404 {
		t.Errorf("an unknown provider: %v", err)
	}
}

// A server that stops says so, and serves what is asked meanwhile.
func TestReadiness(t *testing.T) {
	var trouble error
	w := start(t, func(c *config) { c.o.Ready = func(context.Context) error { return trouble } })
	if err := w.client.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	trouble = errSecret
	if err := w.client.Ready(t.Context()); status(err) != 503 || strings.Contains(err.Error(), "secret") {
		t.Errorf("not ready: %v", err)
	}
	trouble = nil
	w.handler.Stop()
	if err := w.client.Ready(t.Context()); status(err) != 503 {
		t.Errorf("stopping: %v", err)
	}
	if _, err := w.client.System(t.Context()); err != nil {
		t.Errorf("stopping: %v", err)
	}
}

// What a list has no items of is [], never null, for clients that loop over it.
func TestEmptyLists(t *testing.T) {
	w := start(t)
	for path, want := range map[string]string{
		"/api/v1/sessions?archived=true": `{"sessions":[]}`,
		"/api/v1/models":                 `"chains":[]`,
	} {
		_, body := w.send(t, "GET", path, "", w.bearer())
		if !json.Valid([]byte(body)) || !strings.Contains(body, want) {
			t.Errorf("%s: %s", path, body)
		}
	}
}

// The API's answers are for one reader, and never stored.
func TestNoStore(t *testing.T) {
	w := start(t)
	for _, path := range []string{"/api/v1/system", "/api/v1/nothing", "/healthz"} {
		resp, _ := w.send(t, "GET", path, "", w.bearer())
		if got := resp.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control %q", path, got)
		}
		if resp.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s is compressed", path)
		}
	}
	if resp, _ := w.send(t, "GET", "/", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("without a page: %d", resp.StatusCode)
	}
}

// A hidden tab asks for what has changed since it looked.
func TestSessionsChangedAfter(t *testing.T) {
	w := start(t)
	if resp, body := w.send(t, "GET", "/api/v1/sessions?changed_after=1790000000000", "", w.bearer()); resp.StatusCode != 200 || w.last() != "sessions false 1790000000000" {
		t.Errorf("%d %s: %s", resp.StatusCode, body, w.last())
	}
	if resp, _ := w.send(t, "GET", "/api/v1/sessions?changed_after=-1", "", w.bearer()); resp.StatusCode != 400 {
		t.Errorf("a negative time: %d", resp.StatusCode)
	}
}
