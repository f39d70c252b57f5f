package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/internal/server"
)

// named is the server that REPRISE_URL names, or nil.
func (p *program) named() (*client.Client, error) {
	url, token := p.env["REPRISE_URL"], p.env["REPRISE_TOKEN"]
	switch {
	case url == "" && token != "":
		return nil, usage(errors.New("REPRISE_TOKEN belongs to a server that REPRISE_URL names, and that is not set"))
	case url == "":
		return nil, nil
	}
	return &client.Client{Base: url, Token: token}, nil
}

// client reaches the server that the environment names, or else the one that has the data
// folder.
func (p *program) client() (*client.Client, error) {
	c, err := p.named()
	if c != nil || err != nil {
		return c, err
	}
	cfg, err := p.load(server.Sources{})
	if err != nil {
		return nil, err
	}
	c, err = server.Running(cfg)
	return c, failed(err)
}

// remote completes a verb that the server that is running answers: ask gets the answer, and
// tell writes it for a person. With --json it is written as it is.
func remote[T any](p *program, cmd *cobra.Command, ask func(context.Context, *client.Client, []string) (T, error), tell func(io.Writer, T)) *cobra.Command {
	var asJSON bool
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := p.client()
		if err != nil {
			return err
		}
		answer, err := ask(cmd.Context(), c, args)
		var refusal *client.Error
		if errors.As(err, &refusal) && len(args) > 0 {
			err = fmt.Errorf("%s: %w", args[0], err)
		}
		if err != nil {
			return failed(err)
		}
		var out bytes.Buffer
		if asJSON {
			enc := json.NewEncoder(&out)
			enc.SetIndent("", "  ")
			err = enc.Encode(answer)
		} else {
			tell(&out, answer)
		}
		if err == nil {
			_, err = p.stdout.Write(out.Bytes())
		}
		return failed(err)
	}
	p.reach(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the server's answer as JSON")
	return cmd
}

// reach adds the flags that say which server is meant.
func (p *program) reach(cmd *cobra.Command) {
	p.settings(cmd)
	const how = "It asks the server that uses the data folder, or the one at REPRISE_URL, with the bearer\n" +
		"token REPRISE_TOKEN."
	if cmd.Long != "" {
		cmd.Long += "\n\n" + how
	} else {
		cmd.Long = cmd.Short + ".\n\n" + how
	}
}
