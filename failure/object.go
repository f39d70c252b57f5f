package failure

import (
	"slices"
	"strconv"
	"strings"
)

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
	"type": roleCode, "exception": roleCode, "name": roleCode, "httpstatuscode": roleCode,
	"innererror": roleInner, "response": roleInner, "fault": roleInner, "cause": roleInner, "body": roleInner,
	"data": roleInner, "baseresp": roleInner, "incompletedetails": roleInner, "upstreamerror": roleInner, "metadata": roleInner,
	"raw": roleInner, "lasterror": roleInner, "responsebody": roleInner,
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
		case key == "headers", key == "responseheaders":
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
			e.answer, e.said = true, e.said || v.says()
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

// says reports whether a model's answer holds text or a call.
func (n *node) says() bool {
	for i := range n.kids {
		v := &n.kids[i]
		if n.kind == kindObject && v.kind == kindText {
			switch canon(n.keys[i]) {
			case "text", "content", "arguments", "name":
				if v.text != "" {
					return true
				}
			}
		}
		if v.says() {
			return true
		}
	}
	return false
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
	case key == "type" || key == "errortype" || key == "exception" || key == "name":
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
