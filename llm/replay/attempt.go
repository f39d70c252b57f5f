package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/reprise-run/reprise/llm"
)

// batch is how many events that have come together are published together.
const batch = 32

// Terms says how a transaction treats what it has not published yet. The zero value holds
// until there is content, keeps no wire bytes and reports no progress.
type Terms struct {
	Hold Hold
	// Raw keeps each event's wire bytes. Where deltas are merged, theirs are joined by the
	// blank line that stood between the frames. A frame is published whole or not at all; one
	// that says why the answer is about to end is held until more content follows or the
	// terminal event comes, so that a broken stream never looks whole. The output that is
	// returned has no parts then: they are in the bytes.
	Raw bool
	// Progress is told, while something is held, how many characters are, and whether a tool
	// call is among them. It is called by the goroutine of Run and must not block.
	Progress func(characters int, call bool)
	// Begun is called once, when the provider has begun to answer. Its error ends the attempt.
	Begun func() error
}

// Attempt is one try at a step's model call: a transaction that stages the provider's events
// and publishes them to a Sink. It is used by one goroutine.
type Attempt struct {
	ctx    context.Context
	cancel context.CancelFunc
	scope  llm.Scope
	ledger Ledger
	id     string
	remote bool

	stream  llm.Stream
	openErr error

	// mu guards what follows, while the stream is waited for and a hold's time may end.
	mu        sync.Mutex
	over      bool  // Run has returned
	lost      error // why what was due could not be published
	sink      Sink
	terms     Terms
	staged    stage
	frame     []llm.Event // with Raw: the events of a frame that has not come to its end
	content   int         // bytes of text and thinking staged
	chars     int         // characters staged
	received  int64       // bytes of output that came
	firstPart int         // the part of the first content; -1: none yet
	flowing   bool
	calls     bool // a part of a tool call was seen: the rest is held to the end
	closing   bool // with Raw: the last frame says why the answer is about to end

	marks     Reasons // as the ledger has them, and what was published since
	published Counts
	out       llm.Output // what was published
	heard     llm.Output // ids and usage, published or not
	shown     bool       // something observable was published, or may have been
	ended     bool       // the terminal event was published: nothing follows
	discarded bool
}

func newAttempt(ctx context.Context, g *Gate, id string, remote bool) *Attempt {
	a := &Attempt{scope: g.scope, ledger: g.ledger, id: id, remote: remote, firstPart: -1}
	a.ctx, a.cancel = context.WithCancel(ctx)
	return a
}

// ID returns the attempt's id in the ledger.
func (a *Attempt) ID() string { return a.id }

// Broken is an attempt that did not come to its terminal event.
type Broken struct {
	// Err is the provider's failure, the context's cause, the sink's or the ledger's error,
	// or ErrOverflow.
	Err error
	// Evidence is what the ledger says about the attempt after its seal.
	Evidence Evidence
	// Held is the right to discard the attempt. It is nil once something was published, or
	// may have been.
	Held *Held

	a *Attempt
}

// Held is an attempt of which nothing was published.
type Held struct{ a *Attempt }

// Discard drops the attempt without a trace for observers.
func (h *Held) Discard() {
	h.a.staged.drop()
	h.a.discarded = true
}

// Keep publishes the text and thinking that was held, once, marked as interrupted for the
// given reason, and returns all that was published. Of a held tool call it tells only that
// there was one. Where nothing was held, nothing is published and nothing marked.
func (b *Broken) Keep(reason string) (llm.Output, error) {
	a := b.a
	a.staged.settle()
	kept := a.staged.events[:0]
	call := -1
	for _, e := range a.staged.events {
		switch e.Observability() {
		case llm.ToolCall:
			if e.Part == call {
				continue
			}
			call = e.Part
			e = llm.Event{Kind: llm.EventCallCut, Part: e.Part}
		case llm.Terminal, llm.Failing:
			continue
		}
		kept = append(kept, e)
	}
	a.staged.events = kept
	if !a.shown && effects(kept) == 0 {
		a.staged.drop()
		return a.out, nil
	}
	return b.finish(reason)
}

// Cut drops what was held. What was shown before is marked as interrupted for the given
// reason, and returned.
func (b *Broken) Cut(reason string) (llm.Output, error) {
	b.a.staged.drop()
	if !b.a.shown {
		return b.a.out, nil
	}
	return b.finish(reason)
}

func (b *Broken) finish(reason string) (llm.Output, error) {
	a := b.a
	ctx, cancel := a.afterwards()
	defer cancel()
	if a.ended {
		return a.out, nil // the terminal event is out: what is missing is only its seal
	}
	a.staged.events = append(a.staged.events, llm.Event{Kind: llm.EventInterrupted, Text: reason})
	if err := a.publish(ctx); err != nil {
		return a.out, err
	}
	return a.out, a.seal(ctx, Seal{Delivery: b.Evidence.Delivery})
}

