package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/internal/server"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

// cancelTime bounds how long a cancelled run is waited for.
const cancelTime = 30 * time.Second

// asked is what one prompt is asked with.
type asked struct {
	prompt     string
	from       server.Sources
	chain      string
	in         session.ID // empty: a session is made
	to         session.Routing
	tools      []string // nil: as the session has it
	steps      int      // 0: as the session has it
	workspace  string
	approve    []string // tools that need not be asked about
	json, wait bool
}

func (p *program) run() *cobra.Command {
	var a asked
	cmd := &cobra.Command{
		Use:   "run [prompt]",
		Short: "Answer one prompt: the text on stdout, progress on stderr",
		Long: "Answer one prompt. Where a server uses the data folder, or REPRISE_URL names one, it answers;\n" +
			"else the parts of one are started for the time that it takes. The session is kept.\n" +
			"The prompt is read from stdin where it is - or missing. Beside a prompt, what is piped in\n" +
			"is told to the model below it, as in  git diff | reprise run \"Review this\".\n\n" +
			"A tool call that is to be asked about is asked about on the terminal; without one it is denied\n" +
			"at once, unless --approve allows it.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 usage, 3 cancelled, 4 interrupted after output and not\n" +
			"repeated, 5 every automatic try used up, 6 a retry is scheduled, which --wait would follow.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := a.check(cmd); err != nil {
				return usage(err)
			}
			if a.prompt, err = p.question(args); err != nil {
				return usage(err)
			}
			return failed(p.answer(cmd.Context(), a))
		},
	}
	p.settings(cmd)
	p.endpoint(cmd, &a.from)
	routing(cmd, &a.to)
	f := cmd.Flags()
	f.StringVar(&a.chain, "chain", "", "`name` of the configuration's chain of models that answers")
	f.StringVar((*string)(&a.in), "session", "", "go on in the session with this `id`")
	f.StringSliceVar(&a.tools, "tools", nil, "offer the model only these tools, by `names` or patterns, as edit_file,read_*; none for no tool. The session keeps it")
	f.IntVar(&a.steps, "max-steps", 0, "model calls that a run may take, at most this `number`. The session keeps it")
	f.StringVar(&a.workspace, "workspace", "", "let the model read and change files, and run commands, in this `folder`")
	f.StringSliceVar(&a.approve, "approve", nil, "allow what would be asked about: all, `names` or patterns of tools, or none, which denies it")
	f.BoolVar(&a.json, "json", false, "print the session's events on stdout, as lines of JSON, in place of the text")
	f.BoolVar(&a.wait, "wait", false, "stay while a failed run waits to be repeated, until its end")
	cmd.MarkFlagsMutuallyExclusive("model", "chain")
	cmd.MarkFlagsMutuallyExclusive("base-url", "chain")
	return cmd
}

// check finds flags that say nothing.
func (a *asked) check(cmd *cobra.Command) error {
	given := func(flag string) bool { return cmd.Flags().Changed(flag) }
	switch {
	case given("tools") && len(a.tools) == 0:
		return errors.New("--tools names no tool; --tools none is how to offer none")
	case given("max-steps") && a.steps < 1:
		return errors.New("--max-steps is 1 or more")
	case given("workspace") && a.workspace == "":
		return errors.New("--workspace names no folder")
	case given("approve") && len(a.approve) == 0:
		return errors.New("--approve names no tool; --approve none is how to deny all")
	case strings.Contains(a.chain, "/"):
		return fmt.Errorf("--chain %s: that is a model; name it with --model", a.chain)
	}
	for _, pattern := range a.approve {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("--approve %s: that is no pattern", pattern)
		}
	}
	return nil
}

// answer posts the prompt and follows its run to the end.
func (p *program) answer(ctx context.Context, a asked) (err error) {
	from, in, wait := a.from, a.in, a.wait
	model := cmp.Or(from.Model, a.chain)
	if from.BaseURL == "" {
		from.Model = "" // it is the session's alone, and a server that answers may know others
	}
	if a.workspace != "" {
		p.set = append(p.set, fmt.Sprintf("tools.workspace=%q", a.workspace))
	}
	cfg, err := p.load(from)
	if err != nil {
		return err
	}
	switch m, ok := cfg.Endpoint(); {
	case a.chain != "":
	case ok && (in == "" || from.BaseURL != ""):
		model = m
	case model == "" && in == "": // a session that is there keeps its own
		model = p.env["REPRISE_MODEL"]
	}
	conn, err := p.connect(ctx, cfg, wait)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := conn.Close(); cerr != nil {
			err = errors.Join(failed(err), cerr)
		}
	}()
	if conn.Shared && from.BaseURL != "" {
		return usage(fmt.Errorf("the server at %s answers and does not know --base-url: name the provider in its configuration, or use another --data", conn.Base))
	}
	if conn.Shared && a.workspace != "" {
		return usage(errors.New("a server answers and has a workspace of its own: name the folder in its configuration, as tools.workspace, or use another --data"))
	}
	id, err := choose(ctx, conn, a, model)
	if err != nil {
		return err
	}
	// The run outlives the wish to stop: its cancel must be acknowledged first.
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := func() { end(nil) }
	defer stop()
	q := &question{conn: conn, session: id, prompt: a.prompt, to: a.to, wait: wait, posted: make(chan session.Receipt, 1)}
	ask := p.newAsker(work, conn.Client, a.approve)
	f := &follower{session: id, calls: func(c *session.ToolCall) { ask.change(work, c) },
		below: func(s *session.Session) { ask.subagent(work, s) }, stdout: p.stdout, stderr: p.stderr, json: a.json, wait: wait,
		post: func() (session.Receipt, error) { return q.post(work) }}
	conn.Reconnecting = func(err error) {
		if f.disconnected(err, time.Now()) {
			end(errors.New("the server is gone; when it is back, reprise explain says what became of the run"))
		}
	}
	cancelled := make(chan error, 1)
	undo := context.AfterFunc(ctx, func() { cancelled <- q.cancel(work, stop) })
	err = conn.Watch(work, session.Watch{Session: id}, f.frame)
	stop()
	if !undo() {
		if cerr := <-cancelled; cerr != nil && f.end == nil {
			err = &ended{exitCancelled, cerr}
		}
	}
	f.close()
	if f.end == nil {
		return err
	}
	if code := f.exit(); code != exitDone {
		return &ended{code, nil}
	}
	return nil
}

