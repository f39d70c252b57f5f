package rehearsal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// signature is the proof that comes with every thought.
const signature = "cmVoZWFyc2Fs"

// left is the outcome of an answer whose client went before its end.
const left = "client left"

// play gives one answer, step by step.
type play struct {
	*stage
	ctx     context.Context // of the request: done when the client goes
	rc      *http.ResponseController
	pause   time.Duration
	due     time.Time // of the next delta
	open    *block
	headers bool // were sent
	started bool // the dialect's first frames were sent
	ended   bool
	outcome string
}

// perform plays the take. It panics with http.ErrAbortHandler where the take wants the
// connection gone.
func (p *play) perform(take Take) {
	for i := range take {
		if s := &take[i]; !p.ended || s.Do == Error || s.Do == Failed {
			p.step(s)
		}
		if !p.ended && p.gone() {
			break
		}
	}
	if !p.ended && !p.gone() {
		p.done("")
	}
	// A client that closes after the end has not left early.
	if p.err != nil || !p.ended {
		p.outcome = left
	}
}

// gone reports whether the client has left.
func (p *play) gone() bool { return p.err != nil || p.ctx.Err() != nil }

func (p *play) step(s *Step) {
	switch s.Do {
	case Wait:
		p.sleep(time.Duration(s.For))
	case Stall:
		<-p.ctx.Done()
	case Status:
		p.refuse(s.Fault, 0)
	case Object:
		p.refuse(s.Fault, http.StatusOK)
	case Page:
		p.page(s.Fault)
	case Headers:
		p.begin()
	case Start:
		p.start()
	case KeepAlive:
		p.begin()
		p.repeat(s, func() { p.comment("keep-alive") })
	case Ping:
		p.start()
		p.repeat(s, func() { p.d.ping(p.stage) })
	case Say:
		p.output(textBlock, s, explain)
	case Think:
		p.output(thinkingBlock, s, reflect)
	case Redacted:
		p.enter(redactedBlock, "")
		p.delta("cmVoZWFyc2VkIHRob3VnaHQ=")
	case Empty:
		p.shut()
		p.enter(textBlock, "")
	case Close:
		p.shut()
	case Call, HalfCall:
		p.tool(s)
	case Remote:
		p.enter(remoteBlock, "")
		p.delta(cmp.Or(s.Text, "rehearsal"))
		p.pace()
		p.shut()
	case Failed, Error:
		p.fail(s)
	case Malformed:
		p.malformed()
	case Cut:
		p.cut()
	case Reset:
		p.reset()
	case End:
		p.truncate()
	case Done:
		p.done(s.Stop)
	}
}

// begin sends the headers of a stream. An unstreamed answer keeps them for its end.
func (p *play) begin() {
	if p.headers || !p.stream() {
		return
	}
	p.headers = true
	h := p.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	p.w.WriteHeader(http.StatusOK)
	p.err = p.rc.Flush()
}

func (p *play) stream() bool { return p.call.stream }

func (p *play) start() {
	p.begin()
	if !p.started {
		p.started = true
		p.d.start(p.stage)
	}
}

// answer sends a whole body and ends the take.
func (p *play) answer(status int, contentType string, body []byte) {
	p.ended = true
	p.w.Header().Set("Content-Type", contentType)
	p.w.WriteHeader(status)
	_, p.err = p.w.Write(body)
}

// refuse answers with an error object. Once a stream has begun its status is spent, and the
// error is one of its events.
func (p *play) refuse(f *Fault, status int) {
	if p.headers {
		p.fail(&Step{Do: Error, Fault: f})
		return
	}
	own, body := p.d.refusal(f, p.call.requestID, time.Now())
	if status == 0 {
		status = own
	}
	for k, v := range p.d.header(f, time.Now()) {
		p.w.Header()[k] = v
	}
	p.outcome = fmt.Sprintf("status %d", status)
	p.answer(status, "application/json", body)
}

func (p *play) page(f *Fault) {
	status := http.StatusOK
	if f != nil && f.Status != 0 {
		status = f.Status
	}
	title := fmt.Sprintf("%d %s", status, http.StatusText(status))
	p.outcome = "page " + title
	p.answer(status, "text/html; charset=utf-8",
		fmt.Appendf(nil, "<html>\n<head><title>%[1]s</title></head>\n<body><h1>%[1]s</h1></body>\n</html>\n", title))
}