// Run reads the attempt's stream to its end and publishes what the terms allow. It returns
// all that was published, or how the attempt broke; either way the attempt is sealed. It
// returns at once when the context given to Gate.Open is done. It may be called once.
func (a *Attempt) Run(sink Sink, t Terms) (llm.Output, *Broken) {
	defer a.cancel()
	a.sink, a.terms = sink, t
	a.staged.raw = t.Raw
	if a.openErr != nil {
		return a.broken(a.openErr)
	}
	defer a.stream.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	var due *time.Timer
	defer func() {
		a.over = true
		if due != nil {
			due.Stop()
		}
	}()
	for {
		for n := 0; n == 0 || n < batch && a.stream.Ready(); n++ {
			e, err := a.next()
			if err != nil {
				return a.failed(err)
			}
			if t.Begun != nil {
				if err := t.Begun(); err != nil {
					return a.broken(fmt.Errorf("%w: %w", ErrOurs, err))
				}
				t.Begun = nil
			}
			if e.Kind == llm.EventDone {
				return a.done(&e)
			}
			if err := a.take(&e); err != nil {
				return a.broken(err)
			}
		}
		if t.Hold.Mode == HoldFor && due == nil && a.firstPart >= 0 {
			due = time.AfterFunc(t.Hold.For, a.flow)
		}
		if err := a.flush(); err != nil {
			return a.broken(err)
		}
	}
}

// next waits for the stream's next event. Meanwhile what is held may become due.
func (a *Attempt) next() (llm.Event, error) {
	a.mu.Unlock()
	e, err := a.stream.Next()
	a.mu.Lock()
	return e, cmp.Or(a.lost, err)
}

// flow ends a hold whose time is over.
func (a *Attempt) flow() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	a.flowing = true
	if err := a.flush(); err != nil {
		a.lost = err
		a.cancel() // the stream's next event is not waited for
	}
}

// failed ends an attempt whose stream broke. What came before the failure and is held by
// nothing is published first, so that the outcome does not depend on how the bytes arrived.
func (a *Attempt) failed(err error) (llm.Output, *Broken) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // no terminal event came before it
	}
	if a.lost != nil {
		return a.broken(a.lost)
	}
	if ferr := a.flush(); ferr != nil {
		err = ferr
	} else if a.ctx.Err() != nil { // whatever the stream makes of it
		err = context.Cause(a.ctx)
	}
	return a.broken(err)
}

// done ends an attempt whose terminal event came: what is staged, tool calls included, is
// published with it.
func (a *Attempt) done(e *llm.Event) (llm.Output, *Broken) {
	a.heard.Add(e)
	err := a.whole()
	if err == nil {
		err = a.staged.add(e)
	}
	if err != nil {
		return a.broken(err)
	}
	if a.ctx.Err() != nil {
		return a.broken(context.Cause(a.ctx))
	}
	// A cancel from now on comes after the reply: cut off here, the end might be out or not.
	ctx, cancel := a.afterwards()
	defer cancel()
	if err := a.publish(ctx); err != nil {
		return a.broken(err)
	}
	a.ended = true
	if err := a.seal(ctx, Seal{OK: true}); err != nil {
		return a.broken(err)
	}
	return a.out, nil
}

// broken seals the attempt and reads back what the ledger makes of it. Without an answer of
// the ledger the evidence is missing, and so not safe.
func (a *Attempt) broken(err error) (llm.Output, *Broken) {
	ctx, cancel := a.afterwards()
	defer cancel()
	b := &Broken{Err: err, a: a}
	var d llm.Delivered
	s := Seal{}
	if errors.As(err, &d) {
		s.Delivery = d.Delivery()
	}
	lerr := a.seal(ctx, s)
	if lerr == nil {
		b.Evidence, lerr = a.ledger.Evidence(ctx, a.scope, a.id)
	}
	if lerr != nil {
		b.Evidence = Evidence{}
		b.Err = errors.Join(err, lerr)
	}
	if !a.shown {
		b.Held = &Held{a}
	}
	return a.out, b
}

// afterwards is the context of what must be written down even when the attempt was
// cancelled.
func (a *Attempt) afterwards() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(a.ctx), 10*time.Second)
}

// take takes in one event, and stages it as soon as its frame is whole where that counts.
func (a *Attempt) take(e *llm.Event) error {
	if !a.terms.Raw {
		return a.stage(e)
	}
	a.frame = append(a.frame, *e)
	if e.More {
		return nil
	}
	return a.whole()
}

// whole stages the frame that has come. What holds one of its events holds all of them.
func (a *Attempt) whole() error {
	call, stop, content := false, false, false
	for i := range a.frame {
		e := &a.frame[i]
		kind := e.Observability()
		call = call || kind == llm.ToolCall
		stop = stop || e.Kind == llm.EventPing && e.Stop != ""
		content = content || kind != llm.Preamble
	}
	if content {
		a.closing = false
	}
	if call && !a.calls || stop {
		if err := a.flush(); err != nil {
			return err
		}
		a.calls, a.closing = a.calls || call, a.closing || stop
	}
	for i := range a.frame {
		if err := a.stage(&a.frame[i]); err != nil {
			return err
		}
	}
	clear(a.frame)
	a.frame = a.frame[:0]
	return nil
}

