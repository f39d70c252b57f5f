package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/failure"
	"github.com/reprise-run/reprise/internal/server"
)

func (p *program) serve() *cobra.Command {
	var check bool
	var from server.Sources
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve sessions: the API, the page, and what runs behind them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := p.load(from)
			if err != nil {
				return err
			}
			if check {
				return failed(p.check(cmd.Context(), cfg))
			}
			return failed(server.Serve(cmd.Context(), cfg, server.Options{Version: version(), Log: p.log(cfg.Log, slog.LevelInfo)},
				func(link string) { fmt.Fprintln(p.stdout, link) }))
		},
	}
	p.settings(cmd)
	p.endpoint(cmd, &from)
	cmd.Flags().StringVar(&p.listen, "listen", "", "`host:port` to listen on (default 127.0.0.1:7337)")
	cmd.Flags().BoolVar(&check, "check", false, "check the settings, send each provider one tiny request, and end")
	return cmd
}

// endpoint adds the flags that are enough to use one more provider.
func (p *program) endpoint(cmd *cobra.Command, s *server.Sources) {
	f := cmd.Flags()
	f.StringVar(&s.BaseURL, "base-url", "", "`address` of an OpenAI-compatible server, as http://127.0.0.1:8000/v1")
	f.StringVar(&s.Model, "model", "", "default model, as `provider/model`; with --base-url its name there")
	f.StringVar(&s.Key, "key", "", "where the key for --base-url is: `env:NAME` or file:PATH")
}

// check tries every provider that the configuration names.
func (p *program) check(ctx context.Context, cfg server.Config) error {
	models, err := server.OpenModels(cfg)
	if err != nil {
		return err
	}
	fmt.Fprintln(p.stdout, "settings  ok")
	for _, w := range cfg.HookWarnings() {
		fmt.Fprintf(p.stdout, "hooks     %s\n", w)
	}
	bad := 0
	for _, name := range models.Providers() {
		c, err := models.Check(ctx, name)
		var f *failure.Failure
		switch {
		case errors.As(err, &f):
			bad++
			fmt.Fprintf(p.stdout, "%s  %s  %s\n", name, f.Class, f.Message)
			for _, k := range c.Keys {
				if k.OK {
					fmt.Fprintf(p.stdout, "  %s  ok\n", k.Key)
				} else {
					fmt.Fprintf(p.stdout, "  %s  %s\n", k.Key, k.Failure.Class)
				}
			}
		case err != nil:
			return errors.Join(err, models.Close())
		default:
			fmt.Fprintf(p.stdout, "%s  ok  %s answered in %d ms\n", name, c.Model, c.Millis)
		}
	}
	if bad > 0 {
		err = fmt.Errorf("%d of the providers cannot be used as configured", bad)
	}
	return errors.Join(err, models.Close())
}
