package sse_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/reprise-run/reprise/wire/sse"
)

// frames reads everything and prints one line a frame, and the end.
func frames(r io.Reader) []string {
	rd := sse.NewReader(r)
	var out []string
	for {
		f, err := rd.Next()
		if err != nil {
			if _, again := rd.Next(); again != err {
				return append(out, fmt.Sprintf("not sticky: %v", again))
			}
			return append(out, err.Error())
		}
		data := "nil"
		if f.Data != nil {
			data = fmt.Sprintf("%q", f.Data)
		}
		s := fmt.Sprintf("%s %s %q", f.Event, data, f.Raw)
		if f.ID != nil {
			s += fmt.Sprintf(" id=%s", f.ID)
		}
		out = append(out, s)
	}
}

func TestFrames(t *testing.T) {
	big := strings.Repeat("x", 10_000)
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"empty", "", []string{"EOF"}},
		{"one", "data: a\n\n", []string{` "a" "data: a"`, "EOF"}},
		{"no space", "data:a\n\n", []string{` "a" "data:a"`, "EOF"}},
		{"one space only", "data:  a\n\n", []string{` " a" "data:  a"`, "EOF"}},
		{"event", "event: e\ndata: a\n\n", []string{`e "a" "event: e\ndata: a"`, "EOF"}},
		{"crlf", "event: e\r\ndata: a\r\n\r\ndata: b\r\n\r\n",
			[]string{`e "a" "event: e\r\ndata: a"`, ` "b" "data: b"`, "EOF"}},
		{"cr", "data: a\rdata: b\r\rdata: c\r\r", []string{` "a\nb" "data: a\rdata: b"`, ` "c" "data: c"`, "EOF"}},
		{"mixed", "data: a\n\r\ndata: b\r\r\ndata: c\n\r", []string{` "a" "data: a"`, ` "b" "data: b"`, ` "c" "data: c"`, "EOF"}},
		{"stray line feed", "\r\r\n\ndata: a\r\r\n\r\ndata: b\r\n\n", []string{` "a" "data: a"`, ` "b" "data: b"`, "EOF"}},
		{"bom", "\xef\xbb\xbfdata: a\n\n", []string{` "a" "data: a"`, "EOF"}},
		{"bom inside", "data: a\n\n\xef\xbb\xbfdata: b\n\n", []string{` "a" "data: a"`, ` nil "\ufeffdata: b"`, "EOF"}},
		{"half a bom", "\xef\xbb", []string{"unexpected EOF"}},
		{"comment", ": ping\n\ndata: a\n\n", []string{` nil ": ping"`, ` "a" "data: a"`, "EOF"}},
		{"comment within", ": x\ndata: a\n:y\n\n", []string{` "a" ": x\ndata: a\n:y"`, "EOF"}},
		{"multi-line", "data: a\ndata:\ndata\ndata: b\n\n", []string{` "a\n\n\nb" "data: a\ndata:\ndata\ndata: b"`, "EOF"}},
		{"empty data", "data:\n\n", []string{` "" "data:"`, "EOF"}},
		{"bare data", "data\n\n", []string{` "" "data"`, "EOF"}},
		{"id and retry", "id: 7\nretry: 10\ndata: a\n\n", []string{` "a" "id: 7\nretry: 10\ndata: a" id=7`, "EOF"}},
		{"id with NUL", "id: \x00\ndata: a\n\n", []string{` "a" "id: \x00\ndata: a"`, "EOF"}},
		{"retry alone", "retry: 10\n\n", []string{` nil "retry: 10"`, "EOF"}},
		{"last event counts", "event: a\nevent: b\ndata: c\n\n", []string{`b "c" "event: a\nevent: b\ndata: c"`, "EOF"}},
		{"colon in value", "data: a: b\n\n", []string{` "a: b" "data: a: b"`, "EOF"}},
		{"unknown field", "datax: a\n\n", []string{` nil "datax: a"`, "EOF"}},
		{"blank lines", "\n\n\r\ndata: a\n\n\n\n", []string{` "a" "data: a"`, "EOF"}},
		{"long", "data: " + big + "\n\ndata: b\n\n", []string{fmt.Sprintf(` %q "data: %s"`, big, big), ` "b" "data: b"`, "EOF"}},
		{"many long lines", "data: " + big + "\r\ndata: " + big + "\r\n\r\n",
			[]string{fmt.Sprintf(` %q "data: %s\r\ndata: %s"`, big+"\n"+big, big, big), "EOF"}},

		{"cut in text", "data: a\n\ndata: b", []string{` "a" "data: a"`, "unexpected EOF"}},
		{"cut after a line", "data: b\n", []string{"unexpected EOF"}},
		{"cut in JSON", `data: {"a":1`, []string{"unexpected EOF"}},
		{"cut in a field", "dat", []string{"unexpected EOF"}},
		{"cut after the event", "event: e\n", []string{"unexpected EOF"}},
		{"cut in a number", "data: 1", []string{"unexpected EOF"}},
		{"cut comment", ": pin", []string{"unexpected EOF"}},
		{"no last blank line", "data: {\"a\":1}\n", []string{` "{\"a\":1}" "data: {\"a\":1}"`, "EOF"}},
		{"no last line ending", "data: {\"a\":1}", []string{` "{\"a\":1}" "data: {\"a\":1}"`, "EOF"}},
		{"no last blank line, crlf", "data: {\"a\":1}\r\n", []string{` "{\"a\":1}" "data: {\"a\":1}"`, "EOF"}},
		{"done without an end", "data: [DONE]", []string{` "[DONE]" "data: [DONE]"`, "EOF"}},
		{"comment at the end", "data: a\n\n: ping\n", []string{` "a" "data: a"`, ` nil ": ping"`, "EOF"}},
		{"no event stream", "{\n \"error\": 1\n}\n", []string{` nil "{\n \"error\": 1\n}"`, "EOF"}},
		{"html", "<html>\n", []string{"unexpected EOF"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for how, r := range map[string]io.Reader{
				"whole":  strings.NewReader(c.in),
				"bytes":  iotest.OneByteReader(strings.NewReader(c.in)),
				"halves": iotest.HalfReader(strings.NewReader(c.in)),
				"eof":    iotest.DataErrReader(strings.NewReader(c.in)),
			} {
				if got := frames(r); !slices.Equal(got, c.want) {
					t.Errorf("%s:\n got %q\nwant %q", how, got, c.want)
				}
			}
		})
	}
}