// stage takes one event in and decides what it means for the hold.
func (a *Attempt) stage(e *llm.Event) error {
	kind := e.Observability()
	if e.Kind == llm.EventPing && !a.terms.Raw {
		return nil
	}
	if kind == llm.Effect && a.marks&ProviderTool == 0 {
		// It has happened whatever we show of it, so it counts although it is provisional.
		if err := a.mark(a.ctx, ProviderTool); err != nil {
			return err
		}
	}
	if kind != llm.Preamble {
		a.received += int64(len(e.Text) + len(e.Name))
	}
	if kind == llm.ToolCall && !a.calls {
		if err := a.flush(); err != nil {
			return err
		}
		a.calls = true
	}
	if err := a.staged.add(e); err != nil {
		return err
	}
	if e.Kind == llm.EventStart || e.Kind == llm.EventUsage {
		a.heard.Add(e)
	}
	if !a.flowing || a.calls {
		a.hold(e, kind)
	}
	return nil
}

// hold counts what is held, and opens the flow where the policy is satisfied.
func (a *Attempt) hold(e *llm.Event, kind llm.Observability) {
	if e.Kind == llm.EventText || e.Kind == llm.EventThinking || e.Kind == llm.EventCallDelta {
		a.content += len(e.Text)
		a.chars += utf8.RuneCountInString(e.Text)
	}
	if kind == llm.Content || kind == llm.Effect {
		if a.firstPart < 0 {
			a.firstPart = e.Part
		}
	}
	first := a.firstPart >= 0
	switch a.terms.Hold.Mode {
	case HoldFirstContent:
		a.flowing = first
	case HoldBytes:
		a.flowing = a.flowing || first && a.content >= a.terms.Hold.Bytes
	case HoldFirstBlock:
		a.flowing = a.flowing || first && (e.Part > a.firstPart || e.Kind == llm.EventPartEnd)
	}
	if a.terms.Progress != nil && (!a.flowing || a.calls) {
		a.terms.Progress(a.chars, a.calls)
	}
}

// flush publishes what is staged, where nothing holds it.
func (a *Attempt) flush() error {
	if !a.flowing || a.calls || a.closing || len(a.staged.events) == 0 {
		return nil
	}
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	return a.publish(a.ctx)
}

// publish marks, then appends. It is the only place from which an event reaches a sink. What
// was marked counts as shown even when the sink fails: it may have been.
func (a *Attempt) publish(ctx context.Context) error {
	a.staged.settle()
	seen := effects(a.staged.events)
	if seen != 0 {
		if a.marks == 0 {
			if err := a.mark(ctx, seen); err != nil {
				return err
			}
		}
		a.marks |= seen
		a.shown = true
	}
	for i := range a.staged.events {
		e := &a.staged.events[i]
		if !a.terms.Raw || e.Observability() != llm.Content && e.Observability() != llm.ToolCall {
			a.out.Add(e)
		}
		a.published.add(e)
	}
	err := a.sink.Append(ctx, a.staged.events)
	a.staged.drop()
	if err != nil {
		return fmt.Errorf("%w: publish: %w", ErrOurs, err)
	}
	return nil
}

func (a *Attempt) mark(ctx context.Context, effects Reasons) error {
	if err := a.ledger.Mark(ctx, a.scope, a.id, effects); err != nil {
		return fmt.Errorf("%w: mark the attempt: %w", ErrOurs, err)
	}
	a.marks |= effects
	return nil
}

func (a *Attempt) seal(ctx context.Context, s Seal) error {
	s.Marks, s.Published = a.marks, a.published
	s.Usage, s.Model, s.ID = a.heard.Usage, a.heard.Model, a.heard.ID
	s.Received = a.received
	if err := a.ledger.Seal(ctx, a.scope, a.id, s); err != nil {
		return fmt.Errorf("%w: seal the attempt: %w", ErrOurs, err)
	}
	return nil
}

// effects unites what the events would show to an observer.
func effects(events []llm.Event) (r Reasons) {
	for i := range events {
		switch e := &events[i]; e.Observability() {
		case llm.Content:
			switch e.Kind {
			case llm.EventText:
				r |= TextShown
			case llm.EventThinking, llm.EventRedacted:
				r |= ThinkingShown
			default:
				r |= ContentShown
			}
		case llm.ToolCall:
			r |= CallShown
		case llm.Effect:
			r |= ProviderTool
		}
	}
	return r
}

func (c *Counts) add(e *llm.Event) {
	switch e.Kind {
	case llm.EventText:
		c.Text += int64(utf8.RuneCountInString(e.Text))
	case llm.EventThinking, llm.EventRedacted:
		c.Thinking += int64(utf8.RuneCountInString(e.Text))
	case llm.EventCallStart, llm.EventCallCut:
		c.Calls++
	default:
		if k := e.Observability(); k == llm.Content || k == llm.Effect {
			c.Other++
		}
	}
}
