// Command reprise serves LLM agent sessions whose recovery never says or does anything twice,
// and talks to such a server.
//
// It promises the exit codes that exit.go lists, output of the model alone on stdout, and
// everything else on stderr. One signal stops it in good order, a second one at once. It
// refuses to hold logic of its own: each verb is a few lines over internal/server and
// internal/client.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // from now on a signal does what it does by default
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// program is what every verb has of the world.
type program struct {
	env            server.Env
	stdin          io.Reader
	stdout, stderr io.Writer

	file, listen, data string
	set                []string
	verbose            bool
}

// run is the whole program: it returns the exit code. A done ctx is the wish to stop.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &program{env: server.ParseEnv(environ), stdin: stdin, stdout: stdout, stderr: stderr}
	root := &cobra.Command{
		Use:           "reprise",
		Short:         "Agent sessions that recover without saying or doing anything twice",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(p.serve(), p.gateway(), p.run(), p.explain(), p.link(), p.rehearse(), p.classify(), p.version(),
		p.sessions(), p.show(), p.send(), p.regenerate(), p.resume(), p.cancel(), p.retry(), p.waiting(),
		p.approve(), p.deny(), p.resolve(), p.fences(), p.coolOffs(), p.keys(), p.audit(), p.tools(), p.watch(), p.migrate())
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	var end *ended
	if !errors.As(err, &end) { // cobra's own: what was typed makes no sense
		end = &ended{exitUsage, err}
	}
	if end.err != nil {
		fmt.Fprintln(stderr, "reprise:", end.err)
	}
	return end.code
}

// settings adds the flags that choose settings.
func (p *program) settings(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.file, "config", "", "configuration `file` (default: reprise.yaml in the configuration folder)")
	f.StringVar(&p.data, "data", "", "data `folder`")
	f.StringArrayVar(&p.set, "set", nil, "any setting, as `key=value`; can be repeated")
	f.BoolVarP(&p.verbose, "verbose", "v", false, "log more")
}

// load reads the configuration.
func (p *program) load(s server.Sources) (server.Config, error) {
	s.Env, s.File, s.Flags = p.env, p.file, p.set
	if p.data != "" {
		s.Flags = append(s.Flags, fmt.Sprintf("data=%q", p.data))
	}
	if p.listen != "" {
		s.Flags = append(s.Flags, fmt.Sprintf("listen=%q", p.listen))
	}
	cfg, err := server.Load(s)
	if err != nil {
		return cfg, usage(err)
	}
	return cfg, nil
}

// log writes to stderr as the configuration says, or, where that says nothing, what is at least
// so important.
func (p *program) log(cfg server.Log, unset slog.Level) *slog.Logger {
	if p.verbose {
		cfg.Level = "debug"
	}
	return cfg.Logger(p.stderr, unset)
}
