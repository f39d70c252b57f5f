package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

func (p *program) send() *cobra.Command {
	var to session.Routing
	cmd := &cobra.Command{
		Use:   "send session [text]",
		Short: "Send a session a message, and do not wait for the reply",
		Long: "Send a session a message, and do not wait for the reply: reprise watch shows it.\n" +
			"The text is read from stdin where it is - or missing.",
		Args: cobra.RangeArgs(1, 2),
	}
	routing(cmd, &to)
	return remote(p, cmd, func(ctx context.Context, c *client.Client, args []string) (session.Receipt, error) {
		text, err := p.prompt(args[1:])
		if err != nil {
			return session.Receipt{}, usage(err)
		}
		return c.Post(ctx, session.ID(args[0]), []llm.Part{llm.Text(text)}, to, "")
	}, tellReceipt)
}

// routing adds the flags that forbid what would else be done by itself.
func routing(cmd *cobra.Command, to *session.Routing) {
	cmd.Flags().BoolVar(&to.NoFallback, "no-fallback", false, "ask the first model of the chain alone")
	cmd.Flags().BoolVar(&to.OneAttempt, "one-attempt", false, "send one request for each step, and repeat nothing by itself")
	cmd.Flags().StringVar(&to.Key, "only-key", "", "use the key with this `label` alone, as env:OPENAI_API_KEY")
}

func tellReceipt(w io.Writer, r session.Receipt) {
	fmt.Fprintf(w, "%s  run %s  message %s", r.State, r.RunID, r.MessageID)
	if r.Superseded > 0 {
		fmt.Fprintf(w, "  superseded %d", r.Superseded)
	}
	fmt.Fprintln(w)
}
