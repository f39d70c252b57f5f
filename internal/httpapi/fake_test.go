package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/llm/replay"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// fake answers every call with something typical, or with err, and records it.
type fake struct {
	mu    sync.Mutex
	calls []string
	acts  []session.Act

	err      error
	pause    time.Duration // that a post or a check takes
	run      session.Run
	messages []session.Message
	watch    watcher
	check    httpapi.Check
}

func (f *fake) call(name string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, strings.TrimSpace(name+" "+strings.Trim(fmt.Sprintf("%+v", args), "[]")))
	return f.err
}

func (f *fake) work(ctx context.Context) error {
	if f.pause == 0 {
		return nil
	}
	select {
	case <-time.After(f.pause):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("work: %w", ctx.Err())
	}
}

func (f *fake) act(a session.Act) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acts = append(f.acts, a)
	return a.Actor + " " + a.Route + " " + a.Key
}

func (f *fake) last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.calls) == 0 {
		return ""
	}
	return f.calls[len(f.calls)-1]
}

// named lists the calls of one name.
func (f *fake) named(name string) (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if strings.HasPrefix(c, name+" ") {
			list = append(list, strings.TrimSpace(c))
		}
	}
	return list
}

var (
	aSession  = session.Session{ID: "ses_1", Title: "first", Model: "rehearsal/ok", Actor: "operator", Revision: 3, State: session.Idle}
	aRun      = session.Run{ID: "run_1", SessionID: "ses_1", MessageID: "msg_1", State: session.Running, Trigger: session.TriggerMessage}
	aSchedule = session.Schedule{SessionID: "ses_1", RunID: "run_1", State: session.ScheduleArmed, Verb: replay.Regenerate, Token: 3}
	aCall     = session.ToolCall{SessionID: "ses_1", RunID: "run_1", CallID: "call_1", Name: "write_file", State: session.CallAsked, Approval: &session.Approval{AskedAt: 5, ExpiresAt: 9}}
	aReceipt  = session.Receipt{MessageID: "msg_1", RunID: "run_1", State: "running"}
	aMessage  = session.Message{ID: "msg_1", SessionID: "ses_1", Position: 1, Role: session.RoleOperator, Parts: []llm.Part{llm.Text("hi")}}
	aPending  = session.Pending{MessageID: "msg_2", RunID: "run_2", SessionID: "ses_1", Parts: []llm.Part{llm.Text("later")}}
	anAct     = session.Audit{At: 1, Actor: "operator", Act: "cancel", SessionID: "ses_1", RunID: "run_1"}
	aSystem   = session.System{Version: "test", ConcurrentRuns: 16, Now: 1}
)

