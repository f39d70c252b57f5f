package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/internal/server"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/session"
)

func (p *program) keys() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "List the gateway's client keys, and make or revoke one",
		Long: "List the keys that programs send their model calls through the gateway with: what each may ask for, and\n" +
			"what was asked with it. Providers' keys are not among them: the configuration names those.",
		Args: cobra.NoArgs,
	}
	booked(p, cmd, func(ctx context.Context, b server.Books, _ []string) (httpapi.ClientKeyList, error) {
		return b.ClientKeys(ctx)
	}, tellKeys)
	cmd.AddCommand(p.createKey(), p.changeKey(), p.revokeKey())
	return cmd
}

// terms are the flags of what a key allows.
type terms struct {
	cap, day string
	session.ClientTerms
}

func (t *terms) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&t.Models, "models", nil, "models and chains that may be asked, or `patterns` with *; none: all")
	f.StringVar(&t.cap, "cap", "", "what its requests may cost in all, in US `dollars`")
	f.StringVar(&t.day, "cap-day", "", "what they may cost in 24 hours, in US `dollars`")
	f.IntVar(&t.Rate, "rate", 0, "how many `requests` a minute may be sent")
	f.StringVar(&t.Hold, "hold", "", "how long output is kept back, as recovery.hold has it")
	f.StringVar(&t.Chain, "chain", "", "the chain that answers, whatever model is named")
	f.IntVar(&t.MaxAttempts, "max-attempts", 0, "how many requests are sent to providers for one of its own")
	f.BoolVar(&t.NoFallback, "no-fallback", false, "ask the first model alone")
	f.BoolVar(&t.NoFences, "no-fences", false, "let what broke be sent again: for programs that send the same on purpose")
}

// read reads the amounts.
func (t *terms) read() (err error) {
	for _, c := range []struct {
		text string
		to   *llm.Money
	}{{t.cap, &t.SpendTotal}, {t.day, &t.SpendDay}} {
		if c.text == "" {
			continue
		}
		if *c.to, err = llm.ParseMoney(c.text); err != nil {
			return usage(err)
		}
	}
	return nil
}

func (p *program) createKey() *cobra.Command {
	var t terms
	cmd := &cobra.Command{
		Use:   "create label",
		Short: "Make a client key, and print it, this once",
		Args:  cobra.ExactArgs(1),
	}
	t.flags(cmd)
	return booked(p, cmd, func(ctx context.Context, b server.Books, args []string) (httpapi.CreatedClientKey, error) {
		if err := t.read(); err != nil {
			return httpapi.CreatedClientKey{}, err
		}
		return b.CreateClientKey(ctx, httpapi.NewClientKey{Label: args[0], ClientTerms: t.ClientTerms})
	}, func(w io.Writer, k httpapi.CreatedClientKey) {
		fmt.Fprintln(w, k.Key)
		fmt.Fprintf(p.stderr, "This is the key %s (%s). It is not shown again.\n", k.ClientKey.Label, k.ClientKey.ID)
	})
}

func (p *program) changeKey() *cobra.Command {
	var t terms
	cmd := &cobra.Command{
		Use:   "change id",
		Short: "Change what a client key allows: what a flag says, and nothing else",
		Args:  cobra.ExactArgs(1),
	}
	t.flags(cmd)
	return booked(p, cmd, func(ctx context.Context, b server.Books, args []string) (session.ClientKey, error) {
		if err := t.read(); err != nil {
			return session.ClientKey{}, err
		}
		var patch session.ClientTermsPatch
		said := cmd.Flags().Changed
		if said("models") {
			patch.Models = &t.Models
		}
		if said("cap") {
			patch.SpendTotal = &t.SpendTotal
		}
		if said("cap-day") {
			patch.SpendDay = &t.SpendDay
		}
		if said("rate") {
			patch.Rate = &t.Rate
		}
		if said("hold") {
			patch.Hold = &t.Hold
		}
		if said("chain") {
			patch.Chain = &t.Chain
		}
		if said("max-attempts") {
			patch.MaxAttempts = &t.MaxAttempts
		}
		if said("no-fallback") {
			patch.NoFallback = &t.NoFallback
		}
		if said("no-fences") {
			patch.NoFences = &t.NoFences
		}
		return b.ChangeClientKey(ctx, session.ClientKeyID(args[0]), patch)
	}, func(w io.Writer, k session.ClientKey) {
		tellKeys(w, httpapi.ClientKeyList{ClientKeys: []session.ClientKey{k}})
	})
}

