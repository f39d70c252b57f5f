package main

import (
	"fmt"
	"log/slog"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/server"
	"github.com/reprise-run/reprise/provider/rehearsal"
)

func (p *program) rehearse() *cobra.Command {
	var listen, scripts string
	cmd := &cobra.Command{
		Use:   "rehearse",
		Short: "Serve the rehearsal alone: a provider that fails in every way, on demand",
		Long: "Serve the rehearsal alone: an upstream without a model that speaks Chat Completions,\n" +
			"Responses, Messages and Gemini, and plays the script that the model's name chooses.\n" +
			"Point a client at it, and see what it makes of each failure.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return failed(server.Rehearse(cmd.Context(), listen, scripts, p.log(server.Log{}, slog.LevelWarn), p.playing))
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:7338", "`host:port` to listen on")
	cmd.Flags().StringVar(&scripts, "scripts", "", "`file` of more scripts, in YAML")
	return cmd
}

// playing tells where the rehearsal is and what it plays.
func (p *program) playing(base string, scripts []rehearsal.Script) {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "Chat, Responses:\t%s/v1\n", base)
	fmt.Fprintf(w, "Messages, Gemini:\t%s\n", base)
	fmt.Fprintf(w, "What came in:\t%s/rehearsal/requests\n", base)
	group := ""
	for _, s := range scripts {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(w, "\n%s\n", group)
		}
		fmt.Fprintf(w, "  %s\t%s\n", s.Name, s.Shows)
	}
	w.Flush()
}