// A frame is there as soon as its blank line is, and not one byte later.
func TestFrameIsNotHeldBack(t *testing.T) {
	for _, in := range []string{"data: a\n\n", "data: a\r\r", "data: a\r\n\r"} {
		r := io.MultiReader(strings.NewReader(in), iotest.ErrReader(errors.New("asked for more")))
		if f, err := sse.NewReader(r).Next(); err != nil || string(f.Data) != "a" {
			t.Errorf("%q: %q, %v", in, f.Data, err)
		}
	}
}

// A frame is ready when it can be had without a read, and asking takes nothing away.
func TestReady(t *testing.T) {
	r := sse.NewReader(io.MultiReader(strings.NewReader("data: a\n\ndata: b\r\n\r\ndata: c"), strings.NewReader("\n\n")))
	for i, want := range []bool{false, true, false} {
		for range 2 {
			if r.Ready() != want {
				t.Errorf("before frame %d: ready %v", i, !want)
			}
		}
		if f, err := r.Next(); err != nil || string(f.Data) != string(rune('a'+i)) {
			t.Errorf("frame %d: %q, %v", i, f.Data, err)
		}
	}
}

func TestReadErrorsPassThrough(t *testing.T) {
	broken := errors.New("broken")
	for _, in := range []string{"data: a\n\n", "data: a\n\ndata: {}"} {
		for _, want := range []error{broken, io.ErrUnexpectedEOF} {
			r := sse.NewReader(io.MultiReader(strings.NewReader(in), iotest.ErrReader(want)))
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Next(); err != want {
				t.Errorf("%q: got %v, want %v", in, err, want)
			}
		}
	}
}

func TestReaderThatGivesNothing(t *testing.T) {
	if _, err := sse.NewReader(nothing{}).Next(); err != io.ErrNoProgress {
		t.Error(err)
	}
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }

// The limit depends on the frame alone, not on how its bytes arrive.
func TestLargestFrame(t *testing.T) {
	most := "data: " + strings.Repeat("x", sse.MaxFrame-len("data: "))
	for _, c := range []struct {
		in   string
		want error
	}{
		{most + "\n\n", nil},
		{most + "\r\n\r\n", nil},
		{most + "x\n\n", sse.ErrTooLarge},
		{most + "xxxxxxxxxxxxxx", sse.ErrTooLarge},
		{strings.Repeat(strings.Repeat(":", 63)+"\n", sse.MaxFrame/64+1), sse.ErrTooLarge},
		{strings.Repeat(strings.Repeat(":", 63)+"\r", sse.MaxFrame/64+1), sse.ErrTooLarge},
	} {
		for _, chunk := range []int{10_000, len(c.in)} {
			r := sse.NewReader(&chunked{[]byte(c.in), chunk})
			_, err := r.Next()
			if err != c.want {
				t.Errorf("%.8q, %d bytes at a time: %v, want %v", c.in[len(most)-2:], chunk, err, c.want)
			}
			if _, again := r.Next(); err != nil && again != err {
				t.Errorf("%v, then %v", err, again)
			}
		}
	}
}

