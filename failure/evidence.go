package failure

import (
	"net/http"
	"slices"
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
		l := layer{vendor: vendor, message: title}
		if e.status == 0 {
			l.status = pageStatus(title)
		}
		e.layers = append(e.layers, l)
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
	if l, rest, ok := unwrap(s, e.speaker(vendor)); ok {
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

// role is what a member of an error object is for.
type role uint8

const (
	roleNone   role = iota
	roleWords       // what a person reads
	roleAside       // what a person reads where there is nothing better
	roleCode        // names what went wrong
	roleInner       // holds another error
	roleAnswer      // belongs to a model's answer
	roleStop        // says why a model stopped
	roleID          // the request's id
)

// memberRoles is by folded name: statusCode, status_code and StatusCode are one.
var memberRoles = map[string]role{
	"message": roleWords, "msg": roleWords, "errormessage": roleWords, "errormsg": roleWords, "statusmsg": roleWords, "faultstring": roleWords,
	"detail": roleAside, "errordescription": roleAside, "title": roleAside, "description": roleAside,
	"code": roleCode, "errorcode": roleCode, "errcode": roleCode, "statuscode": roleCode, "status": roleCode, "httpstatus": roleCode,
	"httpcode": roleCode, "rawstatuscode": roleCode, "reason": roleCode, "errorname": roleCode, "errortype": roleCode,
	"type": roleCode, "exception": roleCode, "awstype": roleCode,
	"innererror": roleInner, "response": roleInner, "fault": roleInner, "cause": roleInner, "body": roleInner,
	"data": roleInner, "baseresp": roleInner, "incompletedetails": roleInner, "upstreamerror": roleInner, "metadata": roleInner,
	"raw": roleInner, "lasterror": roleInner,
	"choices": roleAnswer, "candidates": roleAnswer, "promptfeedback": roleAnswer,
	"finishreason": roleStop, "blockreason": roleStop, "stopreason": roleStop,
	"requestid": roleID, "xrequestid": roleID,
}

// object makes one layer of an error object, and further ones of what it quotes: what its
// members hold lies deeper than itself, and what its message quotes lies deepest.
func (e *evidence) object(n *node, vendor string, depth int) {
	l := layer{vendor: vendor}
	aside := ""
	inner := make([]*node, 0, 4)
	if m := n.get("metadata"); m != nil && m.kind == kindObject {
		if v := vendorNamed(m.str("provider_name")); v != "" {
			vendor = v // OpenRouter: whose error it passes on
		}
	}
	for i := range n.kids {
		key, v := canon(n.keys[i]), &n.kids[i]
		r := memberRoles[key]
		nested := v.kind == kindObject || v.kind == kindArray
		switch {
		case key == "error" && v.kind == kindText:
			// A bare code (OAuth and its heirs), a label beside a message, or the words.
			switch {
			case v.text != "" && len(v.text) < 64 && word(v.text):
				l.codes = append(l.codes, v.text)
			case n.str("message") != "" && len(v.text) < 64:
				l.types = append(l.types, v.text)
			default:
				inner = append(inner, v)
			}
		case key == "error":
			inner = append(inner, v)
		case key == "errors" && n.str("message") != "":
			e.reasons(v, &l)
		case key == "errors":
			inner = append(inner, v)
		case key == "details" && v.kind == kindArray:
			e.details(v, &l)
		case key == "details" && v.kind == kindText:
			if aside == "" {
				aside = v.text
			}
		case key == "details":
			inner = append(inner, v)
		case key == "headers":
			e.eventHeaders(v)
		case key == "retryable":
			if n.str("cloudflare_error") == "true" && v.text == "false" {
				e.denied = "retryable"
			}
		case r == roleNone:
			e.bodyWait(key, v)
		case r == roleStop:
			e.stop = v.text
		case r == roleID:
			if e.requestID == "" && v.kind == kindText {
				e.requestID = v.text
			}
		case r == roleAnswer:
			e.answer = true
			inner = append(inner, v)
		case nested || r == roleInner:
			inner = append(inner, v)
		case r == roleWords:
			if l.message == "" {
				l.message = v.text
			}
		case r == roleAside:
			if aside == "" || key == "detail" {
				aside = v.text
			}
		default:
			l.name(key, v)
		}
	}
	if l.message == "" {
		l.message = aside
	}
	words := l.message
	l.message = ""
	own := len(e.layers)
	e.layers = append(e.layers, l)
	for _, v := range inner {
		e.value(v, vendor, depth+1)
	}
	e.unquote(words, vendor, depth, own)
}

// unquote reads a message, which may quote another error. A plain sentence stays with the
// layer that said it.
func (e *evidence) unquote(words, vendor string, depth, own int) {
	before := len(e.layers)
	e.text(words, vendor, depth+1)
	if len(e.layers) == before+1 {
		if l := &e.layers[before]; l.message == strings.TrimSpace(words) && l.codes == nil {
			e.layers[own].message = l.message
			e.layers = e.layers[:before]
		}
	}
}

// name files a member that names what went wrong: a status, a code or a type.
func (l *layer) name(key string, v *node) {
	if v.text == "" || v.kind == kindNull || v.kind == kindBool {
		return
	}
	if n, err := strconv.Atoi(v.text); err == nil && n < 600 {
		if n >= 300 && (l.status == 0 || key != "code") {
			l.status = n
		}
		return
	}
	switch {
	case v.text == "error" || v.text == "failed":
	case key == "type" || key == "errortype" || key == "exception":
		l.types = append(l.types, v.text)
	case key == "reason":
		l.codes = append([]string{v.text}, l.codes...)
	default:
		l.codes = append(l.codes, v.text)
	}
}

// reasons reads the list of errors that stands beside a message (Google's older form): it
// says less than the details do.
func (e *evidence) reasons(list *node, l *layer) {
	for i := range list.kids[:min(len(list.kids), 8)] {
		if r := list.kids[i].str("reason"); r != "" {
			l.types = append(l.types, r)
		}
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
			typed = append(typed, d.str("reason"))
			if m := d.get("metadata"); m != nil {
				if w := window(m.str("quota_limit")); w != "" {
					typed = append(typed, w)
				}
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
						typed = append([]string{windowDay}, typed...)
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
	// A day that is spent decides, whatever minute is spent beside it; a window decides before
	// the reason beside it.
	for _, w := range [...]string{windowMinute, windowDay} {
		if i := slices.Index(typed, w); i > 0 {
			typed[0], typed[i] = typed[i], typed[0]
		}
	}
	l.codes = append(typed, l.codes...)
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
