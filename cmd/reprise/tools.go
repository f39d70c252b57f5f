package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/internal/httpapi"
)

func (p *program) tools() *cobra.Command {
	var start bool
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List the tools that models may ask for, and the servers that offer them",
		Long: "List the tools that models may ask for, and the servers that offer them. A tool server is\n" +
			"started by the first run that may use it; --start starts those that are not there now.",
		Args: cobra.NoArgs,
	}
	remote(p, cmd, func(ctx context.Context, c *client.Client, _ []string) (httpapi.ToolList, error) {
		if start {
			return c.StartTools(ctx)
		}
		return c.Tools(ctx)
	}, tellTools)
	cmd.Flags().BoolVar(&start, "start", false, "start the tool servers, and wait for them as a run does")
	return cmd
}

func tellTools(out io.Writer, list httpapi.ToolList) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range list.Servers {
		what := s.Version
		if s.Error != "" {
			what = s.Error
		}
		if s.NextAt != 0 {
			what += fmt.Sprintf(" (rests until %s)", clock(s.NextAt.Std()))
		}
		fmt.Fprintf(w, "%s\t%s\t%d tools\t%s\n", s.Name, s.State, s.Tools, what)
	}
	if len(list.Servers) > 0 && len(list.Tools) > 0 {
		fmt.Fprintln(w)
	}
	for _, t := range list.Tools {
		effect := "no effect"
		if t.Effect {
			effect = "effect"
		}
		about, _, _ := strings.Cut(t.Description, "\n")
		if r := []rune(about); len(r) > 80 {
			about = string(r[:79]) + "…"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", t.Name, effect, t.Policy, about)
	}
	w.Flush()
}