// connect reaches the server that the environment names, or else the sessions of the data
// folder.
func (p *program) connect(ctx context.Context, cfg server.Config, wait bool) (*server.Connection, error) {
	c, err := p.named()
	if err != nil {
		return nil, err
	}
	if c != nil {
		return &server.Connection{Client: c, Shared: true}, nil
	}
	return server.Connect(ctx, cfg, server.Options{Version: version(), Log: p.log(cfg.Log, slog.LevelWarn), WatchedRetries: wait})
}

// choose takes the session that was named, or makes one, with the settings that were asked for.
func choose(ctx context.Context, conn *server.Connection, a asked, model string) (session.ID, error) {
	if a.in == "" {
		s, err := conn.CreateSession(ctx, session.NewSession{Model: model, Settings: session.Settings{Tools: a.tools, MaxSteps: a.steps}})
		return s.ID, err
	}
	s, err := conn.Session(ctx, a.in)
	if err != nil {
		return "", err
	}
	var change session.SessionPatch
	if model != "" {
		change.Model = &model
	}
	if a.tools != nil || a.steps != 0 {
		if a.tools != nil {
			s.Settings.Tools = a.tools
		}
		s.Settings.MaxSteps = cmp.Or(a.steps, s.Settings.MaxSteps)
		change.Settings = &s.Settings
	}
	if change != (session.SessionPatch{}) {
		s, err = conn.PatchSession(ctx, a.in, change)
	}
	return s.ID, err
}

// question is a prompt that is posted once, or cancelled.
type question struct {
	conn    *server.Connection
	session session.ID
	prompt  string
	to      session.Routing
	begun   atomic.Bool // by the post, or by a cancel that came before it
	posted  chan session.Receipt
	wait    bool // also while the run waits to be repeated
}

var errNothingSent = errors.New("cancelled before anything was sent")

func (q *question) post(ctx context.Context) (session.Receipt, error) {
	if !q.begun.CompareAndSwap(false, true) {
		return session.Receipt{}, errNothingSent
	}
	r, err := q.conn.Post(ctx, q.session, []llm.Part{llm.Text(q.prompt)}, q.to, "")
	if err == nil {
		q.posted <- r
	}
	return r, err
}

// cancel asks for the run's end. Whoever follows the run sees the acknowledgement; giveUp
// ends that after a while, and where there is none to come.
func (q *question) cancel(ctx context.Context, giveUp func()) error {
	if q.begun.CompareAndSwap(false, true) {
		giveUp()
		return errNothingSent
	}
	time.AfterFunc(cancelTime, giveUp)
	var r session.Receipt
	select {
	case r = <-q.posted:
	case <-ctx.Done(): // the post has failed, which is told
		return nil
	}
	run, err := q.conn.Cancel(ctx, q.session, r.RunID)
	if err == nil && run.State.Terminal() && q.wait {
		err = q.cancelRetry(ctx, r.MessageID)
	}
	var refusal *client.Error
	if errors.As(err, &refusal) && refusal.Status == http.StatusNotFound { // it waits behind another run
		err = q.conn.RemovePending(ctx, q.session, r.MessageID)
		giveUp()
		return errors.Join(errors.New("cancelled before it was started"), err)
	}
	if err != nil && ctx.Err() == nil {
		giveUp()
		return fmt.Errorf("the cancel was not delivered, the run may go on: %w", err)
	}
	return nil
}

// cancelRetry ends the wait of a run that has failed, or the run that it has become.
func (q *question) cancelRetry(ctx context.Context, message session.MessageID) error {
	for {
		s, err := q.conn.Session(ctx, q.session)
		if err != nil || s.LastRun == nil || s.LastRun.MessageID != message {
			return err
		}
		if s.Schedule == nil || !s.Schedule.State.Waiting() {
			_, err = q.conn.Cancel(ctx, q.session, s.LastRun.ID)
			return err
		}
		_, err = q.conn.CancelRetry(ctx, q.session, s.Schedule.Token)
		var refusal *client.Error
		if !errors.As(err, &refusal) || refusal.Code != session.CodeStaleToken {
			return err
		}
	}
}
