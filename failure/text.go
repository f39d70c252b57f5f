package failure

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decodeText turns a body into UTF-8: compressed bodies that nobody unpacked, byte order
// marks, UTF-16, Latin-1 by its header, invalid bytes.
func decodeText(body []byte, h http.Header) string {
	body = body[:min(len(body), MaxBody)]
	switch {
	case bytes.HasPrefix(body, []byte{0x1f, 0x8b}):
		if r, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			body = inflate(r)
		}
	case h.Get("Content-Encoding") == "deflate":
		if r, err := zlib.NewReader(bytes.NewReader(body)); err == nil {
			body = inflate(r)
		}
	}
	switch {
	case bytes.HasPrefix(body, []byte{0xef, 0xbb, 0xbf}):
		body = body[3:]
	case bytes.HasPrefix(body, []byte{0xff, 0xfe}):
		return utf16Text(body[2:], binary.LittleEndian)
	case bytes.HasPrefix(body, []byte{0xfe, 0xff}):
		return utf16Text(body[2:], binary.BigEndian)
	case len(body) >= 4 && body[0] != 0 && body[1] == 0 && body[3] == 0:
		return utf16Text(body, binary.LittleEndian)
	case len(body) >= 4 && body[0] == 0 && body[1] != 0 && body[2] == 0:
		return utf16Text(body, binary.BigEndian)
	}
	if utf8.Valid(body) {
		return string(body)
	}
	if kind := strings.ToLower(h.Get("Content-Type")); strings.Contains(kind, "8859-1") || strings.Contains(kind, "windows-1252") {
		r := make([]rune, len(body))
		for i, c := range body {
			r[i] = rune(c)
		}
		return string(r)
	}
	return strings.ToValidUTF8(string(body), "\uFFFD")
}

// inflate unpacks what can be unpacked: a cut body gives its beginning.
func inflate(r io.Reader) []byte {
	b, err := io.ReadAll(io.LimitReader(r, MaxBody))
	if err != nil && len(b) == 0 {
		return nil
	}
	return b
}

func utf16Text(b []byte, order binary.ByteOrder) string {
	u := make([]uint16, len(b)/2)
	for i := range u {
		u[i] = order.Uint16(b[2*i:])
	}
	return string(utf16.Decode(u))
}

// clip cuts a text to at most n bytes, at a rune's edge.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// clipToken cuts a text to at most n bytes and drops what the cut left of its last token, so
// that no half of a secret goes unrecognised.
func clipToken(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = clip(s, n)
	i := len(s)
	for i > 0 && tokenByte[s[i-1]] {
		i--
	}
	return s[:i]
}
