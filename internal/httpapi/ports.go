package httpapi

import (
	"context"
	"time"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// Sessions is what the API needs of the session manager. An unknown id is
// session.ErrNotFound, and a request that is understood and not carried out is a
// *session.Refusal.
type Sessions interface {
	CreateSession(ctx context.Context, actor string, n session.NewSession) (session.Session, error)
	Sessions(ctx context.Context, archived bool, after session.Time) ([]session.Session, error)
	// Children lists the sessions of a session's subagents, oldest first.
	Children(ctx context.Context, id session.ID) ([]session.Session, error)
	Session(ctx context.Context, id session.ID) (session.Session, error)
	PatchSession(ctx context.Context, actor string, id session.ID, p session.SessionPatch) (session.Session, error)
	Messages(ctx context.Context, id session.ID, superseded bool, after int64, limit int) ([]session.Message, error)

	// Post, Regenerate and Resume store their answer with the act's key, in the same
	// transaction, and give it again when the act is repeated.
	Post(ctx context.Context, act session.Act, id session.ID, parts []llm.Part, to session.Routing) (session.Receipt, error)
	Regenerate(ctx context.Context, act session.Act, id session.ID, m session.MessageID, r session.RegenerateRequest) (session.Receipt, error)
	Resume(ctx context.Context, act session.Act, id session.ID, run session.RunID) (session.Receipt, error)

	// PreviewRegenerate says what Regenerate would do now, and changes nothing.
	PreviewRegenerate(ctx context.Context, id session.ID, m session.MessageID) (session.Preview, error)

	EditPending(ctx context.Context, actor string, id session.ID, m session.MessageID, parts []llm.Part) ([]session.Pending, error)
	RemovePending(ctx context.Context, actor string, id session.ID, m session.MessageID) error
	SendNow(ctx context.Context, actor string, id session.ID, m session.MessageID) (session.Receipt, error)

	// Cancel gives the run as it is after the request: in a terminal state once the cancel
	// is acknowledged, or where it had ended before.
	Cancel(ctx context.Context, actor string, id session.ID, run session.RunID) (session.Run, error)
	// StartRun lets a parked run start.
	StartRun(ctx context.Context, actor string, id session.ID, run session.RunID) (session.Run, error)
	Runs(ctx context.Context, id session.ID) ([]session.Run, error)
	Run(ctx context.Context, id session.ID, run session.RunID) (session.Run, error)
	Attempts(ctx context.Context, id session.ID, run session.RunID) ([]session.Attempt, error)
	FindRun(ctx context.Context, run session.RunID) (session.Run, error)
	// The second tier's schedule of a session. token is that of the schedule that the caller
	// has seen; 0: not checked.
	RetryNow(ctx context.Context, act session.Act, id session.ID, token int64, confirmEffects bool) (session.Receipt, error)
	CancelRetry(ctx context.Context, actor string, id session.ID, token int64) (session.Retired, error)
	Snooze(ctx context.Context, actor string, id session.ID, token int64, until time.Time) (session.Schedule, error)
	Schedule(ctx context.Context, actor string, id session.ID, token int64) (session.Schedule, error)
	Waiting(ctx context.Context) ([]session.Schedule, error)
	// AddViewer and RemoveViewer keep a viewer's lease.
	AddViewer(ctx context.Context, id session.ID, viewer string) error
	RemoveViewer(ctx context.Context, id session.ID, viewer string) error
	ToolCalls(ctx context.Context, id session.ID, run session.RunID) ([]session.ToolCall, error)
	// Asked lists the calls of all sessions about which the operator is asked, the oldest first.
	Asked(ctx context.Context) ([]session.ToolCall, error)
	// AnswerCall answers about a call of the session's last run that is asked about.
	AnswerCall(ctx context.Context, actor string, id session.ID, call string, a session.Answer) (session.ToolCall, error)
	// ResolveCall settles a call of the session's last run whose outcome nobody knows.
	ResolveCall(ctx context.Context, actor string, id session.ID, call string, how session.Resolution) (session.ToolCall, error)

	// Record keeps an act that belongs to no session. Audit lists the newest acts first, those
	// on a session or all.
	Record(ctx context.Context, actor, act, detail string) error
	Audit(ctx context.Context, id session.ID, limit int) ([]session.Audit, error)

	System(ctx context.Context) (session.System, error)
	// Watch calls f, from one goroutine, with every event from the place that w names on,
	// until ctx is done or f fails, and with no frames when nothing has happened for a while.
	// The first frame is a snapshot, unless w.After could be resumed from. f may block, and
	// keeps and changes nothing of what it is given.
	Watch(ctx context.Context, w session.Watch, f func([]*session.Frame) error) error
}

// Barriers are what keeps requests back. What is not there is session.ErrNotFound; lifting leaves a
// row in the audit.
type Barriers interface {
	Fences(ctx context.Context) ([]session.Fence, error)
	LiftFence(ctx context.Context, actor string, id session.FenceID) error
	CoolOffs(ctx context.Context) ([]recovery.CoolOff, error)
	LiftCoolOff(ctx context.Context, actor string, c recovery.Candidate) error
}

// Settings are what the operator may change while the server works.
type Settings interface {
	List(ctx context.Context) (SettingList, error)
	// Change sets settings by their key, to values as the configuration file would have them,
	// and takes back the changes of those in reset. It changes all or nothing.
	Change(ctx context.Context, actor string, change map[string]string, reset []string) (SettingList, error)
}

// Setting is one setting: what counts, and what the server was started with.
type Setting struct {
	Key        string `json:"key"`
	Value      string `json:"value"`
	Configured string `json:"configured"` // what counts where it is not set here
	From       string `json:"from" enum:"default,file,environment,flag"`
	Set        bool   `json:"set"`   // it was changed while a server worked
	Fixed      bool   `json:"fixed"` // it cannot be: a flag or an environment variable says it
}

// SettingList is every setting that may be changed. Problem says why none of the changes
// counts, where the configuration does not allow them any more.
type SettingList struct {
	Settings []Setting `json:"settings"`
	Problem  string    `json:"problem,omitempty"`
}

// Models says which models there are, and tries providers.
type Models interface {
	List() []Model
	Chains() []Chain
	// Check sends one tiny request to a provider with each of its keys; a key that is answered does
	// not cool off any more. The first failure of a call is returned, a *failure.Failure; an
	// unknown provider is session.ErrNotFound.
	Check(ctx context.Context, provider string) (Check, error)
}

// Model is one model that a session can use, as "provider/name".
type Model struct {
	Name        string `json:"name"`
	Provider    string `json:"provider"`
	Dialect     string `json:"dialect"`
	Description string `json:"description,omitempty"`
	// IdleMillis is how long an answer may be silent once content has come, where the model is
	// asked by itself; 0: as long as it likes. The last one of a chain may be silent for longer.
	IdleMillis int64 `json:"idle_ms,omitempty"`
	// About is what is known of it; amounts are in billionths of a US dollar.
	About llm.ModelFacts `json:"about"`
}

// Tools says which tools models may ask for.
type Tools interface {
	// List starts nothing.
	List() ToolList
	// Start starts the tool servers that are not there, and waits for them as a run does.
	Start(ctx context.Context) ToolList
}

// Tool is one tool.
type Tool struct {
	Name        string `json:"name"`
	Server      string `json:"server,omitempty"` // empty: it is part of this program
	Description string `json:"description,omitempty"`
	// Effect: it may change something outside. Parallel: it may run beside others.
	Effect   bool `json:"effect"`
	Parallel bool `json:"parallel"`
	// Policy is what becomes of a call: it runs, the operator is asked, or models are not offered the tool.
	Policy string `json:"policy" enum:"allow,ask,deny"`
}

// ToolServer is a server of tools.
type ToolServer struct {
	Name  string       `json:"name"`
	Kind  string       `json:"kind" enum:"command,http"`
	State string       `json:"state" enum:"idle,starting,ready,restarting,failed,stopped"`
	Since session.Time `json:"since"`
	// Error says why it is not ready, or why it ended last.
	Error string `json:"error,omitempty"`
	// NextAt is the first time at which it is started again.
	NextAt  session.Time `json:"next_at,omitempty"`
	Version string       `json:"version,omitempty"` // its own name and version
	Tools   int          `json:"tools"`             // that it offers, or offered before it ended
}

// ToolList is every tool that is known, and the servers. What a server that was never started offers
// is not known.
type ToolList struct {
	Tools   []Tool       `json:"tools"`
	Servers []ToolServer `json:"servers"`
}

// Chain is an ordered list of models with a name.
type Chain struct {
	Name   string   `json:"name"`
	Models []string `json:"models"`
}

// Check is the outcome of a provider's test.
type Check struct {
	OK       bool   `json:"ok"` // with every key
	Provider string `json:"provider"`
	Model    string `json:"model,omitempty"` // the one that was asked
	Millis   int64  `json:"millis"`          // from the first request to the end of the last answer
	// Failure is set where the provider answered, and not well.
	Failure *failure.Failure `json:"failure,omitempty"`
	// Keys says so of each key, where there are several.
	Keys []KeyCheck `json:"keys,omitempty"`
}

// KeyCheck is the outcome of a key's test.
type KeyCheck struct {
	Key     string           `json:"key"` // its label
	OK      bool             `json:"ok"`
	Failure *failure.Failure `json:"failure,omitempty"`
}
