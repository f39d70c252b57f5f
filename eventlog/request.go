package eventlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/reprise-run/reprise/session"
)

// JetStream's error codes that we branch on
// (https://github.com/nats-io/nats-server/blob/main/server/errors.json).
const (
	codeWrongLastSequence = 10071
	codeNoMessage         = 10037
)

// apiError is JetStream's refusal of a request.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%s (%d)", e.Description, e.ErrCode)
}

func isCode(err error, code int) bool {
	var e *apiError
	return errors.As(err, &e) && e.ErrCode == code
}

// A line carries one request at a time to its reply. Its inbox is never used again after a
// request that was given up, so a late reply cannot answer another request.
type line struct {
	inbox string
	reply chan *nats.Msg
	sub   *nats.Subscription
	timer *time.Timer
}

func (j *journal) takeLine(ctx context.Context) (*line, error) {
	j.mu.Lock()
	if n := len(j.idle); n > 0 {
		ln := j.idle[n-1]
		j.idle = j.idle[:n-1]
		j.mu.Unlock()
		return ln, nil
	}
	j.mu.Unlock()
	ln := &line{inbox: j.nc.NewInbox(), reply: make(chan *nats.Msg, 1), timer: time.NewTimer(time.Hour)}
	var err error
	if ln.sub, err = j.nc.ChanSubscribe(ln.inbox, ln.reply); err != nil {
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

// request sends one message and returns the reply; it repeats the message while there is none. After
// an error, unknown says whether the message may have taken effect all the same. The caller has entered.
func (j *journal) request(ctx context.Context, msg *nats.Msg) (reply *nats.Msg, unknown bool, err error) {
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	for timeout := j.ackTimeout; ; timeout = min(2*timeout, maxAckTimeout) {
		ln, err := j.takeLine(ctx)
		if err != nil {
			return nil, unknown, err
		}
		msg.Reply = ln.inbox
		if err := j.nc.PublishMsg(msg); err != nil {
			ln.abandon()
			return nil, unknown, cause(ctx, err)
		}
		ln.timer.Reset(timeout)
		select {
		case m := <-ln.reply:
			j.keepLine(ln)
			return m, unknown, nil
		case <-ctx.Done():
			ln.abandon()
			return nil, true, context.Cause(ctx)
		case <-ln.timer.C:
			ln.abandon()
			unknown = true
			select {
			case <-j.stopping:
				return nil, true, session.ErrClosed
			default:
			}
		}
	}
}

// publish appends one message to the stream and returns its sequence; otherwise as request.
func (j *journal) publish(ctx context.Context, msg *nats.Msg) (seq uint64, unknown bool, err error) {
	m, unknown, err := j.request(ctx, msg)
	if err != nil {
		return 0, unknown, err
	}
	seq, fresh, err := parseAck(m)
	if fresh {
		j.share(seq, msg)
	}
	return seq, unknown, err
}

// parseAck reads {"stream":"reprise","seq":7} without the cost of a JSON decoder, and
// everything else with one. fresh is false where the stream had the message already, perhaps
// with other data.
func parseAck(m *nats.Msg) (seq uint64, fresh bool, err error) {
	if rest, ok := bytes.CutPrefix(m.Data, []byte(`{"stream":"`+streamName+`","seq":`)); ok {
		digits, plain := bytes.CutSuffix(rest, []byte("}"))
		if seq, err := strconv.ParseUint(string(digits), 10, 64); plain && err == nil {
			return seq, true, nil
		}
	}
	var ack struct {
		Error     *apiError `json:"error"`
		Seq       uint64    `json:"seq"`
		Duplicate bool      `json:"duplicate"`
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

// lastSeq asks for the sequence of the stream's last message, which may be gone.
func (j *journal) lastSeq(ctx context.Context) (uint64, error) {
	reply, _, err := j.request(ctx, &nats.Msg{Subject: "$JS.API.STREAM.INFO." + streamName})
	if err != nil {
		return 0, err
	}
	var info struct {
		Error *apiError `json:"error"`
		State struct {
			LastSeq uint64 `json:"last_seq"`
		} `json:"state"`
	}
	if err := decode(reply, &info); err != nil {
		return 0, err
	}
	if info.Error != nil {
		return 0, info.Error
	}
	return info.State.LastSeq, nil
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
	reply, _, err := j.request(ctx, &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + streamName, Data: req})
	if err != nil {
		return m, false, err
	}
	var resp struct {
		Error   *apiError `json:"error"`
		Message stored    `json:"message"`
	}
	if err := decode(reply, &resp); err != nil {
		return m, false, err
	}
	if resp.Error != nil {
		if resp.Error.ErrCode == codeNoMessage {
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

// maxAckTimeout ends the doubling of the time to wait, by which a slow log is not made slower.
const maxAckTimeout = 30 * time.Second

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
