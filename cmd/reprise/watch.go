package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/session"
)

func (p *program) watch() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "watch session",
		Short: "Follow a session: the text on stdout, what happens on stderr",
		Long: "Follow a session until it is interrupted: the text of replies on stdout, one line for each\n" +
			"thing that happens on stderr. Who watches is a viewer: a retry that is due starts. On a terminal\n" +
			"it counts down to the next retry, and t starts that at once, c cancels it.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := p.client()
			if err != nil {
				return err
			}
			w := &watcher{client: c, session: session.ID(args[0]), stdout: p.stdout, stderr: p.stderr, json: asJSON, live: isTerminal(p.stderr)}
			w.shared = w.live && isTerminal(p.stdout)
			if !asJSON {
				w.text.to = p.stdout
			}
			var keys <-chan byte
			if w.live {
				var restore func()
				keys, restore = keypresses(p.stdin)
				defer restore()
			}
			err = w.follow(cmd.Context(), keys)
			var refusal *client.Error
			switch {
			case cmd.Context().Err() != nil:
				return nil // it has no other end
			case errors.As(err, &refusal):
				err = fmt.Errorf("%s: %w", args[0], err)
			}
			return failed(err)
		},
	}
	p.reach(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the session's events on stdout, as lines of JSON, in place of the text")
	return cmd
}

// watcher shows what happens in a session. One goroutine uses it.
type watcher struct {
	client         *client.Client
	session        session.ID
	stdout, stderr io.Writer
	json           bool
	live           bool // stderr is a terminal: a line can be written again
	shared         bool // and stdout is one: text and lines meet there

	text     transcript
	begun    bool              // the first snapshot has come
	run      string            // the line that was said last of one
	schedule *session.Schedule // nil: none
	ahead    time.Duration     // of the server's clock over ours
	keys     bool
	drawn    bool      // the countdown is on the screen
	lost     time.Time // when the connection was; zero: it is there
}

// news is what a watch's own goroutine hands over: an event, or why the connection was lost.
type news struct {
	event session.Event
	data  []byte
	lost  error
}

