package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/session"
)

// waitingList is the JSON of the API's list, with the server's time.
type waitingList struct {
	Waiting []session.Schedule `json:"waiting"`
	Asked   []session.ToolCall `json:"asked"`
	Now     session.Time       `json:"now"`
}

func (p *program) waiting() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "waiting",
		Short: "List the retries that wait, and the tool calls that are asked about",
		Args:  cobra.NoArgs,
	}
	return remote(p, cmd, func(ctx context.Context, c *client.Client, _ []string) (waitingList, error) {
		list, err := c.Waiting(ctx)
		return waitingList(list), err
	}, func(w io.Writer, list waitingList) {
		for i := range list.Waiting {
			s := &list.Waiting[i]
			fmt.Fprintf(w, "%s  %s\n", s.SessionID, waits(s, list.Now.Std()))
		}
		for i := range list.Asked {
			c := &list.Asked[i]
			fmt.Fprintf(w, "%s  %s\n", c.SessionID, asks(c, list.Now.Std()))
		}
	})
}

// asks says in one line what is asked, and until when, now being the server's time.
func asks(c *session.ToolCall, now time.Time) string {
	until := c.Approval.ExpiresAt.Std()
	return fmt.Sprintf("%s  until %s (in %s)", callLine(c), moment(until, now), max(0, until.Sub(now)).Round(time.Second))
}

// holds says what ends a hold.
var holds = map[string]string{
	session.HoldNobody:  "until somebody watches",
	session.HoldAsks:    "until you try now",
	session.HoldOffline: "until the server has a network",
}

// waits says in one line where a schedule stands, now being the server's time.
func waits(s *session.Schedule, now time.Time) string {
	next := s.Attempt + 1 // the one that is waited for
	switch s.State {
	case session.ScheduleArmed, session.ScheduleScheduled:
		return fmt.Sprintf("waiting  %s  attempt %d  next %s (in %s)", s.RetryClass, next,
			moment(s.NextAt.Std(), now), max(0, s.NextAt.Std().Sub(now)).Round(time.Second))
	case session.ScheduleHeld:
		return fmt.Sprintf("waiting  %s  attempt %d  held %s", s.RetryClass, next, holds[s.HoldReason])
	case session.ScheduleExhausted:
		return fmt.Sprintf("exhausted  %s  %d attempts since %s  nothing starts by itself", s.RetryClass, s.Attempt, moment(s.Since.Std(), now))
	case session.ScheduleCancelled:
		return fmt.Sprintf("cancelled  %s  attempt %d  nothing starts by itself", s.RetryClass, next)
	}
	line := fmt.Sprintf("never  %s  worth retrying: %s  safe to repeat: %s", s.RetryClass, yes(s.Retryable), because(s.ReplaySafe, s.Evidence.String()))
	if s.NotBefore != 0 {
		line += "  not before " + moment(s.NotBefore.Std(), now)
	}
	return line
}

// moment writes a time in the local zone, with its name, and the date where it is another
// day's.
func moment(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.Format(time.DateOnly) != now.Format(time.DateOnly) {
		return t.Format("2006-01-02 15:04:05 MST")
	}
	return t.Format("15:04:05 MST")
}
