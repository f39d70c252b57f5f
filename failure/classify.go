package failure

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// farReset is the stated wait beyond which a rate or quota failure is a spent quota.
const farReset = time.Hour

// verdict is a class with the rule that set it.
type verdict struct {
	class        Class
	rule, source string
	typed        bool // by a code or type that decides
	long         bool // the window is a day or longer: a short bare delay is another window's
}

// unifiedStatus says whether a Claude plan's window is spent, whatever the words say.
const unifiedStatus = "Anthropic-Ratelimit-Unified-Status"

// ruleEmpty is the rule for an answer that ends well and holds nothing.
const ruleEmpty = "stop:empty"

// conclude weighs the evidence. In order: the innermost layer whose code, type or words
// decide, wrappers after what they quote; the answer's status; the labels that decide little.
func (e *evidence) conclude() *Failure {
	out := e.facts.fail()
	out.Status = e.status
	e.readWaits()
	v := e.decide()
	if v.class == RateLimited && e.header.Get(unifiedStatus) == "rejected" {
		v = verdict{class: QuotaExhausted, rule: "header:" + unifiedStatus, source: "https://github.com/anthropics/claude-code/issues/71634"}
	}
	out.set(v.class, v.rule, v.source)
	e.describe(out)
	e.apply(out, &v)
	out.KeyInvalid = v.class == AuthFailed && (v.typed || e.status == http.StatusUnauthorized)
	out.PerKey = perKey[v.rule]
	out.Transport = e.transport
	if e.denied != "" || e.transport == transportCertificate {
		out.Retryable = false
	}
	return out
}

// decide goes from the innermost layer outwards, then by the answer's status, then by labels.
func (e *evidence) decide() verdict {
	for i := len(e.layers) - 1; i >= 0; i-- {
		if v, ok := e.layer(&e.layers[i]); ok {
			return v
		}
		if s := e.layers[i].status; s != 0 && s != e.status {
			if v, ok := e.byStatus(s); ok {
				return v
			}
		}
	}
	if v, ok := e.byStatus(e.status); ok {
		return v
	}
	var weakest *codeRow
	for i := len(e.layers) - 1; i >= 0 && weakest == nil; i-- {
		weakest = e.typed(&e.layers[i])
	}
	switch {
	case e.html && e.status < 400 || e.status >= 300 && e.status < 400:
		return verdict{class: InvalidRequest, rule: "page", source: "an HTML page or a redirect is no API"}
	case e.status >= 400 && (weakest == nil || weakest.class.Retryable() || e.status != 400 && e.status != 422):
		// No label makes a 4xx worth a retry, and only 400 and 422 leave room for one.
		return verdict{class: InvalidRequest, rule: "status:" + strconv.Itoa(e.status), source: statusSource}
	case weakest != nil:
		return verdict{class: weakest.class, rule: weakest.id(), source: weakest.source}
	case e.answer:
		return e.byStop()
	}
	return verdict{class: Unknown, rule: "none", source: "no rule knows it"}
}

// layer decides by one layer alone, if it can.
func (e *evidence) layer(l *layer) (verdict, bool) {
	row := e.typed(l)
	if row != nil && row.strength == firm {
		return row.verdict(), true
	}
	vendor := e.speaker(l.vendor)
	if row == nil || row.strength == weak || row.class.Retryable() {
		// A sentence grants nothing beside a code, not even one that no table knows.
		s := known(l.message, vendor)
		if s != nil && (!s.class.Retryable() || row == nil && len(l.codes) == 0 || row != nil && row.strength == weak) {
			return verdict{class: s.class, rule: s.id(), source: s.source}, true
		}
		if l.message != "" && !e.html {
			if w := deny(l.folded(), e.stated); w != nil {
				return verdict{class: w.class, rule: w.id(), source: w.source, long: w.wait == otherWindow}, true
			}
			if q, kind, ok := quotedTransport(l.message, e.facts.Phase); ok && (row == nil || row.strength == weak) {
				e.transport = kind
				return q, true
			}
		}
	}
	if row != nil && row.strength != weak {
		return row.verdict(), true
	}
	return verdict{}, false
}

