package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxLine   = 1 << 10 // bytes of one message of a server that are kept
	linesAt   = 50      // messages that are logged in each period
	linesEach = 10 * time.Second
)

// cut returns no more than max bytes of s, and says that it is cut.
func cut(s string, max int) string {
	if len(s) <= max {
		return strings.ToValidUTF8(s, "�")
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return strings.ToValidUTF8(s[:max], "�") + " …"
}

// words is what a server says for the log: on its standard error, or by notification. It
// implements io.Writer for the former.
type words struct {
	log   *slog.Logger
	clean func(string) string

	mu      sync.Mutex
	rest    []byte // of an unfinished line
	last    string // line
	begun   time.Time
	written int
	lost    int
}

// Write implements io.Writer. It never fails.
func (w *words) Write(p []byte) (int, error) {
	n := len(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		line, rest, ok := bytes.Cut(p, []byte("\n"))
		if room := maxLine + utf8.UTFMax - len(w.rest); room > 0 {
			w.rest = append(w.rest, line[:min(len(line), room)]...)
		}
		if !ok {
			return n, nil
		}
		w.end()
		p = rest
	}
}

// end is the end of a line.
func (w *words) end() {
	text := strings.TrimSpace(w.clean(cut(string(w.rest), maxLine)))
	w.rest = w.rest[:0]
	if text != "" {
		w.last = text
		w.say(slog.LevelDebug, text)
	}
}

// say logs a message, unless there were too many.
func (w *words) say(level slog.Level, text string) {
	if now := time.Now(); now.Sub(w.begun) > linesEach {
		if w.lost > 0 {
			w.log.Debug("further messages of this server were left out", "count", w.lost)
		}
		w.begun, w.written, w.lost = now, 0, 0
	}
	if w.written >= linesAt {
		w.lost++
		return
	}
	w.written++
	w.log.Log(context.Background(), level, "the server says", "text", text)
}

// said is the last line that the server wrote.
func (w *words) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) > 0 {
		w.end()
	}
	return w.last
}

// levels are ours for the protocol's, which are those of syslog (RFC 5424). What a server thinks
// an error need not be one of ours.
var levels = map[string]slog.Level{"warning": slog.LevelInfo, "error": slog.LevelWarn, "critical": slog.LevelWarn,
	"alert": slog.LevelWarn, "emergency": slog.LevelWarn}

// listen takes a server's messages for the log out of what it sends. The newest version of the protocol
// has none, and the SDK's own names for them are deprecated.
func (w *words) listen(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == "notifications/message" {
			var p struct {
				Level string
				Data  json.RawMessage
			}
			if err := json.Unmarshal(asJSON(req.GetParams()), &p); err != nil {
				return nil, err
			}
			w.notified(p.Level, p.Data)
		}
		return next(ctx, method, req)
	}
}

// notified logs a message that came by notification.
func (w *words) notified(as string, data json.RawMessage) {
	level, ok := levels[as]
	if !ok {
		level = slog.LevelDebug
	}
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = string(data)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.say(level, w.clean(cut(text, maxLine)))
}
