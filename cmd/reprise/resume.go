package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/session"
)

func (p *program) resume() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resume session [run]",
		Short: "Go on after a run's last committed step, the last run's where none is named",
		Args:  cobra.RangeArgs(1, 2),
	}
	return remote(p, cmd, func(ctx context.Context, c *client.Client, args []string) (session.Receipt, error) {
		id := session.ID(args[0])
		if len(args) == 2 {
			return c.Resume(ctx, id, session.RunID(args[1]), "")
		}
		s, err := c.Session(ctx, id)
		if err != nil {
			return session.Receipt{}, err
		}
		if s.LastRun == nil {
			return session.Receipt{}, fmt.Errorf("%s has no run to go on with", id)
		}
		return c.Resume(ctx, id, s.LastRun.ID, "")
	}, tellReceipt)
}