// typed finds the row of the layer's most telling code or type: the first that is not weak,
// else the first.
func (e *evidence) typed(l *layer) *codeRow {
	vendor := e.speaker(l.vendor)
	var first *codeRow
	for _, list := range [...][]string{l.codes, l.types} {
		for _, c := range list {
			r := lookup(c, vendor, e.facts.Phase)
			if r == nil && l.vendor != "" {
				r = lookup(c, e.vendor, e.facts.Phase)
			}
			switch {
			case r == nil:
			case r.strength != weak:
				return r
			case first == nil:
				first = r
			}
		}
	}
	return first
}

func (r *codeRow) id() string     { return "code:" + name(r.vendor) + ":" + r.code }
func (r *sentenceRow) id() string { return "sentence:" + name(r.vendor) + ":" + r.pattern }
func (r *wordsRow) id() string    { return "words:" + r.words }

func name(vendor string) string {
	if vendor == "" {
		return "any"
	}
	return vendor
}

func (r *codeRow) verdict() verdict {
	return verdict{class: r.class, rule: r.id(), source: r.source, typed: r.strength != weak, long: r.code == windowDay}
}

// byStatus decides by a status that tells something. 400, 422 and the like carry anything.
func (e *evidence) byStatus(status int) (verdict, bool) {
	v := verdict{rule: "status:" + strconv.Itoa(status), source: statusSource}
	for _, r := range statusRows {
		if r.status == status && (r.vendor == "" || r.vendor == e.vendor) {
			v.class, v.source = r.class, r.source
			return v, true
		}
	}
	switch {
	case status == http.StatusNotFound || status == http.StatusGone:
		if !e.html && e.namesModel() {
			v.class = ModelNotFound
			return v, true
		}
	case status >= 500 && status < 600:
		v.class = ServerError
		return v, true
	}
	return v, false
}

// namesModel reports whether some layer's words are about a model.
func (e *evidence) namesModel() bool {
	for i := range e.layers {
		m := e.layers[i].folded()
		if strings.Contains(m, "model") || strings.Contains(m, "deployment") {
			return true
		}
	}
	return false
}

// byStop decides by the finish reason of an answer that came whole where a stream was asked
// for. F32: an answer where an error was due is nothing to retry.
func (e *evidence) byStop() verdict {
	if r := lookup(e.stop, e.vendor, PhaseStream); r != nil {
		return r.verdict()
	}
	if r := lookup(e.stop, "google", PhaseStream); r != nil {
		return r.verdict()
	}
	if !e.said {
		return verdict{class: ServerError, rule: ruleEmpty, source: "an answer of nothing"}
	}
	return verdict{class: Unknown, rule: "protocol_mismatch", source: "an answer where a stream or an error was due"}
}

// describe fills in what a person reads: the innermost words, code and type.
func (e *evidence) describe(out *Failure) {
	for i := len(e.layers) - 1; i >= 0; i-- {
		l := &e.layers[i]
		if out.Message == "" {
			out.Message = l.message
		}
		for _, c := range l.codes {
			if out.Code == "" && c != windowDay && c != windowMinute {
				out.Code = c
			}
		}
		if out.Type == "" && len(l.types) > 0 {
			out.Type = l.types[0]
		}
		if out.Status == 0 || out.Status == http.StatusOK {
			if l.status != 0 {
				out.Status = l.status
			}
		}
	}
	switch {
	case out.Message != "":
	case out.Rule == ruleEmpty:
		out.Message = "The model answered nothing."
	case e.stop != "":
		out.Message = "The model stopped: " + e.stop + "."
	case e.status >= 300:
		out.Message = strings.TrimSpace(strconv.Itoa(e.status) + " " + http.StatusText(e.status))
	case e.html:
		out.Message = "A web page came in place of an answer."
	}
	out.Message = clip(redact(clipToken(out.Message, maxRaw)), maxMessage)
	out.Code = clip(redact(out.Code), maxField)
	out.Type = clip(redact(out.Type), maxField)
	out.RequestID = clip(redactID(clipToken(e.requestID, maxRaw)), maxField)
	out.Body = clip(redact(clipToken(e.raw, maxRaw)), maxRaw)
}
