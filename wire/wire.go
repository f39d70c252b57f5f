// Package wire says what a dialect's codec does: encode the neutral request, and decode the
// frames of the answer into events. One folder below holds one dialect; wire/sse holds the
// framing they share.
//
// A codec knows neither gate nor policy nor failures: it marks what each event is, it knows
// its dialect's terminal event, and it hands an error inside a stream on as it came. It
// tolerates unknown event types and fields; an unknown kind of content becomes content.
package wire

import (
	"fmt"
	"net/http"

	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/wire/sse"
)

// Codec speaks one dialect. Codecs hold no state and are safe for concurrent use.
type Codec interface {
	// Dialect is the configuration's name: chat, responses, messages or gemini.
	Dialect() string
	// Path is the path of a request's call below the base URL, query included.
	Path(req *llm.Request) string
	// Authorize sets the headers by which the dialect carries a key, and its version where
	// none is set.
	Authorize(h http.Header, key string)
	// Encode writes the body of a call, which streams unless Request.Whole says otherwise.
	// Request.Raw goes out unchanged but for the model's name and, where it streams, the stream
	// switch. An error means that the dialect cannot express the
	// request, and says which field it is.
	Encode(req *llm.Request) ([]byte, error)
	// NewDecoder returns the state of one answer.
	NewDecoder() Decoder
}

// Decoder turns the frames of one answer into events. It is used by one goroutine.
type Decoder interface {
	// Decode appends the frame's events to dst. The first carries the frame as Raw, which
	// is valid until the next call; texts are copies. Every frame gives at least one event
	// (EventPing for what we need not understand). An error means that the frame breaks its
	// dialect: the stream is broken there.
	Decode(dst []llm.Event, f sse.Frame) ([]llm.Event, error)
	// End appends what the end of the body means: nothing after the terminal event, the
	// terminal event where the dialect lets the body's end stand for it, else
	// io.ErrUnexpectedEOF.
	End(dst []llm.Event) ([]llm.Event, error)
}

// Framed finishes what a decoder has made of one frame: n is how many events stood in dst
// before it, what names the frame, err says how it broke. It keeps two promises of Decode for every dialect: a
// frame gives at least one event, and the first carries the frame; all but the last say that
// there are more.
func Framed(dst []llm.Event, n int, f sse.Frame, what string, err error) ([]llm.Event, error) {
	if err != nil {
		return dst[:n], fmt.Errorf("decode %s: %w", what, err)
	}
	if len(dst) == n {
		dst = append(dst, llm.Event{Kind: llm.EventPing})
	}
	dst[n].Raw = f.Raw
	for i := n; i < len(dst)-1; i++ {
		dst[i].More = true
	}
	return dst, nil
}
