package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/session"
)

func (p *program) audit() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "audit [session]",
		Short: "List who did what, the newest first",
		Args:  cobra.MaximumNArgs(1),
	}
	remote(p, cmd, func(ctx context.Context, c *client.Client, args []string) ([]session.Audit, error) {
		var id session.ID
		if len(args) > 0 {
			id = session.ID(args[0])
		}
		return c.Audit(ctx, id, limit)
	}, func(w io.Writer, list []session.Audit) {
		for _, a := range list {
			line := fmt.Sprintf("%s  %-10s  %s", clock(a.At.Std()), a.Actor, a.Act)
			for _, more := range []string{string(a.SessionID), string(a.RunID), a.Detail} {
				if more != "" {
					line += "  " + more
				}
			}
			fmt.Fprintln(w, line)
		}
	})
	cmd.Flags().IntVarP(&limit, "limit", "n", 100, "at most so `many`")
	return cmd
}
