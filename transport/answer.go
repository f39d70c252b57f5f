package transport

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// answer serves the exchange and returns its answer as soon as there is a status.
func answer(r *http.Request, x *Exchange) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	reader, writer := io.Pipe()
	w := &responder{header: http.Header{}, body: writer, begun: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel()
		res := x.Serve(ctx, w)
		if err := res.Stopped; err != nil && res.Status == http.StatusOK {
			writer.CloseWithError(err)
		} else {
			writer.Close() // always nil
		}
	}()
	<-w.begun // whole, refused or broken, an exchange has a status
	if r.Context().Err() != nil {
		reader.Close() // always nil
		<-ended
		return nil, context.Cause(r.Context())
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, ContentLength: -1, Request: r, Body: &reading{PipeReader: reader, cancel: cancel},
	}, nil
}

// responder is an http.ResponseWriter whose other end is read as an answer.
type responder struct {
	header http.Header
	status int
	once   sync.Once
	begun  chan struct{} // closed when header and status are final
	body   *io.PipeWriter
}

// Header implements http.ResponseWriter.
func (w *responder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *responder) WriteHeader(status int) {
	w.once.Do(func() {
		w.status = status
		close(w.begun)
	})
}

// Write implements http.ResponseWriter. It returns when the bytes were read.
func (w *responder) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// Flush implements http.Flusher: nothing is kept.
func (w *responder) Flush() {}

// reading is an answer's body. Closing it ends the exchange.
type reading struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b *reading) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}
