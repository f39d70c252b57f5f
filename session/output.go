package session

import (
	"encoding/json"
	"strconv"

	"github.com/reprise-run/reprise/llm"
)

// appendOutput appends an output event as encoding/json writes it. It is by far the most
// frequent event, and made once for each delta.
func appendOutput(b []byte, id ID, o *Output) (_ []byte, err error) {
	b = append(b, `{"type":"output","session_id":`...)
	b = appendString(b, string(id))
	b = append(b, `,"output":{"run_id":`...)
	b = appendString(b, string(o.RunID))
	b = append(b, `,"step":`...)
	b = strconv.AppendInt(b, int64(o.Step), 10)
	b = append(b, `,"attempt_id":`...)
	b = appendString(b, string(o.AttemptID))
	b = append(b, `,"generation":`...)
	b = strconv.AppendInt(b, o.Generation, 10)
	b = append(b, `,"seq":`...)
	b = strconv.AppendInt(b, o.Seq, 10)
	b = append(b, `,"events":[`...)
	for i := range o.Events {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendEvent(b, &o.Events[i]); err != nil {
			return nil, err
		}
	}
	return append(b, "]}}"...), nil
}

func appendEvent(b []byte, e *llm.Event) ([]byte, error) {
	if e.ID != "" || e.Name != "" || e.Stop != "" || e.Usage != nil {
		data, err := json.Marshal(e)
		return append(b, data...), err
	}
	b = append(b, `{"kind":`...)
	b = appendString(b, e.Kind.String())
	if e.Part != 0 {
		b = append(b, `,"part":`...)
		b = strconv.AppendInt(b, int64(e.Part), 10)
	}
	if e.Text != "" {
		b = append(b, `,"text":`...)
		b = appendString(b, e.Text)
	}
	return append(b, '}'), nil
}

// appendString appends a string: as it is where it is plain, and else as encoding/json makes it.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			data, _ := json.Marshal(s) // no string fails
			return append(b, data...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
