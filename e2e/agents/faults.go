package main

import (
	"fmt"
	"time"

	"github.com/reprise-run/reprise/provider/rehearsal"
)

const (
	opening = "This is said once, "
	answers = "and this is the whole of the answer."
)

// fault is a call that goes wrong, or does not. A request that should not be sent gets an answer.
type fault struct {
	name   string
	scenes []rehearsal.Scene
	fails  bool // the agent must say so, and not have the answer
	runs   int  // of the tool
	want   int  // requests
	more   int  // that there may be besides
}

func faults(a *agent) []fault {
	do := func(verb rehearsal.Verb) rehearsal.Step { return rehearsal.Step{Do: verb} }
	with := func(verb rehearsal.Verb, kind rehearsal.Kind, wait time.Duration) rehearsal.Step {
		return rehearsal.Step{Do: verb, Fault: &rehearsal.Fault{Kind: kind, Wait: rehearsal.Duration(wait)}}
	}
	answer := rehearsal.Take{{Do: rehearsal.Say, Text: answers}}
	say, begin := rehearsal.Step{Do: rehearsal.Say, Text: opening}, do(rehearsal.Start)
	arguments := fmt.Sprintf(`{%q:"echo ran >> ran.txt","description":"Leaves a line"}`, a.key)
	call := rehearsal.Step{Do: rehearsal.Call, Name: a.tool, Arguments: arguments}
	half := rehearsal.Step{Do: rehearsal.HalfCall, Name: a.tool, Arguments: arguments}
	saved := func(name string, take ...rehearsal.Step) fault {
		return fault{name, []rehearsal.Scene{{take, answer}}, false, 0, 2, 0}
	}
	ended := func(name string, take ...rehearsal.Step) fault {
		return fault{name, []rehearsal.Scene{{append(rehearsal.Take{say}, take...), answer}, {answer}}, true, 0, 1, 0}
	}
	never := func(name string, want, more int, take ...rehearsal.Step) fault {
		return fault{name, []rehearsal.Scene{{take}}, true, 0, want, more}
	}
	return []fault{
		{"whole", []rehearsal.Scene{{answer}}, false, 0, 1, 0},
		{"call", []rehearsal.Scene{{{say, call}}, {answer}}, false, 1, 2, 0},

		saved("503-once", with(rehearsal.Status, rehearsal.Unavailable, 0)),
		saved("429-once", with(rehearsal.Status, rehearsal.RateLimited, 0)),
		saved("429-hint", with(rehearsal.Status, rehearsal.RateLimited, time.Second)),
		saved("429-kept-alive", with(rehearsal.Status, rehearsal.RateLimited, 17*time.Second)),
		saved("overloaded-first", begin, with(rehearsal.Error, rehearsal.Overloaded, 0)),
		saved("cut-first", begin, do(rehearsal.Cut)),
		saved("ended-first", begin, do(rehearsal.End)),
		saved("half-call-cut", half, do(rehearsal.Cut)),
		saved("call-cut", call, do(rehearsal.Cut)),

		ended("cut", do(rehearsal.Cut)),
		ended("ended", do(rehearsal.End)),
		ended("malformed", do(rehearsal.Malformed)),
		ended("stalled", do(rehearsal.Stall)),
		ended("error", with(rehearsal.Error, rehearsal.ServerError, 0)),
		ended("failed", with(rehearsal.Failed, rehearsal.BrokenUpstream, 0)),
		ended("text-call-cut", call, do(rehearsal.Cut)),
		ended("text-call-ended", call, do(rehearsal.End)),
		ended("text-half-call-cut", half, do(rehearsal.Cut)),

		never("429-50-minutes", 1, 0, with(rehearsal.Status, rehearsal.RateLimited, 50*time.Minute)),
		never("always-503", 3, 9, with(rehearsal.Status, rehearsal.Unavailable, 0)),
		never("quota", 1, 0, with(rehearsal.Status, rehearsal.Quota, 0)), // the last one: then the key rests for every model
	}
}
