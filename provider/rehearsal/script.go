package rehearsal

import (
	"errors"
	"fmt"
	"time"
)

// Script says how the upstream answers one model name. A script is written once and plays in
// every dialect, streamed or not.
type Script struct {
	// Name is the model name that plays the script. Any script also answers to its name with
	// "-fast" behind it, and then makes no pause between deltas.
	Name string `json:"name"`
	// Group and Shows are for a list of scripts: a heading, and one line that says what the
	// script shows.
	Group string `json:"group,omitempty"`
	Shows string `json:"shows,omitempty"`
	// Scenes are the model calls of one agent run: a request plays the scene whose index is
	// the number of rounds of tool results that follow the last message of the user. The last
	// scene plays for every later call.
	Scenes []Scene `json:"scenes"`
	// Rewind starts a scene's takes over once its last one was played, so that the same
	// question meets the whole script again. Without it the last take plays for ever after.
	Rewind bool `json:"rewind,omitempty"`
	// Pause is the time between two deltas. 0 means DefaultPause.
	Pause Duration `json:"pause,omitempty"`
	// Window is the size of the model's context in characters of the conversation. A longer
	// one is refused as a context overflow, whatever the scene says. 0 means no bound.
	Window int `json:"window,omitempty"`
}

// DefaultPause is the time between two deltas of a script that names none.
const DefaultPause = Duration(25 * time.Millisecond)

// Scene is one model call: the first request for it plays the first take, a repeated request
// the second, and so on.
type Scene []Take

// Take is the answer to one request: its steps in order. A take that says no other end is
// completed well.
type Take []Step

// Verb is what one step does.
type Verb string

const (
	// Before the answer begins. Each but Wait ends the take.
	Status Verb = "status" // an error status with the body of Fault
	Object Verb = "object" // status 200 and a JSON error object in place of a stream
	Page   Verb = "page"   // an HTML page with Fault.Status, 0 for 200

	// Headers sends status 200 and the headers alone; Start sends the dialect's first frames
	// too. Every later verb does both by itself.
	Headers Verb = "headers"
	Start   Verb = "start"

	Wait      Verb = "wait"      // silence for For
	Stall     Verb = "stall"     // silence until the client goes
	KeepAlive Verb = "keepalive" // Times comments, For apart; 0 times: until the client goes
	Ping      Verb = "ping"      // the same with the dialect's own sign of life

	Say      Verb = "say"      // Text, or a reply that explains the script; Deltas deltas of it
	Think    Verb = "think"    // the same as thinking
	Redacted Verb = "redacted" // thinking that only the provider can read
	Empty    Verb = "empty"    // opens a block of text and says nothing in it
	Close    Verb = "close"    // closes the open block
	Call     Verb = "call"     // calls the tool Name with Arguments
	HalfCall Verb = "halfcall" // stops in the middle of the arguments
	Remote   Verb = "remote"   // a search that the provider runs itself, Text being the query

	Failed    Verb = "failed"    // the dialect's failure of a whole response, with Fault
	Error     Verb = "error"     // the dialect's error event, with Fault
	Malformed Verb = "malformed" // a frame that is not JSON
	Cut       Verb = "cut"       // closes the connection in the middle of the body
	Reset     Verb = "reset"     // resets the connection; before the headers, if nothing opened it
	End       Verb = "end"       // ends the body cleanly, without a terminal event
	Done      Verb = "done"      // completes the answer with Stop
)

// Step is one thing that happens in a take. Which fields count depends on Do.
type Step struct {
	Do        Verb     `json:"do"`
	Text      string   `json:"text,omitempty"`
	Deltas    int      `json:"deltas,omitempty"` // 0: the whole text once; more than it has: round again
	For       Duration `json:"for,omitempty"`
	Times     int      `json:"times,omitempty"`
	Name      string   `json:"name,omitempty"`      // "": clock
	Arguments string   `json:"arguments,omitempty"` // "": {}
	Stop      string   `json:"stop,omitempty"`      // end, tool_calls, length, filtered; "": as the answer has it
	Fault     *Fault   `json:"fault,omitempty"`
}

