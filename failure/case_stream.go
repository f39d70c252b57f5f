package failure

import (
	"io"
	"net/http"
	"strings"
)

// recorded is what the frames of a recorded stream add up to. It reads just enough of each
// dialect to tell how the stream ended; codecs read the rest.
type recorded struct {
	text    strings.Builder
	content bool   // something an observer would count as output
	finish  string // why the model stopped: the answer is complete, whatever frames are missing
	failed  string // the frame that reports an error
	event   string // and its name
}

// stream classifies recorded frames: an error that one of them reports, a stop reason that is
// a failure, a missing end, an answer of nothing, or an error told as if it were the answer.
func (c *Case) stream(f Facts, h http.Header) *Failure {
	f.Phase = PhaseStream
	var r recorded
	for _, frame := range c.SSE {
		r.add(frame.Event, frame.Data)
	}
	if r.failed != "" {
		if strings.HasSuffix(r.event, "Exception") && h.Get("X-Amzn-Errortype") == "" {
			h.Set("X-Amzn-Errortype", r.event) // an AWS event's name is its error's type
		}
		return fromStream(f, h, []byte(r.failed))
	}
	if row := lookup(r.finish, "google", PhaseStream); row != nil && r.finish != "" {
		return fromStream(f, h, []byte(`{"choices":[{"finish_reason":"`+r.finish+`"}]}`))
	}
	switch {
	case r.finish == "":
		return FromError(f, io.ErrUnexpectedEOF)
	case !r.content:
		out := f.fail()
		out.set(ServerError, ruleEmpty, "an answer of nothing")
		out.Message = "The model answered nothing."
		return out
	}
	return fromStream(f, h, []byte(r.text.String()))
}

func (r *recorded) add(event, data string) {
	n, _ := parse(data)
	kind := n.str("type")
	if kind == "" {
		kind = event
	}
	resp := n.get("response")
	if e := n.get("error"); e != nil && e.kind != kindNull || kind == "error" || kind == "response.failed" ||
		resp.str("status") == "failed" || strings.HasSuffix(kind, "Exception") || n.str("object") == "error" || minimaxFailed(n.get("base_resp")) {
		r.failed, r.event = data, event
	}
	switch kind {
	case "response.completed":
		r.stop("completed")
		r.content = r.content || len(resp.get("output").list()) > 0
	case "response.incomplete":
		r.stop(resp.get("incomplete_details").str("reason"))
	}
	delta := n.get("delta")
	r.say(delta.str("text"), delta.str("thinking"), delta.str("partial_json"))
	if delta != nil && delta.kind == kindText {
		r.say(delta.text)
	}
	r.stop(delta.str("stop_reason"))
	for _, choice := range n.get("choices").list() {
		d := choice.get("delta")
		r.say(d.str("content"), d.str("reasoning_content"), d.str("reasoning"), choice.str("text"))
		r.content = r.content || len(d.get("tool_calls").list()) > 0
		r.stop(choice.str("finish_reason"))
	}
	for _, cand := range n.get("candidates").list() {
		for _, p := range cand.get("content").get("parts").list() {
			r.say(p.str("text"))
			r.content = r.content || p.get("functionCall") != nil
		}
		r.stop(cand.str("finishReason"))
	}
	r.stop(n.get("promptFeedback").str("blockReason"))
	if n.str("done") == "true" {
		r.stop("stop")
	}
	r.say(n.get("message").str("content"))
}

func (r *recorded) say(texts ...string) {
	for _, t := range texts {
		r.text.WriteString(t)
		r.content = r.content || t != ""
	}
}

func (r *recorded) stop(reason string) {
	if reason != "" {
		r.finish = reason
	}
}

// minimaxFailed reports whether the status that MiniMax puts beside everything is a failure's.
func minimaxFailed(base *node) bool {
	code := base.str("status_code")
	return code != "" && code != "0"
}
