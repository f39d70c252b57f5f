package main

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/server"
)

// saidEvery is how often a move says how far it is.
const saidEvery = time.Second

func (p *program) migrate() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "migrate --from sqlite:PATH --to postgres://user@host/name",
		Short: "Move what one machine has stored into a Postgres database",
		Long: "Copy everything that is in a SQLite file into an empty Postgres database, table by table, and compare both\n" +
			"at the end. No server may use the file meanwhile; it stays as it is. What was interrupted goes on with the\n" +
			"same command. Until it is complete nothing can be served from the database. --to takes what the setting\n" +
			"database takes.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var said time.Time
			all, cleaned, err := server.Move(cmd.Context(), p.env, from, to, func(table string, rows, of int64) {
				if time.Since(said) >= saidEvery || rows == of {
					said = time.Now()
					fmt.Fprintf(p.stderr, "%s: %d of %d\n", table, rows, of)
				}
			})
			if err != nil {
				return failed(err)
			}
			w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "TABLE\tROWS\tSUM, THE SAME ON BOTH SIDES")
			for _, m := range all {
				fmt.Fprintf(w, "%s\t%d\t%s\n", m.Table, m.Rows, m.Sum)
			}
			if err := w.Flush(); err != nil {
				return failed(err)
			}
			if cleaned > 0 {
				fmt.Fprintf(p.stderr, "%d texts held what Postgres cannot: a U+FFFD is in its place\n", cleaned)
			}
			fmt.Fprintln(p.stderr, "complete: set database to the new one, and start reprise serve; the data folder keeps the rest")
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "what to move, as `sqlite:PATH`")
	cmd.Flags().StringVar(&to, "to", "", "where to, as `postgres://…`")
	return cmd
}
