package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/session"
)

func (p *program) retry() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry",
		Short: "Start, end or move the retry that waits in a session",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.retryNow(), p.retryCancel(), p.retrySnooze(), p.retrySchedule())
	return cmd
}

// scheduleOf reads the schedule that is acted on: the act names its token, so that it fails
// where the schedule has changed by then.
func scheduleOf(ctx context.Context, c *client.Client, args []string) (session.Schedule, error) {
	s, err := c.Session(ctx, session.ID(args[0]))
	if err != nil {
		return session.Schedule{}, err
	}
	if s.Schedule == nil {
		return session.Schedule{}, fmt.Errorf("%s has no retry", s.ID)
	}
	return *s.Schedule, nil
}

func tellSchedule(w io.Writer, s session.Schedule) { fmt.Fprintln(w, waits(&s, time.Now())) }

func (p *program) retryNow() *cobra.Command {
	var confirmed bool
	cmd := &cobra.Command{
		Use:   "now session",
		Short: "Start the retry at once, also one that would not start by itself",
		Args:  cobra.ExactArgs(1),
	}
	confirm(cmd, &confirmed)
	return remote(p, cmd, func(ctx context.Context, c *client.Client, args []string) (session.Receipt, error) {
		s, err := scheduleOf(ctx, c, args)
		if err != nil {
			return session.Receipt{}, err
		}
		return c.RetryNow(ctx, s.SessionID, s.Token, confirmed)
	}, tellReceipt)
}

func (p *program) retryCancel() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel session",
		Short: "End the wait: nothing starts by itself; again: dismiss it, and release the queue",
		Args:  cobra.ExactArgs(1),
	}
	return remote(p, cmd, func(ctx context.Context, c *client.Client, args []string) (session.Retired, error) {
		s, err := scheduleOf(ctx, c, args)
		if err != nil {
			return session.Retired{}, err
		}
		return c.CancelRetry(ctx, s.SessionID, s.Token)
	}, func(w io.Writer, r session.Retired) {
		switch {
		case r.Run != nil: // it had started
			tellCancelled(w, *r.Run)
		case r.Schedule != nil:
			tellSchedule(w, *r.Schedule)
		default:
			fmt.Fprintln(w, "dismissed")
		}
	})
}

func (p *program) retrySnooze() *cobra.Command {
	var wait time.Duration
	var until string
	cmd := &cobra.Command{
		Use:     "snooze session --for 10m | --until 15:04",
		Short:   "Put the retry off, never to before the provider's own time",
		Example: "  reprise retry snooze ses_… --for 10m\n  reprise retry snooze ses_… --until 15:04",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().DurationVar(&wait, "for", 0, "put it off by this `time` from now")
	cmd.Flags().StringVar(&until, "until", "", "put it off to the next `15:04` of the local clock")
	cmd.MarkFlagsOneRequired("for", "until")
	cmd.MarkFlagsMutuallyExclusive("for", "until")
	return remote(p, cmd, func(ctx context.Context, c *client.Client, args []string) (session.Schedule, error) {
		now := time.Now()
		at := now.Add(wait)
		if until != "" {
			var err error
			if at, err = nextClock(until, now); err != nil {
				return session.Schedule{}, usage(err)
			}
		} else if wait <= 0 {
			return session.Schedule{}, usage(errors.New("--for wants a time above 0, as 10m"))
		}
		s, err := scheduleOf(ctx, c, args)
		if err != nil {
			return session.Schedule{}, err
		}
		return c.Snooze(ctx, s.SessionID, s.Token, at)
	}, tellSchedule)
}

// nextClock is the next moment after now at which the clock of now's zone shows this.
func nextClock(s string, now time.Time) (time.Time, error) {
	t, err := time.Parse("15:04", s)
	if err != nil {
		return time.Time{}, fmt.Errorf("--until wants hours and minutes, as 15:04, not %q", s)
	}
	at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), 0, 0, now.Location())
	if !at.After(now) {
		at = time.Date(now.Year(), now.Month(), now.Day()+1, t.Hour(), t.Minute(), 0, 0, now.Location())
	}
	return at, nil
}

func (p *program) retrySchedule() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedule session",
		Short: "Repeat what would not start by itself at the time that the provider stated, where that is safe",
		Args:  cobra.ExactArgs(1),
	}
	return remote(p, cmd, func(ctx context.Context, c *client.Client, args []string) (session.Schedule, error) {
		s, err := scheduleOf(ctx, c, args)
		if err != nil {
			return s, err
		}
		return c.Schedule(ctx, s.SessionID, s.Token)
	}, tellSchedule)
}
