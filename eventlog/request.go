package eventlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/reprise-run/reprise/session"
)

// JetStream's error codes that we branch on
// (https://github.com/nats-io/nats-server/blob/main/server/errors.json).
const (
	codeNotLeader       = 10009
	codeNoMessage       = 10037
	codeNoStream        = 10059
	codeStoreFailed     = 10077
	codeWrongLast       = 10071
	codeBeingDuplicated = 10158 // a message of that id is on its way into the stream
	codeWrongLastNow    = 10164 // another message of the subject is
)

func isCode(err error, codes ...jetstream.ErrorCode) bool {
	var e *jetstream.APIError
	return errors.As(err, &e) && slices.Contains(codes, e.ErrorCode)
}

// away reports whether an error says that the log cannot be reached, or does not answer, and may again.
func away(err error) bool {
	var e *jetstream.APIError
	if errors.As(err, &e) {
		return e.Code == 503 && !isThere(err) || isCode(err, codeNotLeader, codeBeingDuplicated)
	}
	for _, target := range []error{
		session.ErrUnavailable, errSilent, nats.ErrNoResponders, nats.ErrReconnectBufExceeded, nats.ErrTimeout, nats.ErrDisconnected,
		nats.ErrConnectionReconnecting, nats.ErrStaleConnection, nats.ErrNoServers, jetstream.ErrNoStreamResponse, context.DeadlineExceeded,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// A line carries one request at a time to its reply. It is never used again after a request that was given up, which may be
// answered late. In a cluster one may even be answered twice, where a server that was paused takes itself for the leader still, so there
// each has a subject of its own below the inbox; that costs the server a look at its table of subscriptions, which a server
// alone is spared.
type line struct {
	inbox string // ends with a dot
	n     uint64 // of replies' subjects
	to    string // the last of them
	reply chan *nats.Msg
	sub   *nats.Subscription
	timer *time.Timer
	link  chan struct{} // the journal's, when the line was taken
}

func (j *journal) takeLine(ctx context.Context) (*line, error) {
	j.mu.Lock()
	if n := len(j.idle); n > 0 {
		ln := j.idle[n-1]
		j.idle, ln.link = j.idle[:n-1], j.link
		j.mu.Unlock()
		return ln, nil
	}
	ln := &line{reply: make(chan *nats.Msg, 8), timer: time.NewTimer(time.Hour), link: j.link}
	j.mu.Unlock()
	ln.inbox = j.nc.NewInbox() + "."
	var err error
	if ln.sub, err = j.nc.ChanSubscribe(ln.inbox+"*", ln.reply); err != nil {
		return nil, cause(ctx, err)
	}
	return ln, nil
}

func (j *journal) keepLine(ln *line) {
	ln.timer.Stop()
	j.mu.Lock()
	j.idle = append(j.idle, ln)
	j.mu.Unlock()
}

func (ln *line) abandon() {
	ln.timer.Stop()
	// It fails only where the connection is closed, which ends the subscription too.
	_ = ln.sub.Unsubscribe()
}

// request sends one message and returns the reply; it repeats the message while there is none, or where the log
// is shared, one that asks for patience. After an error, unknown says whether the message may have taken effect
// all the same. The caller has entered.
func (j *journal) request(ctx context.Context, msg *nats.Msg) (reply *nats.Msg, unknown bool, err error) {
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	var began time.Time
	pause := shortPause
	for timeout := j.ackTimeout; ; {
		m, sent, err := j.try(ctx, msg, timeout)
		if err == nil {
			if err = refusal(m); err == nil || j.alone || !away(err) {
				return m, unknown, nil
			}
		}
		unknown = unknown || sent
		if err != errSilent && (j.alone || !away(err)) {
			return nil, unknown, err
		}
		if began.IsZero() {
			began = time.Now()
		}
		if j.patience > 0 && time.Since(began) > j.patience {
			return nil, unknown, fmt.Errorf("%w: the event log: %w", session.ErrUnavailable, err)
		}
		if err == errSilent {
			timeout = min(2*timeout, j.slowest())
		} else if err := j.pause(ctx, pause); err != nil {
			return nil, unknown, err
		} else {
			pause = min(2*pause, longPause)
		}
		select {
		case <-j.stopping:
			return nil, unknown, session.ErrClosed
		default:
		}
	}
}

// errSilent: nothing has answered in time.
var errSilent = errors.New("the log does not answer")

// How long to wait after a refusal that will pass; it doubles.
const (
	shortPause = 25 * time.Millisecond
	longPause  = 400 * time.Millisecond
)

// pause waits. It ends early, with an error, where ctx is done or the journal closes.
func (j *journal) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-j.stopping:
		return session.ErrClosed
	}
}

// try sends a message once. sent: it may have arrived.
func (j *journal) try(ctx context.Context, msg *nats.Msg, timeout time.Duration) (reply *nats.Msg, sent bool, err error) {
	ln, err := j.takeLine(ctx)
	if err != nil {
		return nil, false, err
	}
	if !j.alone || ln.n == 0 {
		for len(ln.reply) > 0 {
			<-ln.reply // late, and in the way
		}
		ln.n++
		ln.to = ln.inbox + strconv.FormatUint(ln.n, 10)
	}
	msg.Reply = ln.to
	if err := j.nc.PublishMsg(msg); err != nil {
		ln.abandon()
		return nil, false, cause(ctx, err)
	}
	ln.timer.Reset(timeout)
	for {
		select {
		case m := <-ln.reply:
			if m.Subject != msg.Reply {
				continue
			}
			j.keepLine(ln)
			return m, true, nil
		case <-ctx.Done():
			ln.abandon()
			return nil, true, context.Cause(ctx)
		case <-ln.timer.C:
		case <-ln.link: // the reply went to a connection that is gone
		}
		ln.abandon()
		return nil, true, errSilent
	}
}