// A frame of the largest size is none too large while its line endings are on their way.
func TestLargestFrameCutInItsEnd(t *testing.T) {
	in := "data: " + strings.Repeat("x", sse.MaxFrame-len("data: ")) + "\r\n\r\n"
	for cut := sse.MaxFrame; cut < len(in); cut++ {
		r := sse.NewReader(io.MultiReader(strings.NewReader(in[:cut]), strings.NewReader(in[cut:])))
		if f, err := r.Next(); err != nil || len(f.Raw) != sse.MaxFrame {
			t.Errorf("cut at %d: %d bytes, %v", cut, len(f.Raw), err)
		}
	}
}

type chunked struct {
	b []byte
	n int
}

func (c *chunked) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.b[:min(c.n, len(c.b))])
	c.b = c.b[n:]
	return n, nil
}

func TestAppend(t *testing.T) {
	for _, c := range []struct{ event, data, want string }{
		{"", "a", "data: a\n\n"},
		{"e", "a", "event: e\ndata: a\n\n"},
		{"", "", "data: \n\n"},
		{"", "a\nb\r\nc\rd\n", "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
	} {
		if got := string(sse.Append(nil, c.event, []byte(c.data))); got != c.want {
			t.Errorf("%q: got %q, want %q", c.data, got, c.want)
		}
	}
}

func FuzzChunking(f *testing.F) {
	for _, s := range []string{"data: a\r\n\r\nevent: b\rdata: c\r\r: x\n\ndata: {}", "\xef\xbb\xbfid: 1\n\n\ndata\ndata\n\n", "data: [DONE]\r"} {
		f.Add([]byte(s), []byte{1, 2, 3})
	}
	f.Fuzz(func(t *testing.T, in, cuts []byte) {
		want := frames(bytes.NewReader(in))
		if got := frames(&cutter{in, cuts, 0}); !slices.Equal(got, want) {
			t.Errorf("in one read %q\nin several %q", want, got)
		}
		end := want[len(want)-1]
		if end != "EOF" && end != "unexpected EOF" {
			t.Errorf("ends with %q", end)
		}
	})
}

// cutter gives as many bytes at a time as cuts says, in turn.
type cutter struct {
	b, cuts []byte
	i       int
}

func (c *cutter) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := 1
	if len(c.cuts) > 0 {
		n = max(1, int(c.cuts[c.i%len(c.cuts)]))
		c.i++
	}
	n = copy(p, c.b[:min(n, len(c.b))])
	c.b = c.b[n:]
	return n, nil
}

func FuzzAppend(f *testing.F) {
	f.Add("a\r\nb")
	f.Fuzz(func(t *testing.T, data string) {
		fr, err := sse.NewReader(bytes.NewReader(sse.Append(nil, "e", []byte(data)))).Next()
		want := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data)
		if err != nil || string(fr.Data) != want || string(fr.Event) != "e" {
			t.Errorf("%q became %q, %v", data, fr.Data, err)
		}
	})
}

type endless struct {
	frame []byte
	at    int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.frame[e.at:])
	e.at = (e.at + n) % len(e.frame)
	return n, nil
}

var delta = []byte("event: response.output_text.delta\ndata: " + `{"type":"response.output_text.delta","item_id":"msg_67c9fdcf37fc8190ba82116e33fb28c507b8b0ad4e5eb654","output_index":0,"content_index":0,"delta":"Hi","sequence_number":4}` + "\n\n")

func BenchmarkNext(b *testing.B) {
	r := sse.NewReader(&endless{frame: delta})
	b.SetBytes(int64(len(delta)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	multi := &endless{frame: []byte("data: a\ndata: b\r\n\r\n")}
	for _, r := range []*sse.Reader{sse.NewReader(&endless{frame: delta}), sse.NewReader(multi)} {
		if n := testing.AllocsPerRun(1000, func() {
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations a frame", n)
		}
	}
}