func (f *fake) CreateSession(_ context.Context, actor string, n session.NewSession) (session.Session, error) {
	return aSession, f.call("create", actor, n.Title, n.Model, n.Settings.MaxSteps)
}
func (f *fake) Sessions(_ context.Context, archived bool, after session.Time) ([]session.Session, error) {
	if err := f.call("sessions", archived, after); err != nil || archived {
		return nil, err
	}
	return []session.Session{aSession}, nil
}
func (f *fake) Children(_ context.Context, id session.ID) ([]session.Session, error) {
	return nil, f.call("children", id)
}
func (f *fake) Session(_ context.Context, id session.ID) (session.Session, error) {
	return aSession, f.call("session", id)
}
func (f *fake) PatchSession(_ context.Context, actor string, id session.ID, p session.SessionPatch) (session.Session, error) {
	said := ""
	if p.Title != nil {
		said += " title=" + *p.Title
	}
	if p.Model != nil {
		said += " model=" + *p.Model
	}
	if p.Settings != nil {
		said += fmt.Sprint(" steps=", p.Settings.MaxSteps)
	}
	if p.Archived != nil {
		said += fmt.Sprint(" archived=", *p.Archived)
	}
	return aSession, f.call("patch", actor, string(id)+said)
}
func (f *fake) Messages(_ context.Context, id session.ID, superseded bool, after int64, limit int) ([]session.Message, error) {
	return append([]session.Message{aMessage}, f.messages...), f.call("messages", id, superseded, after, limit)
}
func (f *fake) Post(ctx context.Context, a session.Act, id session.ID, parts []llm.Part, _ session.Routing) (session.Receipt, error) {
	if err := f.work(ctx); err != nil {
		return session.Receipt{}, err
	}
	return aReceipt, f.call("post", f.act(a), id, parts[0].Kind, parts[0].Text)
}
func (f *fake) Regenerate(_ context.Context, a session.Act, id session.ID, m session.MessageID, r session.RegenerateRequest) (session.Receipt, error) {
	return aReceipt, f.call("regenerate", f.act(a), id, m, r.Revision, r.ConfirmEffects)
}
func (f *fake) PreviewRegenerate(_ context.Context, id session.ID, m session.MessageID) (session.Preview, error) {
	return session.Preview{Revision: 3}, f.call("preview", id, m)
}
func (f *fake) Resume(_ context.Context, a session.Act, id session.ID, run session.RunID) (session.Receipt, error) {
	return aReceipt, f.call("resume", f.act(a), id, run)
}
func (f *fake) EditPending(_ context.Context, actor string, id session.ID, m session.MessageID, parts []llm.Part) ([]session.Pending, error) {
	return []session.Pending{aPending}, f.call("edit", actor, id, m, parts[0].Text)
}
func (f *fake) RemovePending(_ context.Context, actor string, id session.ID, m session.MessageID) error {
	return f.call("remove", actor, id, m)
}
func (f *fake) SendNow(_ context.Context, actor string, id session.ID, m session.MessageID) (session.Receipt, error) {
	return aReceipt, f.call("send-now", actor, id, m)
}
func (f *fake) Cancel(_ context.Context, actor string, id session.ID, run session.RunID) (session.Run, error) {
	return f.run, f.call("cancel", actor, id, run)
}
func (f *fake) StartRun(_ context.Context, actor string, id session.ID, run session.RunID) (session.Run, error) {
	return f.run, f.call("start", actor, id, run)
}
func (f *fake) Runs(_ context.Context, id session.ID) ([]session.Run, error) {
	return []session.Run{f.run}, f.call("runs", id)
}
func (f *fake) Run(_ context.Context, id session.ID, run session.RunID) (session.Run, error) {
	return f.run, f.call("run", id, run)
}
func (f *fake) Attempts(_ context.Context, id session.ID, run session.RunID) ([]session.Attempt, error) {
	return []session.Attempt{{ID: "att_1", RunID: run, Number: 1}}, f.call("attempts", id, run)
}
func (f *fake) FindRun(_ context.Context, run session.RunID) (session.Run, error) {
	return f.run, f.call("find", run)
}
func (f *fake) RetryNow(_ context.Context, a session.Act, id session.ID, token int64, confirmed bool) (session.Receipt, error) {
	return aReceipt, f.call("retry-now", f.act(a), id, token, confirmed)
}
func (f *fake) CancelRetry(_ context.Context, actor string, id session.ID, token int64) (session.Retired, error) {
	return session.Retired{Run: &aRun}, f.call("cancel-retry", actor, id, token)
}
func (f *fake) Snooze(_ context.Context, actor string, id session.ID, token int64, until time.Time) (session.Schedule, error) {
	return aSchedule, f.call("snooze", actor, id, token, until.UnixMilli())
}
func (f *fake) Schedule(_ context.Context, actor string, id session.ID, token int64) (session.Schedule, error) {
	return aSchedule, f.call("schedule", actor, id, token)
}
func (f *fake) Waiting(context.Context) ([]session.Schedule, error) {
	return []session.Schedule{aSchedule}, f.call("waiting")
}
func (f *fake) AddViewer(_ context.Context, id session.ID, viewer string) error {
	return f.call("add-viewer", id, viewer)
}
func (f *fake) RemoveViewer(_ context.Context, id session.ID, viewer string) error {
	return f.call("remove-viewer", id, viewer)
}
func (f *fake) ToolCalls(_ context.Context, id session.ID, run session.RunID) ([]session.ToolCall, error) {
	return []session.ToolCall{aCall}, f.call("tool-calls", id, run)
}
func (f *fake) Asked(context.Context) ([]session.ToolCall, error) {
	return []session.ToolCall{aCall}, f.call("asked")
}
func (f *fake) AnswerCall(_ context.Context, actor string, id session.ID, call string, a session.Answer) (session.ToolCall, error) {
	return aCall, f.call("answer", actor, id, call, a.Approve, a.Reason)
}
func (f *fake) ResolveCall(_ context.Context, actor string, id session.ID, call string, how session.Resolution) (session.ToolCall, error) {
	return session.ToolCall{CallID: call, State: session.CallEnded}, f.call("resolve", actor, id, call, how)
}
func (f *fake) Record(_ context.Context, actor, act, detail string) error {
	return f.call("record", actor, act, detail)
}
func (f *fake) Audit(_ context.Context, id session.ID, limit int) ([]session.Audit, error) {
	return []session.Audit{anAct}, f.call("audit", id, limit)
}
func (f *fake) System(context.Context) (session.System, error) { return aSystem, f.call("system") }
func (f *fake) Watch(ctx context.Context, w session.Watch, do func([]*session.Frame) error) error {
	return f.watch(ctx, w, do)
}

