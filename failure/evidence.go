package failure

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// layer is one error of an answer. An answer holds several where a relay quotes what its
// upstream said: layers run from the wrapper to the innermost quoted error.
type layer struct {
	vendor  string   // whose words these are, where the wrapper says so
	status  int      // a status stated in a field, or in a wrapper's fixed form
	codes   []string // typed details first, then codes, as they came
	types   []string
	message string
	lower   string // the message folded, bounded; made when needed
}

// folded is the message in lower case, as far as it is looked at.
func (l *layer) folded() string {
	if l.lower == "" && l.message != "" {
		l.lower = lowerASCII(clip(l.message, maxRaw))
	}
	return l.lower
}

// speaker is the vendor that a layer's own name, or else the endpoint, says is speaking.
func (e *evidence) speaker(vendor string) string {
	if vendor != "" {
		return vendor
	}
	return e.vendor
}

// evidence is everything that was read out of one failure.
type evidence struct {
	facts  *Facts
	vendor string
	now    time.Time
	skew   time.Duration // what to add to the provider's clock to get ours
	status int
	header http.Header
	layers []layer
	waits  []wait

	html      bool
	raw       string
	requestID string
	stated    bool // the words or the body state a wait
	denied    string
	transport string        // what the network did, by a relay's words
	inner     []http.Header // headers that travel inside a body or an event
	stop      string        // a finish reason
	answer    bool          // the body is a model's answer, not an error
	said      bool          // and it says something
}

// gather reads what the headers say.
func gather(f *Facts, h http.Header) *evidence {
	e := &evidence{facts: f, header: h, vendor: vendorOf(f), now: f.Now}
	date, err := http.ParseTime(h.Get("Date"))
	switch {
	case f.Now.IsZero() && err == nil:
		e.now = date
	case f.Now.IsZero():
		e.now = time.Now()
	case err == nil && h.Get("Age") == "" && !f.undated:
		// The header has whole seconds and the answer took its time: small differences are
		// not the clock's.
		if d := f.Now.Sub(date); d.Abs() > 5*time.Second {
			e.skew = d
		}
	}
	e.requestID = requestID(h)
	if strings.EqualFold(h.Get("X-Should-Retry"), "false") {
		e.denied = "x-should-retry"
	}
	return e
}

var requestIDHeaders = []string{"X-Request-Id", "Request-Id", "X-Amzn-Requestid",
	"Apim-Request-Id", "X-Ds-Trace-Id", "X-Log-Id", "Cf-Ray"}

func requestID(h http.Header) string {
	for _, k := range requestIDHeaders {
		if v := h.Get(k); v != "" {
			return v
		}
	}
	return ""
}

// RequestID returns the id that an answer's headers give the request, without secrets and
// bounded, or "".
func RequestID(h http.Header) string {
	return clip(redactID(clipToken(requestID(h), maxRaw)), maxField)
}

// read takes a body apart.
func (e *evidence) read(body []byte) {
	e.raw = decodeText(body, e.header)
	l := layer{}
	if t := e.header.Get("X-Amzn-Errortype"); t != "" {
		l.types = append(l.types, t)
	}
	if t := e.header.Get("X-Ms-Error-Code"); t != "" {
		l.codes = append(l.codes, t)
	}
	if l.types != nil || l.codes != nil {
		e.layers = append(e.layers, l)
	}
	e.text(e.raw, "", 0)
}

// text takes apart what may be JSON, a wrapper around something, a page, or a sentence.
func (e *evidence) text(s, vendor string, depth int) {
	s = strings.TrimSpace(s)
	if s == "" || depth > 12 {
		return
	}
	switch s[0] {
	case '<':
		if e.page(s, vendor) {
			return
		}
	case '{', '[':
		if n, used := parse(s); worth(&n) && (used >= len(s)-2 || s[0] == '{') {
			e.value(&n, vendor, depth)
			return
		}
	case '"':
		n, used := parse(s)
		if rest := strings.TrimSpace(s[used:]); strings.HasPrefix(rest, ":") {
			e.text("{"+s+"}", vendor, depth+1) // the members of an object whose braces got lost
			return
		} else if rest == "" {
			e.text(n.text, vendor, depth+1)
			return
		}
	case 'd', 'e':
		if data, ok := frameData(s); ok {
			e.text(data, vendor, depth+1)
			return
		}
	}
	if l, rest, ok := unwrap(s, e.speaker(vendor)); ok {
		e.wrapped(l, rest, vendor, depth)
	} else if !e.page(s, vendor) {
		e.sentence(s, vendor, depth)
	}
}

