package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (p *program) link() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "link",
		Short: "Print a new link to the page of the server that is running",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := p.client()
			if err != nil {
				return err
			}
			link, err := c.Link(cmd.Context())
			if err != nil {
				return failed(err)
			}
			fmt.Fprintln(p.stdout, link)
			return nil
		},
	}
	p.reach(cmd)
	return cmd
}
