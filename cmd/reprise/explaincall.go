package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/reprise-run/reprise/internal/server"
	"github.com/reprise-run/reprise/session"
)

// explainCall tells of a gateway's call.
func (p *program) explainCall(ctx context.Context, id string, asJSON bool) error {
	c, err := p.gatewayCall(ctx, id)
	switch {
	case errors.Is(err, session.ErrNotFound):
		return usage(fmt.Errorf("there is no call %s", id))
	case err != nil:
		return failed(fmt.Errorf("%s: %w", id, err))
	case asJSON:
		out := json.NewEncoder(p.stdout)
		out.SetIndent("", "  ")
		return failed(out.Encode(c))
	}
	tellGateway(p.stdout, &c)
	return nil
}

func (p *program) gatewayCall(ctx context.Context, id string) (session.GatewayCall, error) {
	c, err := p.named()
	if err != nil {
		return session.GatewayCall{}, err
	}
	if c != nil {
		return c.GatewayCall(ctx, id)
	}
	cfg, err := p.load(server.Sources{})
	if err != nil {
		return session.GatewayCall{}, err
	}
	return server.InspectCall(ctx, cfg, id)
}

// outcomes are the outcomes of calls, for a person.
var outcomes = map[session.GatewayOutcome]string{
	session.GatewayOpen:        "it goes on",
	session.GatewayWhole:       "the client was sent the whole answer",
	session.GatewayInterrupted: "the answer broke after something of it was sent; it was closed and not repeated",
	session.GatewayFailed:      "the client was sent an error, and nothing of an answer",
	session.GatewayRefused:     "the gateway refused it: nobody was asked",
	session.GatewayCancelled:   "the client left",
	session.GatewayLost:        "the gateway stopped before its end: nobody knows how it ended",
}

// tellGateway prints the stored words of the gate; it decides nothing again.
func tellGateway(w io.Writer, c *session.GatewayCall) {
	fmt.Fprintf(w, "%s  %s  of %s\n", c.ID, c.Outcome, c.Client)
	fmt.Fprintf(w, "  %s\n", outcomes[c.Outcome])
	asked := c.Model
	if c.Asked != "" {
		asked += ", for which " + c.Asked + " answers"
	}
	form := "whole"
	switch {
	case c.Count:
		form = "how many tokens it is"
	case c.Stream:
		form = "streamed"
	}
	fmt.Fprintf(w, "  asked in the dialect %s for %s, %s, at %s", c.Dialect, asked, form, clock(c.BeganAt.Std()))
	if c.EndedAt != 0 {
		fmt.Fprintf(w, ", ended after %s", c.EndedAt.Std().Sub(c.BeganAt.Std()))
	}
	fmt.Fprintln(w)
	if c.KeyID != "" {
		fmt.Fprintf(w, "  with the key %s\n", c.KeyID)
	}
	if c.Code != "" {
		fmt.Fprintf(w, "  refused with %d %s: %s\n", c.Status, c.Code, c.Message)
		return
	}
	if c.Status != 0 {
		fmt.Fprintf(w, "  the client was sent the status %d\n", c.Status)
	}
	if c.Answered != nil && c.Outcome == session.GatewayWhole {
		fmt.Fprintf(w, "  answered by %s\n", *c.Answered)
	}
	if len(c.Attempts) == 0 {
		fmt.Fprintln(w, "  no request was sent")
	}
	for i := range c.Attempts {
		explainAttempt(w, &c.Attempts[i])
	}
	fmt.Fprintf(w, "\nAll attempts cost %s", cost(&c.Cost))
	if c.Lost > 0 {
		fmt.Fprintf(w, ", %s of it for those that did not answer", c.Lost)
	}
	if c.Reserved > 0 {
		fmt.Fprintf(w, "; up to %s is set aside", c.Reserved)
	}
	fmt.Fprintln(w)
	if c.WaitedMS > 0 {
		fmt.Fprintf(w, "Between them it waited for %s\n", time.Duration(c.WaitedMS)*time.Millisecond)
	}
	if c.Failure != nil && c.Outcome != session.GatewayWhole {
		fmt.Fprintf(w, "\nThe call stopped: %s\n", c.Failure)
		explainOutcomes(w, c.Tried)
	}
}
