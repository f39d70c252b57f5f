package rehearsal

import (
	"slices"
	"time"
)

// Scripts returns the scripts that every upstream knows, in the order of a list for people.
func Scripts() []Script {
	var all []Script
	for _, s := range replies() {
		s.Group = "Replies"
		all = append(all, s)
	}
	for _, group := range []struct {
		name string
		rows []row
	}{{"Refused with a status", refused}, {"Failed before any output", before}, {"Failed after output", after}} {
		for _, r := range group.rows {
			all = append(all, Script{Name: r.name, Group: group.name, Shows: r.shows, Scenes: []Scene{{r.take}}})
			if r.then != "" {
				all = append(all, Script{Name: r.then, Group: group.name, Shows: r.shows + "; the next request gets a reply",
					Scenes: []Scene{{r.take, reply}}, Rewind: true})
			}
		}
	}
	for _, s := range sequences() {
		s.Group = "Several requests"
		all = append(all, s)
	}
	return all
}

// row is a script of one take, and the name of the one in which a reply follows it.
type row struct {
	name, then, shows string
	take              Take
}

var (
	reply     = Take{{Do: Say}}
	some      = Step{Do: Say, Deltas: 12}
	thought   = Step{Do: Think, Deltas: 8}
	callClock = Take{{Do: Say, Text: "Let me look at the clock. "}, {Do: Call}}

	writeFile  = Step{Do: Call, Name: "write_file", Arguments: `{"path":"rehearsal.txt","content":"A rehearsal was here.\n"}`}
	runCommand = Step{Do: Call, Name: "run_command", Arguments: `{"command":"date"}`}
	overload   = &Fault{Kind: Overloaded}
	broken     = &Fault{Kind: BrokenUpstream}
)

func replies() []Script {
	one := func(name, shows string, take Take) Script {
		return Script{Name: name, Shows: shows, Scenes: []Scene{{take}}}
	}
	flood := one("flood", "10,000 deltas at 2,000 a second", Take{{Do: Say, Deltas: 10_000}})
	flood.Pause = Duration(500 * time.Microsecond)
	drip := one("drip", "a reply that drips, one word a second", Take{{Do: Say, Deltas: 30}})
	drip.Pause = Duration(time.Second)
	fast := one("ok-fast", "a reply without pauses, as any script plays with -fast behind its name", reply)
	fast.Pause = 1
	window := one("window-16k", "a model that takes 16,000 characters and refuses what is longer as a context overflow", reply)
	window.Window = 16_000
	return []Script{
		one("ok", "a reply, streamed at the pace of a model", reply),
		fast,
		one("slow", "five seconds of silence, then a reply", Take{{Do: Wait, For: Duration(5 * time.Second)}, {Do: Say}}),
		one("slow-text", "a stream that begins at once and says nothing for five seconds",
			Take{{Do: Start}, {Do: KeepAlive, Times: 5, For: Duration(time.Second)}, {Do: Say}}),
		drip,
		one("thinking", "thoughts, then a reply", Take{{Do: Think}, {Do: Say}}),
		one("redacted", "thoughts that only the provider can read, then a reply", Take{{Do: Redacted}, {Do: Say}}),
		{Name: "tool", Shows: "a call of the tool clock, then a reply that quotes its result", Scenes: []Scene{{callClock}, {reply}}},
		{Name: "two-tools", Shows: "two calls of the tool clock in one step, then a reply",
			Scenes: []Scene{{{{Do: Call}, {Do: Call}}}, {reply}}},
		{Name: "bad-arguments", Shows: "a call of the tool clock with arguments that it does not take, then one as it should be, then a reply",
			Scenes: []Scene{{{{Do: Call, Arguments: `{"zone":"UTC"}`}}}, {callClock}, {reply}}},
		{Name: "write-file", Shows: "a call of the tool write_file of a workspace, which changes something, then a reply",
			Scenes: []Scene{{{{Do: Say, Text: "Let me write that down. "}, writeFile}}, {reply}}},
		{Name: "three-tools", Shows: "calls of clock, write_file and run_command in one step, then a reply",
			Scenes: []Scene{{{{Do: Call}, writeFile, runCommand}}, {reply}}},
		one("remote-tool", "a search that the provider runs itself, then a reply", Take{{Do: Remote}, {Do: Say}}),
		one("tool-loop", "a model that calls the tool clock in every step and never comes to an end", callClock),
		one("empty", "an answer that is complete and says nothing", Take{{Do: Done}}),
		one("length", "a reply that stops at its token limit", Take{some, {Do: Done, Stop: "length"}}),
		one("filtered", "a reply of which the provider withholds the rest", Take{some, {Do: Done, Stop: "filtered"}}),
		flood,
		window,
	}
}