// relink tells those who wait for a reply that the connection is another one.
func (j *journal) relink() {
	j.mu.Lock()
	defer j.mu.Unlock()
	close(j.link)
	j.link = make(chan struct{})
}

// refusal is the error that a reply carries, if it does.
func refusal(m *nats.Msg) error {
	switch {
	case len(m.Data) == 0 && m.Header.Get("Status") == noResponders:
		return nats.ErrNoResponders
	case m.Header["Nats-Sequence"] != nil, !bytes.Contains(m.Data, []byte(`"error":{"code":`)):
		return nil // a message of the stream may say anything
	}
	var body struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := decode(m, &body); err != nil || body.Error == nil {
		return err
	}
	return body.Error
}

// publish appends one message to the stream and returns its sequence; otherwise as request.
func (j *journal) publish(ctx context.Context, msg *nats.Msg) (seq uint64, unknown bool, err error) {
	m, unknown, err := j.request(ctx, msg)
	if err != nil {
		return 0, unknown, err
	}
	seq, fresh, err := j.names.parseAck(m)
	if fresh && msg.Header[piecesHeader] == nil {
		j.share(seq, msg)
	}
	return seq, unknown, err
}

// parseAck reads {"stream":"reprise","seq":7} without the cost of a JSON decoder, and
// everything else with one. fresh is false where the stream had the message already, perhaps
// with other data.
func (n names) parseAck(m *nats.Msg) (seq uint64, fresh bool, err error) {
	if rest, ok := bytes.CutPrefix(m.Data, n.ack); ok {
		digits, plain := bytes.CutSuffix(rest, []byte("}"))
		if seq, err := strconv.ParseUint(string(digits), 10, 64); plain && err == nil {
			return seq, true, nil
		}
	}
	var ack struct {
		Error     *jetstream.APIError `json:"error"`
		Seq       uint64              `json:"seq"`
		Duplicate bool                `json:"duplicate"`
	}
	if err := decode(m, &ack); err != nil {
		return 0, false, err
	}
	if ack.Error != nil {
		return 0, false, ack.Error
	}
	if ack.Seq == 0 {
		return 0, false, fmt.Errorf("an acknowledgement without a sequence: %q", m.Data)
	}
	return ack.Seq, !ack.Duplicate, nil
}

// standing is how a stream stands.
type standing struct {
	Created time.Time
	Config  struct{ Metadata map[string]string }
	State   struct {
		LastSeq uint64 `json:"last_seq"` // of a message that may be gone
	}
	Cluster *struct {
		Leader   string
		Replicas []struct {
			Offline bool
			Active  time.Duration // since it was last heard of
		}
	}
}

// standing asks how the stream stands.
func (j *journal) standing(ctx context.Context) (st standing, err error) {
	reply, _, err := j.request(ctx, &nats.Msg{Subject: "$JS.API.STREAM.INFO." + j.names.stream})
	if err != nil {
		return st, err
	}
	if err := refusal(reply); err != nil {
		return st, err
	}
	return st, decode(reply, &st)
}

// stored is a message in the stream, without its data.
type stored struct {
	Seq    uint64 `json:"seq"`
	Header []byte `json:"hdrs"`
}

// get reads one message through the API that only the stream's leader answers: a direct get may be answered
// by a replica that is behind. ok is false where there is none.
func (j *journal) get(ctx context.Context, query msgQuery) (m stored, ok bool, err error) {
	req, err := json.Marshal(query)
	if err != nil {
		return m, false, err
	}
	reply, _, err := j.request(ctx, &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + j.names.stream, Data: req})
	if err != nil {
		return m, false, err
	}
	var resp struct {
		Error   *jetstream.APIError `json:"error"`
		Message stored              `json:"message"`
	}
	if err := decode(reply, &resp); err != nil {
		return m, false, err
	}
	if resp.Error != nil {
		if resp.Error.ErrorCode == codeNoMessage {
			return m, false, nil
		}
		return m, false, resp.Error
	}
	return resp.Message, true, nil
}

// msgQuery is the body of a get: the last message of a subject, or the next from a sequence on.
type msgQuery struct {
	Last     string `json:"last_by_subj,omitempty"`
	Next     string `json:"next_by_subj,omitempty"`
	Seq      uint64 `json:"seq,omitempty"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// decode reads a JSON reply, or the status that the server sends where nobody answers.
func decode(m *nats.Msg, v any) error {
	if len(m.Data) == 0 && m.Header.Get("Status") == noResponders {
		return nats.ErrNoResponders
	}
	if err := json.Unmarshal(m.Data, v); err != nil {
		return fmt.Errorf("read JetStream's reply: %w", err)
	}
	return nil
}

const noResponders = "503"

// slowest ends the doubling of the time to wait, by which a slow log is not made slower. In a cluster what did not answer
// has a successor soon.
func (j *journal) slowest() time.Duration {
	if j.alone {
		return 30 * time.Second
	}
	return 4 * time.Second
}

// cause puts an error of the client library into our words: why the context is done, and that the
// connection ends only by Close.
func cause(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, nats.ErrConnectionClosed):
		return session.ErrClosed
	}
	return err
}