// wrapped reads what a wrapper quotes. What the wrapper itself says is about the plain
// sentence that it quotes, unless it is a relay's label on somebody else's error.
func (e *evidence) wrapped(l wrapping, rest, vendor string, depth int) {
	if l.vendor == "" {
		l.vendor = vendor
	}
	if l.status == 0 && l.codes == nil && l.types == nil {
		e.text(rest, l.vendor, depth+1)
		return
	}
	own := len(e.layers)
	e.layers = append(e.layers, l.layer)
	e.text(rest, l.vendor, depth+1)
	if len(e.layers) != own+2 || l.relay || e.html {
		return
	}
	if in := &e.layers[own+1]; in.codes == nil && in.types == nil && in.status == 0 {
		e.layers[own].message = in.message
		e.layers = e.layers[:own+1]
	}
}

// page makes a layer of an HTML page, and reports whether s is one.
func (e *evidence) page(s, vendor string) bool {
	title, ok := pageTitle(s)
	if !ok {
		return false
	}
	e.html = true
	l := layer{vendor: vendor, message: title}
	if e.status == 0 {
		l.status = pageStatus(title)
	}
	e.layers = append(e.layers, l)
	return true
}

// maxTries bounds how often words are searched for JSON that begins in them.
const maxTries = 16

// sentence keeps words, and reads on in JSON that they quote. A status line's reason alone is
// its status.
func (e *evidence) sentence(s, vendor string, depth int) {
	e.layers = append(e.layers, layer{vendor: vendor, message: s, status: reasonStatus[s]})
	for i, tries := 0, 0; i < len(s) && tries < maxTries; i++ {
		if s[i] != '{' && (s[i] != '[' || i+1 == len(s) || s[i+1] != '{') {
			continue
		}
		tries++
		n, _ := parse(s[i:])
		if !worth(&n) {
			continue
		}
		own := &e.layers[len(e.layers)-1]
		own.message = strings.TrimRight(s[:i], " \n-:")
		if n.kind == kindArray && n.kids[0].get("@type") != nil {
			e.details(&n, own)
		} else {
			e.value(&n, vendor, depth+1)
		}
		return
	}
}

// worth reports whether a parsed value holds anything: an object with a member.
func worth(n *node) bool {
	switch n.kind {
	case kindObject:
		return len(n.kids) > 0
	case kindArray:
		return len(n.kids) > 0 && (n.kids[0].kind == kindObject && len(n.kids[0].kids) > 0 || n.kids[0].kind == kindText)
	}
	return false
}

// frameData returns the data of the last event of a body that is an event stream.
func frameData(s string) (string, bool) {
	if !strings.HasPrefix(s, "data:") && !strings.HasPrefix(s, "event:") {
		return "", false
	}
	var data string
	for line := range strings.Lines(s) {
		if v, ok := strings.CutPrefix(line, "data:"); ok && strings.TrimSpace(v) != "[DONE]" {
			data = v
		}
	}
	return data, data != ""
}

// pageTitle reports whether a body is HTML, and returns its title.
func pageTitle(s string) (title string, ok bool) {
	head := s[:min(len(s), 512)]
	if strings.HasPrefix(head, "<?xml") && !strings.Contains(head, "<html") {
		return "", false
	}
	if head[0] != '<' {
		i := strings.Index(head, "<!DOCTYPE html")
		if i < 0 {
			i = strings.Index(head, "<html")
		}
		if i < 0 {
			return "", false
		}
		s = s[i:]
		head = s[:min(len(s), 512)]
	}
	lower := strings.ToLower(head)
	if !strings.HasPrefix(lower, "<!doctype html") && !strings.Contains(lower, "<html") && !strings.Contains(lower, "<head") {
		return "", false
	}
	if i := strings.Index(s, "<title>"); i >= 0 {
		title = s[i+len("<title>"):]
		if j := strings.IndexByte(title, '<'); j >= 0 {
			title = title[:j]
		}
	}
	return strings.TrimSpace(title), true
}

// pageStatus reads the status of an error page's title: "502 Bad Gateway", "host | 502: …".
func pageStatus(title string) int {
	if _, after, ok := strings.Cut(title, " | "); ok {
		title = after
	}
	if len(title) < 3 {
		return 0
	}
	n, err := strconv.Atoi(title[:3])
	if err != nil || n < 400 || n >= 600 || len(title) > 3 && title[3] != ' ' && title[3] != ':' {
		return 0
	}
	return n
}
