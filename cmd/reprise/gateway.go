package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/server"
)

func (p *program) gateway() *cobra.Command {
	var from server.Sources
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Serve the gateway alone: model calls of other programs, made replay-safe",
		Long: "Serve the gateway alone, without sessions and page: Chat Completions, Responses, Messages and\n" +
			"Gemini for programs that bring their own requests. reprise serve has it too. A client's key is\n" +
			"one of reprise keys, a token of auth.tokens_file, or the one in the data folder. Beside it work\n" +
			"reprise keys, fences, cool-offs and explain.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := p.load(from)
			if err != nil {
				return err
			}
			return failed(server.ServeGateway(cmd.Context(), cfg, server.Options{Version: version(), Log: p.log(cfg.Log, slog.LevelInfo)},
				func(base string) { fmt.Fprintln(p.stdout, base) }))
		},
	}
	p.settings(cmd)
	p.endpoint(cmd, &from)
	cmd.Flags().StringVar(&p.listen, "listen", "", "`host:port` to listen on (default 127.0.0.1:7337)")
	return cmd
}