// enter makes the open block one of that kind. A call of a tool is always a block of its own.
func (p *play) enter(kind blockKind, name string) {
	if p.open != nil && p.open.kind == kind && kind < callBlock {
		return
	}
	p.shut()
	p.start()
	b := &block{kind: kind, index: len(p.blocks), name: name}
	for _, other := range p.blocks {
		if other.kind == kind {
			b.nth++
		}
	}
	b.id = fmt.Sprintf("%s_%d", p.id, b.index)
	if kind == callBlock {
		b.id = "call_" + b.id
	}
	p.blocks = append(p.blocks, b)
	p.open = b
	p.d.open(p.stage, b)
}

func (p *play) shut() {
	if p.open != nil {
		p.d.shut(p.stage, p.open)
		p.open = nil
	}
}

func (p *play) delta(text string) {
	p.open.text.WriteString(text)
	p.d.delta(p.stage, p.open, text)
}

// output streams a text, delta by delta.
func (p *play) output(kind blockKind, s *Step, author func(*play) string) {
	text := s.Text
	if text == "" {
		text = author(p)
	}
	pieces := deltas(text)
	n := s.Deltas
	if n == 0 {
		n = len(pieces)
	}
	p.enter(kind, "")
	for i := range n {
		p.pace()
		if p.gone() {
			return
		}
		p.delta(pieces[i%len(pieces)])
	}
}

func (p *play) tool(s *Step) {
	name, arguments := s.Name, s.Arguments
	if name == "" {
		name = "clock"
	}
	if arguments == "" {
		arguments = "{}"
	}
	p.enter(callBlock, name)
	middle := (len(arguments) + 1) / 2
	p.delta(arguments[:middle])
	p.pace()
	if s.Do == HalfCall {
		return
	}
	if middle < len(arguments) {
		p.delta(arguments[middle:])
	}
	p.shut()
}

func (p *play) fail(s *Step) {
	if !p.stream() {
		if !p.ended {
			p.refuse(s.Fault, 0)
		}
		return
	}
	p.begin()
	if s.Do == Failed {
		p.start()
	}
	p.d.broken(p.stage, s.Fault, s.Do == Failed)
	p.ended, p.outcome = true, "failed in the stream"
}

// half is JSON that breaks off.
const half = `{"choices":[{"delta":{"content":"broken`

func (p *play) malformed() {
	p.outcome = "malformed"
	if !p.stream() {
		p.answer(http.StatusOK, "application/json", []byte(half))
		return
	}
	p.begin()
	p.write([]byte("data: " + half + "\n\n"))
	p.ended = true
}

// cut closes the connection in the middle of a body, with a line of it unfinished.
func (p *play) cut() {
	p.outcome = "cut"
	p.begin()
	p.write([]byte("data: {\"cut"))
	panic(http.ErrAbortHandler)
}

// reset resets the connection where there is one to reset, else closes it.
func (p *play) reset() {
	p.ended, p.outcome = true, "reset"
	conn, _, err := p.rc.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		err = tcp.SetLinger(0)
	}
	if err := errors.Join(err, conn.Close()); err != nil {
		p.outcome = "reset: " + err.Error()
	}
}

// truncate ends the body cleanly before the answer is complete.
func (p *play) truncate() {
	p.ended, p.outcome = true, "ended early"
	if p.stream() {
		p.begin()
		return
	}
	p.answer(http.StatusOK, "application/json", []byte(half))
}

func (p *play) done(stop string) {
	p.start()
	p.shut()
	p.stop = stop
	p.outcome = "done"
	if p.stream() {
		p.d.done(p.stage)
		p.ended = true
		return
	}
	body := []byte(p.d.whole(p.stage))
	if p.call.array {
		body = bytes.Join([][]byte{[]byte("["), body, []byte("]")}, nil)
	}
	p.answer(http.StatusOK, "application/json", body)
}

func (p *play) repeat(s *Step, sign func()) {
	for i := 0; (s.Times == 0 || i < s.Times) && !p.gone(); i++ {
		sign()
		p.sleep(time.Duration(s.For))
	}
}

// pace waits until the next delta is due. What one wait takes too long is made up by the
// next, so the rate holds at any pause.
func (p *play) pace() {
	if p.pause == 0 {
		return
	}
	now := time.Now()
	if p.due.IsZero() || now.Sub(p.due) > time.Second {
		p.due = now
	}
	p.sleep(p.due.Sub(now))
	p.due = p.due.Add(p.pause)
}

func (p *play) sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.ctx.Done():
	}
}

// deltas splits a text as a model's tokens do, more or less: words with the space behind.
func deltas(text string) []string {
	var out []string
	for text != "" {
		n := strings.IndexAny(text, " \n")
		if n < 0 {
			n = len(text) - 1
		}
		for n+1 < len(text) && (text[n+1] == ' ' || text[n+1] == '\n') {
			n++
		}
		out, text = append(out, text[:n+1]), text[n+1:]
	}
	return out
}