// fakeSettings are the fake's settings: List is taken by its models.
type fakeSettings struct{ *fake }

var someSettings = httpapi.SettingList{Settings: []httpapi.Setting{{Key: "a.b", Value: "2s", Configured: "1s", From: "file", Set: true}}}

func (f fakeSettings) List(context.Context) (httpapi.SettingList, error) {
	return someSettings, f.call("settings")
}
func (f fakeSettings) Change(_ context.Context, actor string, set map[string]string, reset []string) (httpapi.SettingList, error) {
	return someSettings, f.call("change-settings", actor, set, strings.Join(reset, " "))
}

func (f *fake) List() []httpapi.Model {
	return []httpapi.Model{{Name: "rehearsal/ok", Provider: "rehearsal", Dialect: "chat"}}
}
func (f *fake) Chains() []httpapi.Chain { return nil }
func (f *fake) Check(ctx context.Context, provider string) (httpapi.Check, error) {
	if err := f.work(ctx); err != nil {
		return httpapi.Check{}, err
	}
	return f.check, f.call("check", provider)
}

// fakeBarriers are the fake's fences and cool-offs.
type fakeBarriers struct{ *fake }

var (
	aFence   = session.Fence{ID: "fen_1", Client: "laptop", Dialect: "chat", Model: "gpt", CallID: "gw_1", Reason: "stream_interrupted", ExpiresAt: 9}
	aCoolOff = recovery.CoolOff{Candidate: recovery.Candidate{Provider: "openai", Model: "gpt", Key: "env:A"}, Reason: failure.RateLimited, Until: time.UnixMilli(9).UTC()}
)

func (f fakeBarriers) Fences(context.Context) ([]session.Fence, error) {
	return []session.Fence{aFence}, f.call("fences")
}
func (f fakeBarriers) LiftFence(_ context.Context, actor string, id session.FenceID) error {
	return f.call("lift-fence", actor, id)
}
func (f fakeBarriers) CoolOffs(context.Context) ([]recovery.CoolOff, error) {
	return []recovery.CoolOff{aCoolOff}, f.call("cool-offs")
}
func (f fakeBarriers) LiftCoolOff(_ context.Context, actor string, c recovery.Candidate) error {
	return f.call("lift-cool-off", actor, c)
}

// fakeTools are the fake's tools: List is taken by its models.
type fakeTools struct{ *fake }

var someTools = httpapi.ToolList{
	Tools:   []httpapi.Tool{{Name: "files_read", Server: "files", Effect: true, Policy: "ask"}},
	Servers: []httpapi.ToolServer{{Name: "files", Kind: "command", State: "ready", Since: 1790000000000, Tools: 1}},
}

