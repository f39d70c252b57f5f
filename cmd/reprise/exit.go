package main

import (
	"context"
	"errors"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/session"
)

// Exit codes.
const (
	exitDone      = 0
	exitFailed    = 1
	exitUsage     = 2 // nothing was tried
	exitCancelled = 3
	exitRefused   = 4 // interrupted after output: the gate does not let it be repeated
	exitExhausted = 5 // every automatic try was used up
	exitLater     = 6 // a retry would be scheduled
)

// ended is a verb's end other than a good one. err, where it is set, is still to be told.
type ended struct {
	code int
	err  error
}

func (e *ended) Error() string {
	if e.err == nil {
		return "ended"
	}
	return e.err.Error()
}

func (e *ended) Unwrap() error { return e.err }

func usage(err error) error { return &ended{exitUsage, err} }

// failed gives an error of a verb its exit code.
func failed(err error) error {
	var end *ended
	var refusal *client.Error
	switch {
	case err == nil || errors.As(err, &end):
		return err
	case errors.As(err, &refusal) && (refusal.Code == session.CodeValidation || refusal.Status == 404):
		return usage(err)
	case errors.As(err, &refusal) && refusal.Code == session.CodeNotSafe:
		return &ended{exitRefused, err}
	case errors.Is(err, context.Canceled):
		return &ended{exitCancelled, err}
	}
	return &ended{exitFailed, err}
}

// exitOf is the exit code of a run that has ended.
func exitOf(r *session.Run) int {
	switch {
	case r.State == session.Succeeded:
		return exitDone
	case r.State == session.Cancelled:
		return exitCancelled
	case r.Failure == nil || r.Recovery == nil || !r.Failure.Retryable:
		return exitFailed
	case !r.Recovery.ReplaySafe:
		return exitRefused
	case r.Recovery.Auto:
		return exitLater
	case r.Recovery.NotBefore == 0:
		return exitExhausted
	}
	return exitFailed // it asked for a wait that nobody has agreed to
}