func (p *program) revokeKey() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke id",
		Short: "Revoke a client key; calls that go on are not ended",
		Args:  cobra.ExactArgs(1),
	}
	return booked(p, cmd, func(ctx context.Context, b server.Books, args []string) (session.ClientKey, error) {
		return b.RevokeClientKey(ctx, session.ClientKeyID(args[0]))
	}, func(w io.Writer, k session.ClientKey) {
		tellKeys(w, httpapi.ClientKeyList{ClientKeys: []session.ClientKey{k}})
	})
}

func tellKeys(w io.Writer, list httpapi.ClientKeyList) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, k := range list.ClientKeys {
		state := "holds"
		if k.RevokedAt != 0 {
			state = "revoked " + clock(k.RevokedAt.Std())
		}
		asked := ""
		if k.Total != nil {
			asked = fmt.Sprintf("%d calls, %s; in 24 hours %d, %s", k.Total.Calls, spent(k.Total.Spend), k.Day.Calls, spent(k.Day.Spend))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", k.ID, k.Label, state, asked, allowed(&k.ClientTerms))
	}
	table.Flush() // into memory
}

// allowed says what a key's terms narrow.
func allowed(t *session.ClientTerms) string {
	var said []string
	add := func(set bool, format string, args ...any) {
		if set {
			said = append(said, fmt.Sprintf(format, args...))
		}
	}
	add(len(t.Models) > 0, "models %s", strings.Join(t.Models, ", "))
	add(t.SpendTotal > 0, "at most %s", t.SpendTotal)
	add(t.SpendDay > 0, "at most %s in 24 hours", t.SpendDay)
	add(t.Rate > 0, "%d a minute", t.Rate)
	add(t.Chain != "", "chain %s", t.Chain)
	add(t.Hold != "", "hold %s", t.Hold)
	add(t.MaxAttempts > 0, "%d attempts", t.MaxAttempts)
	add(t.NoFallback, "no fallback")
	add(t.NoFences, "no fences")
	return strings.Join(said, "; ")
}

// booked completes a verb that is about the gateway's books: those of the server that the
// environment names, of the one that has the data folder, or of the folder itself.
func booked[T any](p *program, cmd *cobra.Command, ask func(context.Context, server.Books, []string) (T, error), tell func(io.Writer, T)) *cobra.Command {
	var asJSON bool
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		b, end, err := p.books(cmd.Context())
		if err != nil {
			return failed(err)
		}
		answer, err := ask(cmd.Context(), b, args)
		if err = errors.Join(refused(err), end()); err != nil {
			return failed(err)
		}
		if !asJSON {
			tell(p.stdout, answer)
			return nil
		}
		out := json.NewEncoder(p.stdout)
		out.SetIndent("", "  ")
		return failed(out.Encode(answer))
	}
	p.settings(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

func (p *program) books(ctx context.Context) (server.Books, func() error, error) {
	c, err := p.named()
	if err != nil {
		return nil, nil, err
	}
	if c != nil {
		return c, func() error { return nil }, nil
	}
	cfg, err := p.load(server.Sources{})
	if err != nil {
		return nil, nil, err
	}
	return server.OpenBooks(ctx, cfg)
}

// refused says what was typed wrong where the books of this process have refused it, as where a
// server's have.
func refused(err error) error {
	var no *session.Refusal
	switch {
	case errors.As(err, &no) && no.Code == session.CodeValidation:
		return usage(no)
	case errors.Is(err, session.ErrNotFound):
		return usage(err)
	}
	return err
}