// follow shows the session's events until ctx is done, and does what the keys say.
func (w *watcher) follow(ctx context.Context, keys <-chan byte) error {
	ctx, stop := context.WithCancel(ctx)
	all, ended := make(chan news), make(chan error, 1)
	hand := func(n news) error {
		select {
		case all <- n:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c := *w.client
	c.Reconnecting = func(err error) { _ = hand(news{lost: err}) } // it fails at the end alone
	go func() {
		defer close(ended)
		ended <- c.Watch(ctx, session.Watch{Session: w.session}, func(frame session.Frame) error {
			n := news{data: bytes.Clone(frame.Data)}
			if err := json.Unmarshal(n.data, &n.event); err != nil {
				return fmt.Errorf("read an event: %w", err)
			}
			return hand(n)
		})
	}()
	defer func() {
		stop()
		for range ended { // until it is closed
		}
		w.clear()
	}()
	w.keys = keys != nil
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		var err error
		select {
		case n := <-all:
			err = w.take(&n)
		case k, ok := <-keys:
			if !ok {
				keys = nil
				continue
			}
			w.key(ctx, k)
		case <-tick.C:
			if s := w.schedule; s != nil && s.State == session.ScheduleArmed {
				w.clear()
			}
		case err = <-ended:
			return errors.Join(err, w.text.endLine())
		}
		if err != nil {
			return err
		}
		if w.live && !w.drawn && w.schedule != nil && w.schedule.State.Waiting() {
			w.draw()
		}
	}
}

func (w *watcher) take(n *news) error {
	if n.lost != nil {
		if w.lost.IsZero() {
			w.lost = time.Now()
			w.say("connection lost, trying again: %s", n.lost)
		}
		if time.Since(w.lost) > awayTime {
			return errors.New("the server is gone")
		}
		return nil
	}
	w.lost = time.Time{}
	e := &n.event
	if e.SessionID != w.session {
		return nil
	}
	if w.json && e.Type != session.EventProgress {
		if _, err := w.stdout.Write(append(n.data, '\n')); err != nil {
			return fmt.Errorf("write an event: %w", err)
		}
	}
	return w.event(e)
}

func (w *watcher) event(e *session.Event) error {
	switch e.Type {
	case session.EventSnapshot:
		return w.snapshot(e.Snapshot)
	case session.EventOutput:
		return w.text.output(e.Output)
	case session.EventMessage:
		return w.message(e.Message)
	case session.EventRun:
		return w.tellRun(e.Run)
	case session.EventAttempt:
		if again := repeats(e.Attempt); again != "" {
			w.say("%s", again)
		}
	case session.EventSwitch:
		w.say("%s", switched(e.Switch))
	case session.EventToolCall:
		w.say("%s", callLine(e.ToolCall))
	case session.EventSchedule:
		w.reschedule(e.Schedule)
	}
	return nil
}

// snapshot begins with what goes on, or catches up after a lost connection.
func (w *watcher) snapshot(s *session.Snapshot) error {
	w.ahead = time.Until(s.System.Now.Std())
	for i := range s.Messages {
		m := &s.Messages[i]
		if !w.begun && m.Role == session.RoleReply {
			w.text.skip(m)
			continue
		}
		if err := w.message(m); err != nil {
			return err
		}
	}
	w.begun = true
	if r := s.Session.LastRun; r == nil {
		w.say("%s", s.Session.State)
	} else if err := w.tellRun(r); err != nil {
		return err
	}
	if s.Output != nil {
		if err := w.text.merged(s.Output); err != nil {
			return err
		}
	}
	for i := range s.ToolCalls {
		if c := &s.ToolCalls[i]; c.State == session.CallAsked {
			w.say("%s", callLine(c))
		}
	}
	w.reschedule(s.Session.Schedule)
	return nil
}

func (w *watcher) message(m *session.Message) error {
	if m.Role != session.RoleReply {
		return nil
	}
	return w.text.message(m)
}

// tellRun says where a run stands, once.
func (w *watcher) tellRun(r *session.Run) error {
	line := fmt.Sprintf("%s  %s", r.State, r.ID)
	switch {
	case r.CancelRequested && !r.State.Terminal():
		line = fmt.Sprintf("cancelling  %s", r.ID)
	case r.State == session.Running:
		line += "  " + r.Model
	case r.Failure != nil:
		line += fmt.Sprintf("  %s: %s", r.Failure.RetryClass, r.Failure.Message)
	}
	if line == w.run {
		return nil
	}
	w.run = line
	if r.State.Terminal() {
		if err := w.text.endLine(); err != nil {
			return err
		}
	}
	w.say("%s", line)
	return nil
}

// reschedule takes the session's schedule in; nil: there is none.
func (w *watcher) reschedule(s *session.Schedule) {
	was := w.schedule
	if was != nil && s != nil && was.Token == s.Token && was.State == s.State && was.NextAt == s.NextAt {
		return
	}
	w.schedule = s
	w.clear()
	if s != nil && !(w.live && s.State.Waiting()) {
		w.say("%s", waits(s, w.now()))
	}
}

// now is the server's time.
func (w *watcher) now() time.Time { return time.Now().Add(w.ahead) }

// draw writes the countdown, on one row of the screen.
func (w *watcher) draw() {
	line := waits(w.schedule, w.now())
	if w.keys {
		line += "  [t] try now  [c] cancel"
	}
	const noWrap, wrap = "\x1b[?7l", "\x1b[?7h"
	fmt.Fprint(w.stderr, noWrap+line+wrap)
	w.drawn = true
}

// clear takes the countdown off the screen.
func (w *watcher) clear() {
	if w.drawn {
		fmt.Fprint(w.stderr, "\r\x1b[K")
		w.drawn = false
	}
}

func (w *watcher) say(format string, args ...any) {
	w.clear()
	if w.shared && w.text.last != 0 && w.text.last != '\n' {
		w.text.last = '\n'
		format = "\n" + format
	}
	fmt.Fprintf(w.stderr, format+"\n", args...)
}

// key does what a key stands for while a retry waits.
func (w *watcher) key(ctx context.Context, k byte) {
	s := w.schedule
	if s == nil || !s.State.Waiting() {
		return
	}
	var err error
	switch k {
	case 't':
		_, err = w.client.RetryNow(ctx, w.session, s.Token, false)
	case 'c':
		_, err = w.client.CancelRetry(ctx, w.session, s.Token)
	}
	if err != nil && ctx.Err() == nil {
		w.say("%v", err)
	}
}
