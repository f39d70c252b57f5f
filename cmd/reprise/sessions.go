package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/session"
)

// sessionList is the JSON of the API's list.
type sessionList struct {
	Sessions []session.Session `json:"sessions"`
}

func (p *program) sessions() *cobra.Command {
	var archived bool
	var parent string
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List the sessions and what each is doing",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&archived, "archived", false, "those that are archived")
	cmd.Flags().StringVar(&parent, "parent", "", "those of the subagents of this `session`")
	return remote(p, cmd, func(ctx context.Context, c *client.Client, _ []string) (sessionList, error) {
		if parent != "" {
			list, err := c.Children(ctx, session.ID(parent))
			return sessionList{Sessions: list}, err
		}
		list, err := c.Sessions(ctx, archived)
		return sessionList{Sessions: list}, err
	}, func(w io.Writer, list sessionList) {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for i := range list.Sessions {
			s := &list.Sessions[i]
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, doing(s), s.UpdatedAt.Std().Local().Format("2006-01-02 15:04 MST"), spent(s.Spend), s.Model, s.Title)
		}
		table.Flush() // into memory
	})
}

// doing is what a session does, or how its last run ended.
func doing(s *session.Session) string {
	switch {
	case s.Asks > 0:
		return "asks"
	case s.State != session.Idle || s.LastRun == nil:
		return string(s.State)
	case s.Schedule != nil && s.Schedule.State.Waiting():
		return "waiting"
	}
	return string(s.LastRun.State)
}
