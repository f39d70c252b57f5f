package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/internal/server"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// fenceList and coolOffList are the JSON of the API's lists.
type (
	fenceList   httpapi.FenceList
	coolOffList httpapi.CoolOffList
)

func (p *program) fences() *cobra.Command {
	var lift []string
	cmd := &cobra.Command{
		Use:   "fences",
		Short: "List the gateway's requests that broke and are not repeated by themselves",
		Long: "List the gateway's requests whose answer broke after a part of it had come, and that are not repeated\n" +
			"by themselves: who asked, the call that broke and why, and how many repetitions were refused. With\n" +
			"--lift a request may be asked again at once.",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringArrayVar(&lift, "lift", nil, "take the fence with this `id` down; can be repeated")
	return booked(p, cmd, func(ctx context.Context, c server.Books, _ []string) (fenceList, error) {
		for _, id := range lift {
			if err := c.LiftFence(ctx, session.FenceID(id)); err != nil {
				return fenceList{}, fmt.Errorf("%s: %w", id, err)
			}
		}
		list, err := c.Fences(ctx)
		return fenceList(list), err
	}, func(w io.Writer, list fenceList) {
		for _, f := range list.Fences {
			fmt.Fprintf(w, "%s  %s  %s %s  %s broke: %s  %d refused  %s\n", f.ID, plain(f.Client), f.Dialect, plain(f.Model), f.CallID, f.Reason, f.Hits,
				ends(f.ExpiresAt.Std(), list.Now.Std()))
		}
	})
}

func (p *program) coolOffs() *cobra.Command {
	var lift, key string
	cmd := &cobra.Command{
		Use:   "cool-offs",
		Short: "List the keys and models that are left alone after failures",
		Long: "List the keys and models that are left alone after failures, and until when. With --lift one is asked\n" +
			"again before its time: --lift openai/gpt --key env:OPENAI_API_KEY, or less of that where the list has\n" +
			"less.",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&lift, "lift", "", "ask this `provider/model`, or every model of a provider, again")
	cmd.Flags().StringVar(&key, "key", "", "with --lift: the key's `name`, as the list has it")
	return booked(p, cmd, func(ctx context.Context, c server.Books, _ []string) (coolOffList, error) {
		switch {
		case lift != "":
			provider, model, _ := strings.Cut(lift, "/")
			if err := c.LiftCoolOff(ctx, recovery.Candidate{Provider: provider, Model: model, Key: key}); err != nil {
				return coolOffList{}, fmt.Errorf("%s: %w", lift, err)
			}
		case key != "":
			return coolOffList{}, usage(fmt.Errorf("--key says whose cool-off --lift lifts, and that is not given"))
		}
		list, err := c.CoolOffs(ctx)
		return coolOffList(list), err
	}, func(w io.Writer, list coolOffList) {
		for _, c := range list.CoolOffs {
			fmt.Fprintf(w, "%s  %s  %s\n", plain(c.Candidate.String()), c.Reason, ends(c.Until, list.Now.Std()))
		}
	})
}

// ends says when something ends, now being the server's time.
func ends(at, now time.Time) string {
	return fmt.Sprintf("until %s (in %s)", moment(at, now), max(0, at.Sub(now)).Round(time.Second))
}