func limited(wait time.Duration, hint Hint) Take {
	return Take{{Do: Status, Fault: &Fault{Kind: RateLimited, Wait: Duration(wait), Hint: hint}}}
}

func status(f Fault) Take { return Take{{Do: Status, Fault: &f}} }

var refused = []row{
	{"overloaded", "overloaded-then-ok", "refused because the provider is overloaded", status(*overload)},
	{"always-503", "503-then-ok", "refused with 503", status(Fault{Kind: Unavailable, Status: 503})},
	{"always-500", "500-then-ok", "refused with 500", status(Fault{Kind: ServerError, Status: 500})},
	{"always-502-page", "502-page-then-ok", "refused with 502 and the web page of a proxy", Take{{Do: Page, Fault: &Fault{Status: 502}}}},
	{"always-408", "408-then-ok", "refused with 408, a time-out at the provider", status(Fault{Kind: TimedOut, Status: 408})},
	{"rate-limited", "rate-limited-then-ok", "refused with 429 and no word about when to come back", status(Fault{Kind: RateLimited})},
	{"rate-limited-1s", "rate-limited-1s-then-ok", "refused with 429, come back in 1 s", limited(time.Second, HintSeconds)},
	{"rate-limited-date", "rate-limited-date-then-ok", "refused with 429, come back in 2 s, said as a date", limited(2*time.Second, HintDate)},
	{"rate-limited-ms", "rate-limited-ms-then-ok", "refused with 429, come back in 1500 ms", limited(1500*time.Millisecond, HintMillis)},
	{"rate-limited-info", "rate-limited-info-then-ok", "refused with 429, come back in 2 s, said as RetryInfo", limited(2*time.Second, HintInfo)},
	{"rate-limited-reset", "rate-limited-reset-then-ok", "refused with 429, come back in 2 s, said by the vendor's reset headers", limited(2*time.Second, HintReset)},
	{"rate-limited-resets-at", "rate-limited-resets-at-then-ok", "refused with 429, come back in 2 s, said as resets_at", limited(2*time.Second, HintResetsAt)},
	{"rate-limited-prose", "rate-limited-prose-then-ok", "refused with 429, come back in 2 s, said in the sentence alone", limited(2*time.Second, HintProse)},
	{"rate-limited-3000s", "rate-limited-3000s-then-ok", "refused with 429, come back in 50 minutes", limited(3000*time.Second, HintSeconds)},
	{"rate-limited-2h", "", "refused with 429, come back in two hours, which is a quota", limited(2*time.Hour, HintSeconds)},
	{"always-503-2h", "", "refused with 503, come back in two hours", status(Fault{Kind: Unavailable, Status: 503, Wait: Duration(2 * time.Hour)})},
	{"quota", "", "refused because the quota is used up", status(Fault{Kind: Quota})},
	{"spend-limit", "", "refused because the provider's spend limit is reached", status(Fault{Kind: SpendLimit})},
	{"auth-failed", "auth-failed-then-ok", "refused because the key is not valid", status(Fault{Kind: AuthFailed})},
	{"permission-denied", "", "refused because the key may not do this", status(Fault{Kind: Forbidden})},
	{"model-not-found", "", "refused because there is no such model", status(Fault{Kind: ModelNotFound})},
	{"context-overflow", "context-overflow-then-ok", "refused because the conversation is too long", status(Fault{Kind: ContextOverflow})},
	{"too-large", "", "refused with 413, the request is too large", status(Fault{Kind: TooLarge})},
	{"invalid", "", "refused because the request is not valid", status(Fault{Kind: Invalid})},
	{"prompt-filtered", "", "refused because of what the prompt says", status(Fault{Kind: Filtered})},
	{"silent", "silent-then-ok", "no answer at all, not even headers", Take{{Do: Stall}}},
	{"reset-before-headers", "reset-before-headers-then-ok", "a connection reset in place of an answer", Take{{Do: Reset}}},
	{"error-in-200", "error-in-200-then-ok", "an error object as the body of a 200", Take{{Do: Object, Fault: &Fault{Kind: ServerError}}}},
	{"page-in-200", "", "a web page as the body of a 200", Take{{Do: Page}}},
}

