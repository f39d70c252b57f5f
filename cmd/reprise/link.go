package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/server"
)

func (p *program) link() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "link",
		Short: "Print a new link to the page of the server that is running",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := p.load(server.Sources{})
			if err != nil {
				return err
			}
			c, err := server.Running(cfg)
			if err != nil {
				return failed(err)
			}
			link, err := c.Link(cmd.Context())
			if err != nil {
				return failed(err)
			}
			fmt.Fprintln(p.stdout, link)
			return nil
		},
	}
	p.settings(cmd)
	return cmd
}