// Fault is an error that the provider reports.
type Fault struct {
	Kind Kind `json:"kind"`
	// Status, Code and Message replace what the dialect says for the kind.
	Status  int    `json:"status,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Wait is how long the client is asked to wait, and Hint is how it is asked.
	Wait   Duration          `json:"wait,omitempty"`
	Hint   Hint              `json:"hint,omitempty"`
	Header map[string]string `json:"header,omitempty"`
}

// Kind is what kind of error a Fault is.
type Kind string

const (
	Overloaded      Kind = "overloaded"
	Unavailable     Kind = "unavailable"
	ServerError     Kind = "server_error"
	BrokenUpstream  Kind = "upstream_stream_error"
	TimedOut        Kind = "timeout"
	RateLimited     Kind = "rate_limited"
	Quota           Kind = "quota"
	SpendLimit      Kind = "spend_limit"
	AuthFailed      Kind = "auth_failed"
	Forbidden       Kind = "permission_denied"
	ModelNotFound   Kind = "model_not_found"
	ContextOverflow Kind = "context_overflow"
	TooLarge        Kind = "request_too_large"
	Invalid         Kind = "invalid_request"
	Filtered        Kind = "content_filtered"
)

// Hint is how an error says when to come back. The zero value is HintSeconds where the fault
// has a Wait. A dialect that has no such form says it as a compatible server or a proxy in
// front of it would.
type Hint string

const (
	HintSeconds  Hint = "seconds"    // Retry-After: 2
	HintDate     Hint = "date"       // Retry-After: Wed, 21 Oct 2026 07:28:00 GMT
	HintMillis   Hint = "ms"         // Retry-After-Ms: 2000
	HintInfo     Hint = "retry_info" // a google.rpc.RetryInfo among the error's details
	HintReset    Hint = "reset"      // the vendor's rate limit headers
	HintResetsAt Hint = "resets_at"  // resets_at and resets_in_seconds in the error
	HintProse    Hint = "prose"      // "Please try again in 2s."
)

// Duration is a time.Duration that is written as text: "25ms", "1m30s".
type Duration time.Duration

// MarshalText writes the duration as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// Validate reports the first thing in the script that cannot be played.
func (s *Script) Validate() error {
	switch {
	case s.Name == "":
		return errors.New("script without a name")
	case len(s.Scenes) == 0:
		return fmt.Errorf("script %s: no scenes", s.Name)
	case s.Pause < 0 || s.Window < 0:
		return fmt.Errorf("script %s: negative pause or window", s.Name)
	}
	for i, scene := range s.Scenes {
		if len(scene) == 0 {
			return fmt.Errorf("script %s: scene %d: no takes", s.Name, i+1)
		}
		for j, take := range scene {
			begun := false
			for k := range take {
				step := &take[k]
				err := step.validate()
				if begun && (step.Do == Object || step.Do == Page) {
					err = fmt.Errorf("%s: the answer has begun", step.Do)
				}
				if err != nil {
					return fmt.Errorf("script %s: scene %d: take %d: step %d: %w", s.Name, i+1, j+1, k+1, err)
				}
				begun = begun || step.Do != Wait
			}
		}
	}
	return nil
}

func (s *Step) validate() error {
	if s.For < 0 || s.Times < 0 || s.Deltas < 0 {
		return fmt.Errorf("%s: negative number", s.Do)
	}
	switch s.Do {
	case Status, Object, Failed, Error:
		if s.Fault == nil {
			return fmt.Errorf("%s: needs a fault", s.Do)
		}
		return s.Fault.validate(s.Do)
	case Done:
		switch s.Stop {
		case "", "end", "tool_calls", "length", "filtered":
			return nil
		}
		return fmt.Errorf("done: unknown stop %q", s.Stop)
	case Wait:
		if s.For == 0 {
			return errors.New("wait: needs for")
		}
	case KeepAlive, Ping:
		if s.For == 0 && s.Times == 0 {
			return fmt.Errorf("%s: needs for, times or both", s.Do)
		}
	case Page, Headers, Start, Stall, Say, Think, Redacted, Empty, Close, Call, HalfCall, Remote,
		Malformed, Cut, Reset, End:
	default:
		return fmt.Errorf("unknown verb %q", s.Do)
	}
	return nil
}

func (f *Fault) validate(do Verb) error {
	if _, known := words[f.Kind]; !known {
		return fmt.Errorf("%s: unknown kind of fault %q", do, f.Kind)
	}
	if f.Wait < 0 || do == Status && f.Status != 0 && (f.Status < 400 || f.Status > 599) {
		return fmt.Errorf("%s: negative wait, or a status that is no error", do)
	}
	switch f.Hint {
	case "", HintSeconds, HintDate, HintMillis, HintInfo, HintReset, HintResetsAt, HintProse:
		return nil
	}
	return fmt.Errorf("%s: unknown hint %q", do, f.Hint)
}

// ends reports whether the step leaves nothing to complete.
func (s *Step) ends() bool {
	switch s.Do {
	case Status, Object, Page, Stall, Failed, Error, Malformed, Cut, Reset, End, Done:
		return true
	case KeepAlive, Ping:
		return s.Times == 0
	}
	return false
}
