package failure

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Case is one provider failure as it was recorded: a line of testdata/cases.jsonl, and of the
// classify verb's input. Exactly one of Body, SSE and TransportError usually says what came;
// none of them is an answer without a body.
type Case struct {
	ID       string            `json:"id"`
	Provider string            `json:"provider"`
	Dialect  string            `json:"dialect"`
	Phase    Phase             `json:"phase"`
	Status   int               `json:"status"`
	Headers  map[string]string `json:"headers"`
	Body     *string           `json:"body"`
	SSE      []struct {
		Event string `json:"event"`
		Data  string `json:"data"`
	} `json:"sse"`
	TransportError string `json:"transport_error"`
	// Now is RFC 3339. Without it relative waits count from an origin of their own.
	Now string `json:"now"`
}

// Answer is what the classify verb writes for one case. Waits are whole milliseconds.
type Answer struct {
	ID              string `json:"id"`
	Class           Class  `json:"class"`
	Retryable       bool   `json:"retryable"`
	RetryAfterMS    *int64 `json:"retry_after_ms"`
	RetryAfterUntil string `json:"retry_after_until,omitempty"`
	Rule            string `json:"rule"`
	Message         string `json:"message"`
}

// ParseCase reads one line. The error says what is unusable about it.
func ParseCase(line []byte) (Case, error) {
	var c Case
	if err := json.Unmarshal(line, &c); err != nil {
		return c, fmt.Errorf("read case: %w", err)
	}
	if c.Now != "" {
		if _, err := time.Parse(time.RFC3339, c.Now); err != nil {
			return c, fmt.Errorf("read case %q: now: %w", c.ID, err)
		}
	}
	if c.Phase != "" && c.Phase != PhaseOpen && c.Phase != PhaseStream {
		return c, fmt.Errorf("read case %q: phase %q is neither open nor stream", c.ID, c.Phase)
	}
	if c.Status < 0 || c.Status > 999 {
		return c, fmt.Errorf("read case %q: status %d is none", c.ID, c.Status)
	}
	return c, nil
}

// facts are what the case knows, with an origin for relative waits where it has no now.
func (c *Case) facts() (Facts, http.Header) {
	f := Facts{Provider: c.Provider, Dialect: c.Dialect, Phase: c.Phase}
	h := make(http.Header, len(c.Headers))
	for k, v := range c.Headers {
		h.Set(k, v)
	}
	if f.Phase == "" {
		f.Phase = PhaseOpen
	}
	if t, err := time.Parse(time.RFC3339, c.Now); err == nil {
		f.Now = t
	} else if t, err := http.ParseTime(h.Get("Date")); err == nil {
		f.Now = t
	} else {
		f.Now, f.undated = time.Unix(0, 0).UTC(), true
	}
	return f, h
}

// Classify answers one case.
func (c *Case) Classify() (*Failure, Answer) {
	f, h := c.facts()
	var out *Failure
	switch {
	case c.SSE != nil:
		out = c.stream(f, h)
	case c.TransportError != "":
		out = fromTransportText(f, c.TransportError)
	default:
		body := ""
		if c.Body != nil {
			body = *c.Body
		}
		if f.Phase == PhaseStream && body == "" && c.Status == 0 {
			out = FromError(f, io.ErrUnexpectedEOF)
		} else {
			out = FromResponse(f, c.Status, h, []byte(body))
		}
	}
	a := Answer{ID: c.ID, Class: out.Class, Retryable: out.Retryable, Rule: out.Rule, Message: out.Message}
	if out.Hint != "" {
		far := f.undated && out.NotBefore.Sub(f.Now) > maxWait
		if !far {
			ms := out.NotBefore.Sub(f.Now).Milliseconds()
			a.RetryAfterMS = &ms
		}
		if !f.undated || far {
			a.RetryAfterUntil = out.NotBefore.Format(time.RFC3339)
		}
	}
	return out, a
}

// FromText classifies an error that a person copied from a terminal or a log, where status,
// headers and types are lost: as an answer's body, and where that says nothing, as the text of
// a transport's error. A whole HTTP answer, as curl -i prints it, has kept them.
func FromText(f Facts, text string) *Failure {
	if status, h, body, ok := pastedAnswer(text); ok {
		return FromResponse(f, status, h, []byte(body))
	}
	out := FromResponse(f, 0, nil, []byte(text))
	if out.Class != Unknown {
		return out
	}
	if t := fromTransportText(f, text); t.Rule != textUnknown {
		return t
	}
	return out
}

// pastedAnswer takes a whole HTTP answer apart: status line, headers, a blank line, body.
func pastedAnswer(text string) (status int, h http.Header, body string, ok bool) {
	head, body, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n")), "\n\n")
	first, rest, _ := strings.Cut(head, "\n")
	version, reason, _ := strings.Cut(first, " ")
	code, _, _ := strings.Cut(reason, " ")
	status, err := strconv.Atoi(code)
	if !strings.HasPrefix(version, "HTTP/") || err != nil || status < 100 || status > 999 {
		return 0, nil, "", false
	}
	h = make(http.Header)
	for line := range strings.Lines(rest) {
		k, v, ok := strings.Cut(line, ":")
		if !ok {
			return 0, nil, "", false
		}
		h.Add(strings.TrimSpace(k), strings.TrimSpace(v))
	}
	return status, h, body, true
}
