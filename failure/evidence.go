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

	html       bool
	raw        string
	requestID  string
	never      bool // the stated limit is zero: no wait opens it
	denied     string
	transport  string // what the network did, by a relay's words
	inner      []innerHeaders
	stopReason string // of a whole answer that came instead of a stream
	answer     bool   // the body is a model's answer, not an error
}

// innerHeaders are headers that travel inside a body or an event.
type innerHeaders struct{ header http.Header }

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
	for _, k := range requestIDHeaders {
		if v := h.Get(k); v != "" {
			e.requestID = v
			break
		}
	}
	if strings.EqualFold(h.Get("X-Should-Retry"), "false") {
		e.denied = "x-should-retry"
	}
	return e
}

var requestIDHeaders = []string{"X-Request-Id", "Request-Id", "X-Amzn-Requestid",
	"Apim-Request-Id", "X-Ds-Trace-Id", "X-Log-Id", "Cf-Ray"}

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
	if title, ok := page(s); ok {
		e.html = true
		e.layers = append(e.layers, layer{vendor: vendor, message: title})
		return
	}
	switch s[0] {
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
	if l, rest, ok := unwrap(s); ok {
		if l.vendor != "" {
			vendor = l.vendor
		}
		if l.status != 0 || l.codes != nil || l.types != nil {
			e.layers = append(e.layers, layer{status: l.status, codes: l.codes, types: l.types, vendor: vendor})
		}
		e.text(rest, vendor, depth+1)
		return
	}
	e.sentence(s, vendor, depth)
}