func (f fakeTools) List() httpapi.ToolList { _ = f.call("tools"); return someTools }
func (f fakeTools) Start(context.Context) httpapi.ToolList {
	_ = f.call("start-tools")
	return someTools
}

// world is a handler over a fake, on a real listener.
type world struct {
	*fake
	handler *httpapi.Handler
	auth    *httpapi.Auth
	server  *httptest.Server
	client  *client.Client
	token   string
	log     *safeBuffer
}

type config struct {
	auth httpapi.AuthOptions
	o    httpapi.Options
}

func start(t *testing.T, change ...func(*config)) *world {
	t.Helper()
	w := &world{fake: &fake{run: aRun}, log: new(safeBuffer)}
	c := config{auth: httpapi.AuthOptions{Dir: t.TempDir()}}
	c.o = httpapi.Options{Sessions: w.fake, Models: w.fake, Tools: fakeTools{w.fake}, Settings: fakeSettings{w.fake}, Barriers: fakeBarriers{w.fake}, Accounts: fakeAccounts{w.fake}, Log: slog.New(slog.NewTextHandler(w.log, nil))}
	for _, f := range change {
		f(&c)
	}
	var err error
	if w.auth, err = httpapi.OpenAuth(c.auth); err != nil {
		t.Fatal(err)
	}
	if w.token, err = httpapi.LocalToken(c.auth.Dir); err != nil {
		t.Fatal(err)
	}
	c.o.Auth = w.auth
	w.handler = httpapi.New(c.o)
	w.server = httptest.NewUnstartedServer(nil)
	w.server.Config = w.handler.Server()
	w.server.Start()
	t.Cleanup(func() {
		w.handler.Stop()
		w.server.Close()
	})
	w.client = &client.Client{Base: w.server.URL, Token: w.token, HTTP: w.server.Client()}
	return w
}

// send sends a raw request: header lines are "Name: value".
func (w *world) send(t *testing.T, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		req.Body = nil
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			req.Host = value
		}
		req.Header.Add(name, value)
	}
	resp, err := w.server.Client().Transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func (w *world) bearer() string { return "Authorization: Bearer " + w.token }

// safeBuffer is a log that a test may read while the server writes.
type safeBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

var (
	aKey         = session.ClientKey{ID: "key_1", Label: "laptop", ClientTerms: session.ClientTerms{Models: []string{"openai/*"}, Rate: 3}, CreatedAt: 1, CreatedBy: "ann"}
	aGatewayCall = session.GatewayCall{ID: "gw_1", Client: "laptop", Dialect: "chat", Model: "gpt", BeganAt: 1, Outcome: session.GatewayWhole, Cost: llm.Cost{Kind: llm.CostKnown}}
)

type fakeAccounts struct{ *fake }

func (f fakeAccounts) Keys(context.Context) ([]session.ClientKey, error) {
	return []session.ClientKey{aKey}, f.call("keys")
}
func (f fakeAccounts) CreateKey(_ context.Context, actor, label string, terms session.ClientTerms) (session.ClientKey, string, error) {
	return aKey, "rpk_1", f.call("create-key", actor, label, terms.Models, terms.Rate)
}
func (f fakeAccounts) ChangeKey(_ context.Context, actor string, id session.ClientKeyID, p session.ClientTermsPatch) (session.ClientKey, error) {
	return aKey, f.call("change-key", actor, id, *p.Rate, p.Models == nil)
}
func (f fakeAccounts) RevokeKey(_ context.Context, actor string, id session.ClientKeyID) (session.ClientKey, error) {
	return aKey, f.call("revoke-key", actor, id)
}
func (f fakeAccounts) Calls(_ context.Context, q session.GatewayQuery) ([]session.GatewayCall, error) {
	return []session.GatewayCall{aGatewayCall}, f.call("calls", q.Key, q.Client, q.Outcome, q.Before, q.Limit)
}
func (f fakeAccounts) Call(_ context.Context, id string) (session.GatewayCall, error) {
	return aGatewayCall, f.call("gateway-call", id)
}
