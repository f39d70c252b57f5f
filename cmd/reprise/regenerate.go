package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/session"
)

func (p *program) regenerate() *cobra.Command {
	var ask session.RegenerateRequest
	cmd := &cobra.Command{
		Use:   "regenerate session [message]",
		Short: "Answer an operator's message anew, the last one where none is named",
		Args:  cobra.RangeArgs(1, 2),
	}
	confirm(cmd, &ask.ConfirmEffects)
	return remote(p, cmd, func(ctx context.Context, c *client.Client, args []string) (session.Receipt, error) {
		id := session.ID(args[0])
		if len(args) == 2 {
			return c.Regenerate(ctx, id, session.MessageID(args[1]), ask, "")
		}
		list, err := c.Messages(ctx, id, false, 0, 0)
		if err != nil {
			return session.Receipt{}, err
		}
		for i := len(list) - 1; i >= 0; i-- {
			if list[i].Role == session.RoleOperator {
				return c.Regenerate(ctx, id, list[i].ID, ask, "")
			}
		}
		return session.Receipt{}, fmt.Errorf("%s has no message to answer", id)
	}, tellReceipt)
}

// confirm adds the flag by which a person accepts that effects may happen twice.
func confirm(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "confirm-effects", false, "what tools have changed stays changed and may happen again")
}
