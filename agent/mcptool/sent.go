package mcptool

import (
	"context"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sent is in the context of a call, and says whether any of it may have left.
type sent struct{ atomic.Bool }

type sentKey struct{}

// mark notes that what ctx belongs to leaves now, unless it has ended. The end is looked at after the note: who
// sees the end and then no note knows that nothing leaves.
func mark(ctx context.Context) error {
	if s, ok := ctx.Value(sentKey{}).(*sent); ok {
		s.Store(true)
	}
	return ctx.Err()
}

// marking is a transport that marks what it sends, by its plain name.
type marking struct{ mcp.Transport }

// Connect implements mcp.Transport.
func (m marking) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := m.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return marked{c}, nil
}

type marked struct{ mcp.Connection }

// Write implements mcp.Connection.
func (m marked) Write(ctx context.Context, message jsonrpc.Message) error {
	if err := mark(ctx); err != nil {
		return err
	}
	return m.Connection.Write(ctx, plain(message))
}