var before = []row{
	{"overloaded-first", "overloaded-first-then-ok", "an overload as the first event of the stream", Take{{Do: Headers}, {Do: Error, Fault: overload}}},
	{"overloaded-after-start", "overloaded-after-start-then-ok", "an overload after the stream has begun", Take{{Do: Start}, {Do: Error, Fault: overload}}},
	{"failed-before-text", "failed-before-text-then-ok", "upstream_stream_error after the stream has begun", Take{{Do: Start}, {Do: Failed, Fault: broken}}},
	{"error-before-text", "error-before-text-then-ok", "an error event after the stream has begun", Take{{Do: Start}, {Do: Error, Fault: &Fault{Kind: ServerError}}}},
	{"empty-block-failed", "empty-block-failed-then-ok", "a block of text that is opened and stays empty, then a failure", Take{{Do: Empty}, {Do: Failed, Fault: broken}}},
	{"cut-before-text", "cut-before-text-then-ok", "a connection that is cut after the stream has begun", Take{{Do: Start}, {Do: Cut}}},
	{"reset-before-text", "reset-before-text-then-ok", "a connection that is reset after the stream has begun", Take{{Do: Start}, {Do: Reset}}},
	{"ended-before-text", "ended-before-text-then-ok", "a clean end of the body with no terminal event, after the stream has begun", Take{{Do: Start}, {Do: End}}},
	{"ended-at-once", "ended-at-once-then-ok", "a clean end of an empty body", Take{{Do: Headers}, {Do: End}}},
	{"malformed-first", "malformed-first-then-ok", "a frame that is not JSON, before any output", Take{{Do: Start}, {Do: Malformed}}},
	{"stall-before-text", "stall-before-text-then-ok", "a stream that begins and falls silent", Take{{Do: Start}, {Do: Stall}}},
	{"keep-alives-only", "keep-alives-only-then-ok", "keep-alive comments for ever and nothing else", Take{{Do: KeepAlive, For: Duration(time.Second)}}},
	{"pings-only", "pings-only-then-ok", "the dialect's own signs of life for ever and nothing else", Take{{Do: Ping, For: Duration(time.Second)}}},
	{"half-call", "half-call-then-ok", "half a tool call, then the connection is cut", Take{{Do: HalfCall}, {Do: Cut}}},
	{"half-call-ended", "half-call-ended-then-ok", "half a tool call, then a clean end of the body", Take{{Do: HalfCall}, {Do: End}}},
	{"call-failed", "call-failed-then-ok", "a whole tool call, then a failure", Take{{Do: Call}, {Do: Failed, Fault: broken}}},
}

