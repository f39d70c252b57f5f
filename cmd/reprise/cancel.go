package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/session"
)

func (p *program) cancel() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel session [run]",
		Short: "End a run, the one that is going on where none is named",
		Args:  cobra.RangeArgs(1, 2),
	}
	return remote(p, cmd, func(ctx context.Context, c *client.Client, args []string) (session.Run, error) {
		id := session.ID(args[0])
		if len(args) == 2 {
			return c.Cancel(ctx, id, session.RunID(args[1]))
		}
		s, err := c.Session(ctx, id)
		switch {
		case err != nil:
			return session.Run{}, err
		case s.LastRun != nil && !s.LastRun.State.Terminal():
			return c.Cancel(ctx, id, s.LastRun.ID)
		case s.Schedule != nil && s.Schedule.State.Waiting():
			return session.Run{}, fmt.Errorf("nothing is running in %s, a retry waits: reprise retry cancel %s", id, id)
		}
		return session.Run{}, fmt.Errorf("nothing is running in %s", id)
	}, tellCancelled)
}

// tellCancelled says where a run stands whose end was asked for.
func tellCancelled(w io.Writer, r session.Run) {
	state := string(r.State)
	if !r.State.Terminal() {
		state = "cancelling"
	}
	fmt.Fprintf(w, "%s  run %s\n", state, r.ID)
}
