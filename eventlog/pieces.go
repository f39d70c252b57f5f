package eventlog

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/reprise-run/reprise/session"
)

// A record that exceeds what the cluster lets through in one message is stored in pieces. All but the last
// are marked and show nothing; the last names the sequences of those before it. So a record is there when its last piece
// is, readers keep nothing of what is not finished, and a writer that is fenced in the middle has
// shown nothing.
const (
	pieceHeader  = "Reprise-Piece"  // of a piece that is not the last
	piecesHeader = "Reprise-Pieces" // of the last: "<seq> <seq> …"
)

const (
	// maxPiece bounds a message, whatever the cluster lets through: a larger one holds up those behind it.
	maxPiece = 1 << 20
	// pieceHeaders is left free for a message's headers, which count.
	pieceHeaders = 2 << 10
	// minPiece is the least that a cluster must let through.
	minPiece = 64 << 10
)

// cut takes the first piece off a record. more: it is not the last.
func (j *journal) cut(data []byte) (piece, rest []byte, more bool) {
	if j.piece == 0 || len(data) <= j.piece {
		return data, nil, false
	}
	return data[:j.piece], data[j.piece:], true
}

// mark says in a message's header which piece of its record it is.
func mark(msg *nats.Msg, parts []uint64, more bool) {
	delete(msg.Header, pieceHeader)
	delete(msg.Header, piecesHeader)
	switch {
	case more:
		msg.Header[pieceHeader] = []string{strconv.Itoa(len(parts) + 1)}
	case len(parts) > 0:
		text := make([]byte, 0, 16*len(parts))
		for i, seq := range parts {
			if i > 0 {
				text = append(text, ' ')
			}
			text = strconv.AppendUint(text, seq, 10)
		}
		msg.Header[piecesHeader] = []string{string(text)}
	}
}

// whole puts the pieces before the one that is a record's last where they belong. A record of which the limits have
// dropped a piece is gone: it becomes one without a session, as a marker.
func (j *journal) whole(ctx context.Context, r session.Record, m *nats.Msg) (session.Record, error) {
	list := m.Header[piecesHeader]
	if list == nil || r.Session == "" {
		return r, nil
	}
	var data []byte
	for field := range strings.FieldsSeq(list[0]) {
		seq, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return r, fmt.Errorf("the pieces of record %d: %w", r.Seq, err)
		}
		piece, found, err := j.fetch(ctx, seq)
		if err != nil {
			return r, fmt.Errorf("read a piece of record %d: %w", r.Seq, err)
		}
		if !found {
			return session.Record{Seq: r.Seq}, nil
		}
		data = append(data, piece...)
	}
	r.Data = append(data, m.Data...)
	return r, nil
}

// fetch reads one message's data. A replica that is behind may not have it yet, so only the leader
// can say that it is gone.
func (j *journal) fetch(ctx context.Context, seq uint64) (data []byte, found bool, err error) {
	req, err := json.Marshal(msgQuery{Seq: seq})
	if err != nil {
		return nil, false, err
	}
	for pause := shortPause; ; pause = min(2*pause, longPause) {
		m, _, err := j.request(ctx, &nats.Msg{Subject: "$JS.API.DIRECT.GET." + j.names.stream, Data: req})
		if err != nil {
			return nil, false, err
		}
		switch status := m.Header.Get("Status"); status {
		case "":
			return m.Data, true, nil
		case "404":
			if _, found, err := j.get(ctx, msgQuery{Seq: seq}); err != nil || !found {
				return nil, false, err
			}
		default:
			return nil, false, fmt.Errorf("JetStream answers %s %s", status, m.Header.Get("Description"))
		}
		if err := j.pause(ctx, pause); err != nil {
			return nil, false, err
		}
	}
}
