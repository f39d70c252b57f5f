package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
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

func (p *program) run() *cobra.Command {
	var from server.Sources
	var in session.ID
	var to session.Routing
	var asJSON, wait bool
	cmd := &cobra.Command{
		Use:   "run [prompt]",
		Short: "Answer one prompt: the text on stdout, progress on stderr",
		Long: "Answer one prompt. Where a server uses the data folder, or REPRISE_URL names one, it answers;\n" +
			"else the parts of one are started for the time that it takes. The session is kept.\n" +
			"The prompt is read from stdin where it is - or missing.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 usage, 3 cancelled, 4 interrupted after output and not\n" +
			"repeated, 5 every automatic try used up, 6 a retry is scheduled, which --wait would follow.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			prompt, err := p.prompt(args)
			if err != nil {
				return usage(err)
			}
			return failed(p.answer(cmd.Context(), prompt, in, to, from, asJSON, wait))
		},
	}
	p.settings(cmd)
	p.endpoint(cmd, &from)
	routing(cmd, &to)
	cmd.Flags().StringVar((*string)(&in), "session", "", "go on in the session with this `id`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the session's events on stdout, as lines of JSON, in place of the text")
	cmd.Flags().BoolVar(&wait, "wait", false, "stay while a failed run waits to be repeated, until its end")
	return cmd
}

// prompt is the argument, or what stdin has.
func (p *program) prompt(args []string) (string, error) {
	if len(args) == 1 && args[0] != "-" {
		if strings.TrimSpace(args[0]) == "" {
			return "", errors.New("the prompt is empty")
		}
		return args[0], nil
	}
	if f, ok := p.stdin.(*os.File); ok && len(args) == 0 {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return "", errors.New(`there is no prompt: name one, as in reprise run "Hello"`)
		}
	}
	b, err := io.ReadAll(p.stdin)
	if err != nil {
		return "", fmt.Errorf("read the prompt: %w", err)
	}
	if text := strings.TrimSpace(string(b)); text != "" {
		return text, nil
	}
	return "", errors.New("the prompt is empty")
}

// answer posts the prompt and follows its run to the end.
func (p *program) answer(ctx context.Context, prompt string, in session.ID, to session.Routing, from server.Sources, asJSON, wait bool) (err error) {
	model := from.Model
	if from.BaseURL == "" {
		from.Model = "" // it is the session's alone, and a server that answers may know others
	}
	cfg, err := p.load(from)
	if err != nil {
		return err
	}
	switch m, ok := cfg.Endpoint(); {
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
	id, err := choose(ctx, conn, in, model)
	if err != nil {
		return err
	}
	// The run outlives the wish to stop: its cancel must be acknowledged first.
	work, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := func() { end(nil) }
	defer stop()
	q := &question{conn: conn, session: id, prompt: prompt, to: to, wait: wait, posted: make(chan session.Receipt, 1)}
	f := &follower{session: id, stdout: p.stdout, stderr: p.stderr, json: asJSON, wait: wait,
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

// choose takes the session that was named, or makes one.
func choose(ctx context.Context, conn *server.Connection, in session.ID, model string) (session.ID, error) {
	if in == "" {
		s, err := conn.CreateSession(ctx, session.NewSession{Model: model})
		return s.ID, err
	}
	if model == "" {
		s, err := conn.Session(ctx, in)
		return s.ID, err
	}
	s, err := conn.PatchSession(ctx, in, session.SessionPatch{Model: &model})
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
