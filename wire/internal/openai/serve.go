package openai

import (
	"net/http"

	"github.com/reprise-run/reprise/wire/internal/scan"
)

// KeepAlive is a comment, which every reader of both dialects passes over.
const KeepAlive = ": keep-alive\n\n"

// Error is the error object of both dialects. Param is always null.
type Error struct {
	Message  string            `json:"message"`
	Type     string            `json:"type"`
	Param    *string           `json:"param"`
	Code     string            `json:"code,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// TypeOf is the error type that goes with a status.
func TypeOf(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

// Fields calls f with the fields of v where that is an object.
func Fields(v []byte, f func(name, value []byte) error) error {
	if len(v) == 0 || v[0] != '{' {
		return nil
	}
	return scan.Fields(v, f)
}

// Types calls f with the type of each element of a list of tools.
func Types(tools []byte, f func(kind string, tool []byte)) error {
	if len(tools) == 0 || tools[0] != '[' {
		return nil
	}
	return scan.Elements(tools, func(tool []byte) error {
		var kind []byte
		if err := Fields(tool, func(name, v []byte) error {
			if string(name) == "type" {
				kind = v
			}
			return nil
		}); err != nil {
			return err
		}
		s, err := scan.String(kind)
		f(s, tool)
		return err
	})
}
