package gateway

import (
	"net/http"
	"time"
)

// writeTime is how long a client may take to read one piece of an answer.
const writeTime = 2 * time.Minute

// patience bounds the time of each write, so that a client that does not read any more does not
// hold its provider's stream for ever. net/http takes the deadline back with the request's end.
type patience struct {
	http.ResponseWriter
	until time.Time
}

// Write implements http.ResponseWriter. Its deadline is half to the whole of writeTime away.
func (p *patience) Write(b []byte) (int, error) {
	if now := time.Now(); p.until.Sub(now) < writeTime/2 {
		p.until = now.Add(writeTime)
		// Its error means that there is no connection any more, or none at all: the write says so.
		_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(p.until)
	}
	return p.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (p *patience) Unwrap() http.ResponseWriter { return p.ResponseWriter }