var after = []row{
	{"failed-inside-text", "", "text, then response.failed with upstream_stream_error in the middle of it", Take{some, {Do: Failed, Fault: broken}}},
	{"failed-after-text", "", "a block of text that is closed, then response.failed with upstream_stream_error", Take{some, {Do: Close}, {Do: Failed, Fault: broken}}},
	{"error-after-text", "", "text, then an error event", Take{some, {Do: Error, Fault: &Fault{Kind: ServerError}}}},
	{"overloaded-after-text", "", "text, then an overload", Take{some, {Do: Error, Fault: overload}}},
	{"rate-limited-after-text", "", "text, then a rate limit", Take{some, {Do: Error, Fault: &Fault{Kind: RateLimited, Wait: Duration(2 * time.Second), Hint: HintProse}}}},
	{"error-twice", "", "text, then the same error event two times", Take{some, {Do: Error, Fault: overload}, {Do: Error, Fault: overload}}},
	{"done-then-error", "", "a complete answer, and an error event behind it", Take{some, {Do: Done}, {Do: Error, Fault: overload}}},
	{"cut-after-text", "", "text, then the connection is cut", Take{some, {Do: Cut}}},
	{"reset-after-text", "", "text, then the connection is reset", Take{some, {Do: Reset}}},
	{"ended-after-text", "", "text, then a clean end of the body with no terminal event", Take{some, {Do: End}}},
	{"malformed-after-text", "", "text, then a frame that is not JSON", Take{some, {Do: Malformed}}},
	{"stall-after-text", "", "text, then silence", Take{some, {Do: Stall}}},
	{"keep-alives-after-text", "", "text, then keep-alive comments for ever", Take{some, {Do: KeepAlive, For: Duration(time.Second)}}},
	{"space-failed", "", "one space of text, then a failure", Take{{Do: Say, Text: " "}, {Do: Failed, Fault: broken}}},
	{"thinking-failed", "", "thoughts, then a failure", Take{thought, {Do: Failed, Fault: broken}}},
	{"thinking-malformed", "", "thoughts, then a frame that is not JSON", Take{thought, {Do: Malformed}}},
	{"redacted-reset", "", "thoughts that only the provider can read, then the connection is reset", Take{{Do: Redacted}, {Do: Reset}}},
	{"remote-tool-failed", "", "a search that the provider runs itself, then a failure", Take{{Do: Remote}, {Do: Failed, Fault: broken}}},
	{"text-half-call", "", "text and half a tool call, then the connection is cut", Take{some, {Do: HalfCall}, {Do: Cut}}},
}

func sequences() []Script {
	times := func(n int, t Take, last ...Take) Scene { return slices.Concat(slices.Repeat(Scene{t}, n), last) }
	refusal := status(*overload)
	return []Script{
		{Name: "overloaded-twice-then-ok", Shows: "overloaded two times, then a reply", Scenes: []Scene{times(2, refusal, reply)}, Rewind: true},
		{Name: "overloaded-3-times-then-ok", Shows: "overloaded three times, then a reply", Scenes: []Scene{times(3, refusal, reply)}, Rewind: true},
		{Name: "overloaded-6-times-then-ok", Shows: "overloaded six times, then a reply", Scenes: []Scene{times(6, refusal, reply)}, Rewind: true},
		{Name: "overloaded-then-failed-inside-text", Shows: "overloaded, then text that breaks off",
			Scenes: []Scene{{refusal, {some, {Do: Failed, Fault: broken}}}}, Rewind: true},
		{Name: "failed-inside-text-once", Shows: "text that breaks off; a repeated question gets a reply",
			Scenes: []Scene{{{some, {Do: Failed, Fault: broken}}, reply}}, Rewind: true},
		{Name: "tool-then-overloaded-then-ok", Shows: "a tool call, an overload of the next model call, then a reply",
			Scenes: []Scene{{callClock}, {refusal, reply}}, Rewind: true},
		{Name: "tool-then-overloaded", Shows: "a tool call, then every model call is refused", Scenes: []Scene{{callClock}, {refusal}}},
		{Name: "tool-then-failed-inside-text", Shows: "a tool call, then text that breaks off",
			Scenes: []Scene{{callClock}, {{some, {Do: Failed, Fault: broken}}}}},
		{Name: "tool-then-rate-limited-3000s", Shows: "a tool call, then 429, come back in 50 minutes",
			Scenes: []Scene{{callClock}, {limited(3000*time.Second, HintSeconds), reply}}, Rewind: true},
	}
}