// sentence keeps words, and reads on in JSON that they quote.
func (e *evidence) sentence(s, vendor string, depth int) {
	e.layers = append(e.layers, layer{vendor: vendor, message: s})
	for i := 0; i < len(s); i++ {
		if s[i] != '{' && (s[i] != '[' || i+1 == len(s) || s[i+1] != '{') {
			continue
		}
		n, used := parse(s[i:])
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
		i += used
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

// page reports whether a body is HTML, and returns its title.
func page(s string) (title string, ok bool) {
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

func (e *evidence) value(n *node, vendor string, depth int) {
	if depth > 12 {
		return
	}
	switch n.kind {
	case kindText:
		e.text(n.text, vendor, depth+1)
	case kindArray:
		for i := range n.kids[:min(len(n.kids), 8)] {
			e.value(&n.kids[i], vendor, depth+1)
		}
	case kindObject:
		e.object(n, vendor, depth)
	}
}

// object makes one layer of an error object, and further ones of what it wraps.
func (e *evidence) object(n *node, vendor string, depth int) {
	l := layer{vendor: vendor}
	var second string // words to use where there is no message
	var inner []*node
	for i := range n.kids {
		k, v := n.keys[i], &n.kids[i]
		switch canon(k) {
		case "message", "msg", "errormessage", "statusmsg", "faultstring":
			if v.kind == kindText && l.message == "" {
				l.message = v.text
			} else if v.kind == kindObject || v.kind == kindArray {
				inner = append(inner, v)
			}
		case "detail", "errordescription", "title", "description":
			if v.kind == kindText && (second == "" || canon(k) == "detail") {
				second = v.text
			} else if v.kind == kindObject || v.kind == kindArray {
				inner = append(inner, v)
			}
		case "code", "errorcode", "errcode", "statuscode", "status", "httpstatus", "httpcode",
			"rawstatuscode", "reason", "errorname", "errortype", "type", "exception":
			if v.kind == kindObject {
				inner = append(inner, v)
				continue
			}
			e.code(&l, canon(k), v)
		case "error":
			switch {
			case v.kind == kindText && v.text != "" && !strings.ContainsAny(v.text, " {<[") && len(v.text) < 64:
				l.codes = append(l.codes, v.text)
			case v.kind == kindText && n.str("message") != "" && len(v.text) < 64:
				l.types = append(l.types, v.text)
			default:
				inner = append(inner, v)
			}
		case "details":
			if v.kind == kindArray {
				e.details(v, &l)
			} else if v.kind == kindObject {
				inner = append(inner, v)
			} else if second == "" {
				second = v.text
			}
		case "errors", "innererror", "response", "fault", "cause", "body", "data", "baseresp",
			"incompletedetails", "promptfeedback", "choices", "candidates", "upstreamerror":
			if canon(k) == "choices" || canon(k) == "candidates" {
				e.answer = true
			}
			inner = append(inner, v)
		case "metadata":
			if p := n.get("metadata").str("provider_name"); p != "" {
				if raw := n.get("metadata").get("raw"); raw != nil {
					e.relay(&l, n)
					defer e.value(raw, vendorNamed(p), depth+1)
					continue
				}
			}
			inner = append(inner, v)
		case "headers":
			e.eventHeaders(v)
		case "finishreason", "blockreason", "stopreason":
			e.stopReason = v.text
		case "requestid", "xrequestid":
			if e.requestID == "" && v.kind == kindText {
				e.requestID = v.text
			}
		case "retryable":
			if n.str("cloudflare_error") == "true" && v.text == "false" {
				e.denied = "retryable"
			}
		default:
			e.bodyWait(canon(k), v)
		}
	}
	if l.message == "" {
		l.message = second
	}
	words := l.message
	if strings.ContainsAny(words, "{[:<|·") {
		l.message = ""
	}
	e.layers = append(e.layers, l)
	at := len(e.layers)
	for _, v := range inner {
		e.value(v, vendor, depth+1)
	}
	if l.message == "" && words != "" {
		e.unquote(words, vendor, depth, at-1)
	}
}

// unquote reads a message that may quote another error. One that turns out to be a plain
// sentence belongs to its own layer.
func (e *evidence) unquote(words, vendor string, depth, own int) {
	before := len(e.layers)
	e.text(words, vendor, depth+1)
	if len(e.layers) == before+1 {
		l := e.layers[before]
		if l.message == strings.TrimSpace(words) && l.codes == nil && l.types == nil && l.status == 0 {
			e.layers[own].message = l.message
			e.layers = e.layers[:before]
		}
	}
}

// relay records that the object's own message is a relay's ("Provider returned error").
func (e *evidence) relay(l *layer, n *node) {
	if h := n.get("metadata").get("headers"); h != nil {
		e.eventHeaders(h)
	}
}

// code files a member that names what went wrong.
func (e *evidence) code(l *layer, key string, v *node) {
	if v.text == "" || v.kind == kindNull || v.kind == kindBool {
		return
	}
	if n, err := strconv.Atoi(v.text); err == nil {
		if n >= 300 && n < 600 {
			if l.status == 0 || key != "code" {
				l.status = n
			}
			return
		}
		if n >= 100 && n < 300 || n == 0 {
			return
		}
	}
	switch key {
	case "type", "errortype", "exception":
		if v.text != "error" {
			l.types = append(l.types, v.text)
		}
	case "status":
		if v.text != "failed" && v.text != "error" {
			l.codes = append(l.codes, v.text)
		}
	case "reason":
		l.codes = append([]string{v.text}, l.codes...)
	default:
		l.codes = append(l.codes, v.text)
	}
}

// details reads Google's typed details (google.rpc.Status), which say more than its code.
func (e *evidence) details(list *node, l *layer) {
	var typed []string
	for i := range list.kids {
		d := &list.kids[i]
		if d.kind != kindObject {
			if d.kind == kindText && l.message == "" {
				l.message = d.text
			}
			continue
		}
		name := d.str("@type")
		switch name[strings.LastIndexByte(name, '.')+1:] {
		case "ErrorInfo":
			if w := window(d.get("metadata").strOr("quota_limit")); w != "" {
				typed = append(typed, w)
			}
			typed = append(typed, d.str("reason"))
			if m := d.get("metadata"); m != nil {
				for j, k := range m.keys {
					e.bodyWait(canon(k), &m.kids[j])
				}
			}
		case "QuotaFailure":
			if v := d.get("violations"); v != nil {
				for j := range v.kids {
					if w := window(v.kids[j].str("quotaId")); w != "" {
						typed = append([]string{w}, typed...)
					}
					if v.kids[j].str("quotaValue") == "0" {
						e.never = true
					}
				}
			}
		case "RetryInfo":
			e.bodyWait("retrydelay", d.get("retryDelay"))
		default:
			if c := d.str("code"); c != "" {
				typed = append(typed, c)
			}
			if r := d.str("reason"); r != "" {
				typed = append(typed, r)
			}
		}
	}
	// A day that is spent decides, whatever minute is spent beside it.
	for i, t := range typed {
		if t == windowDay && i > 0 {
			typed[0], typed[i] = typed[i], typed[0]
		}
	}
	l.codes = append(typed, l.codes...)
}

func (n *node) strOr(key string) string {
	if n == nil {
		return ""
	}
	return n.str(key)
}

// The windows of Google's quota ids, as codes of the table.
const (
	windowDay    = "quota window: day or longer"
	windowMinute = "quota window: a minute or less"
)

func window(quotaID string) string {
	q := canon(quotaID)
	for _, w := range [...]string{"perday", "perweek", "permonth"} {
		if strings.Contains(q, w) {
			return windowDay
		}
	}
	for _, w := range [...]string{"perminute", "persecond"} {
		if strings.Contains(q, w) {
			return windowMinute
		}
	}
	return ""
}

// canon folds the spellings of one name (retry_after, Retry-After, retryAfter) into one.
func canon(s string) string {
	plain := true
	for i := range len(s) {
		if c := s[i]; !(isDigit(c) || c >= 'a' && c <= 'z') {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'A' && c <= 'Z':
			b = append(b, c|0x20)
		case isDigit(c), c >= 'a' && c <= 'z', c >= 0x80:
			b = append(b, c)
		}
	}
	return string(b)
}
