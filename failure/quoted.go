package failure

import "strings"

// quotedRow is how a language's network library words an error, complete. Relays quote these
// in bodies, and the classify verb reads them where a client's log is all there is. The
// product's own errors go by type (FromError).
type quotedRow struct {
	pattern string
	kind    string
	class   Class // in phase open; a broken connection in phase stream is stream_interrupted
	source  string
}

const (
	goNet   = "https://pkg.go.dev/net"
	goHTTP  = "https://pkg.go.dev/net/http"
	nodeErr = "https://nodejs.org/api/errors.html#common-system-errors"
	undici  = "https://github.com/nodejs/undici/blob/main/docs/docs/api/Errors.md"
	reqwest = "https://docs.rs/reqwest/latest/reqwest/struct.Error.html"
	httpx   = "https://www.python-httpx.org/exceptions/"
)

var quotedRows = []quotedRow{
	{"dial tcp: lookup *: no such host", transportDNS, Network, goNet},
	{"dial tcp: lookup *: *", transportDNS, Network, goNet},
	{"dial tcp *: i/o timeout", "connect_timeout", Timeout, goNet},
	{"dial tcp *: connect: connection timed out", "connect_timeout", Timeout, goNet},
	{"dial tcp *: *", transportDial, Network, goNet},
	{"read tcp *: i/o timeout", transportTimeout, Timeout, goNet},
	{"read tcp *: *", transportReset, Network, goNet},
	{"write tcp *: *", transportReset, Network, goNet},
	{"unexpected EOF", transportEOF, StreamInterrupted, goNet},
	{"EOF", transportEOF, Network, goNet},
	{"http: server closed idle connection", transportReset, Network, goHTTP},
	{"http2: server sent GOAWAY and closed the connection; *", transportGoAway, Network, goHTTP},
	{"net/http: TLS handshake timeout", "connect_timeout", Timeout, goHTTP},
	{"net/http: timeout awaiting response headers", transportTimeout, Timeout, goHTTP},
	{"context deadline exceeded", transportTimeout, Timeout, goHTTP},
	{"context deadline exceeded (Client.Timeout exceeded while awaiting headers)", transportTimeout, Timeout, goHTTP},
	{"tls: failed to verify certificate: *", transportCertificate, Network, goNet},
	{"x509: *", transportCertificate, Network, goNet},
	{"stream ID *; INTERNAL_ERROR; received from peer", transportStreamReset, Network, goHTTP},
	{"connect ECONNREFUSED *", transportDial, Network, nodeErr},
	{"connect ETIMEDOUT *", "connect_timeout", Timeout, nodeErr},
	{"connect EHOSTUNREACH *", transportDial, Network, nodeErr},
	{"connect ENETUNREACH *", transportDial, Network, nodeErr},
	{"getaddrinfo ENOTFOUND *", transportDNS, Network, nodeErr},
	{"getaddrinfo EAI_AGAIN *", transportDNS, Network, nodeErr},
	{"read ECONNRESET", transportReset, Network, nodeErr},
	{"read ETIMEDOUT", transportTimeout, Timeout, nodeErr},
	{"write EPIPE", transportReset, Network, nodeErr},
	{"socket hang up", transportReset, Network, nodeErr},
	{"[Errno 111] Connection refused", transportDial, Network, httpx},
	{"[Errno 104] Connection reset by peer", transportReset, Network, httpx},
	{"Connection refused", transportDial, Network, httpx},
	{"peer closed connection without sending complete message body (incomplete chunked read)", transportEOF, StreamInterrupted, httpx},
	{"Server disconnected without sending a response.", transportEOF, Network, httpx},
	{"error sending request for url (*)", transportDial, Network, reqwest},
	{"upstream connect error or disconnect/reset before headers. *", transportReset, Network, "https://www.envoyproxy.io/docs/envoy/latest/faq/debugging/why_is_envoy_returning_503s"},
	{"upstream request timeout", transportTimeout, Timeout, "https://www.envoyproxy.io/docs/envoy/latest/faq/configuration/timeouts"},
	{"upstream timed out", transportTimeout, Timeout, "https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_read_timeout"},
	{"no healthy upstream", transportDial, Network, "https://www.envoyproxy.io/docs/envoy/latest/faq/debugging/why_is_envoy_returning_503s"},
	{"Request timed out.", transportTimeout, Timeout, "https://github.com/openai/openai-python/blob/main/src/openai/_exceptions.py"},
	{"Connection error.", transportReset, Network, "https://github.com/openai/openai-python/blob/main/src/openai/_exceptions.py"},
	{"Read timeout on endpoint URL: *", transportTimeout, Timeout, "https://github.com/boto/botocore/blob/develop/botocore/exceptions.py"},
	{"Connect timeout on endpoint URL: *", "connect_timeout", Timeout, "https://github.com/boto/botocore/blob/develop/botocore/exceptions.py"},
	{"Could not connect to the endpoint URL: *", transportDial, Network, "https://github.com/boto/botocore/blob/develop/botocore/exceptions.py"},
	{"Connection was closed before we received a valid response from endpoint URL: *", transportEOF, Network, "https://github.com/boto/botocore/blob/develop/botocore/exceptions.py"},
	{"error decoding response body", transportEOF, StreamInterrupted, reqwest},
}

// textRow is what some transport error's text contains, in lower case. These are read only
// where the text is known to be a transport's error, never in a provider's words.
type textRow struct {
	words  string
	kind   string
	class  Class
	source string
}

var textRows = []textRow{
	{"certificate", transportCertificate, Network, nodeErr},
	{"certification path", transportCertificate, Network, "https://docs.oracle.com/javase/8/docs/api/java/security/cert/CertPathBuilderException.html"},
	{"self signed", transportCertificate, Network, nodeErr},
	{"self_signed", transportCertificate, Network, nodeErr},
	{"self-signed", transportCertificate, Network, nodeErr},
	{"unable_to_verify", transportCertificate, Network, nodeErr},
	{"unable_to_get_issuer", transportCertificate, Network, nodeErr},
	{"cert_", transportCertificate, Network, nodeErr},
	{"x509:", transportCertificate, Network, goNet},
	{"due to timeout", transportTimeout, Timeout, "https://developer.mozilla.org/docs/Web/API/DOMException#timeouterror"},
	{"timeouterror", transportTimeout, Timeout, "https://developer.mozilla.org/docs/Web/API/DOMException#timeouterror"},
	{"request was aborted", "abort", Cancelled, "https://github.com/anthropics/anthropic-sdk-typescript/blob/main/src/core/error.ts"},
	{"request aborted by user", "abort", Cancelled, nodeErr},
	{"aborterror", "abort", Cancelled, "https://developer.mozilla.org/docs/Web/API/DOMException#aborterror"},
	{"operation was aborted", "abort", Cancelled, "https://developer.mozilla.org/docs/Web/API/DOMException#aborterror"},
	{"user cancel", "abort", Cancelled, nodeErr},
	{"user abort", "abort", Cancelled, nodeErr},
	{"cancelled by", "abort", Cancelled, nodeErr},
	{"canceled by", "abort", Cancelled, nodeErr},
	{"cancellederror", "abort", Cancelled, "https://docs.python.org/3/library/asyncio-exceptions.html"},
	{"keyboardinterrupt", "abort", Cancelled, "https://docs.python.org/3/library/exceptions.html"},
	{"request was cancel", "abort", Cancelled, nodeErr},
	{"operation was cancel", "abort", Cancelled, nodeErr},
	{"request aborted", "abort", Cancelled, nodeErr},
	{"context canceled", "abort", Cancelled, "https://pkg.go.dev/context"},
	{"enotfound", transportDNS, Network, nodeErr},
	{"eai_again", transportDNS, Network, nodeErr},
	{"no such host", transportDNS, Network, goNet},
	{"name or service not known", transportDNS, Network, httpx},
	{"name resolution", transportDNS, Network, httpx},
	{"dns error", transportDNS, Network, reqwest},
	{"etimedout", transportTimeout, Timeout, nodeErr},
	{"und_err_connect_timeout", "connect_timeout", Timeout, undici},
	{"und_err_headers_timeout", transportTimeout, Timeout, undici},
	{"und_err_body_timeout", "idle_timeout", Timeout, undici},
	{"timed out", transportTimeout, Timeout, httpx},
	{"timedout", transportTimeout, Timeout, reqwest},
	{"timeout", transportTimeout, Timeout, httpx},
	{"deadline exceeded", transportTimeout, Timeout, goHTTP},
	{"deadline has elapsed", transportTimeout, Timeout, reqwest},
	{"econnrefused", transportDial, Network, nodeErr},
	{"connection refused", transportDial, Network, httpx},
	{"actively refused", transportDial, Network, goNet},
	{"error sending request", transportDial, Network, reqwest},
	{"econnreset", transportReset, Network, nodeErr},
	{"is not valid json", "malformed", ServerError, "https://developer.mozilla.org/docs/Web/JavaScript/Reference/Errors/JSON_bad_parse"},
	{"unterminated string in json", transportEOF, Network, "https://developer.mozilla.org/docs/Web/JavaScript/Reference/Errors/JSON_bad_parse"},
	{"unexpected end of json input", transportEOF, Network, "https://developer.mozilla.org/docs/Web/JavaScript/Reference/Errors/JSON_bad_parse"},
}

type compiledQuoted struct {
	quotedRow
	glob glob
}

var quotedIndex = func() []compiledQuoted {
	all := make([]compiledQuoted, len(quotedRows))
	for i, r := range quotedRows {
		all[i] = compiledQuoted{r, compile(r.pattern)}
	}
	return all
}()

// quotedTransport recognises a complete transport error in somebody's words.
func quotedTransport(s string, phase Phase) (verdict, string, bool) {
	for _, lead := range [...]string{`Post "`, `Get "`} {
		if rest, ok := strings.CutPrefix(s, lead); ok {
			if i := strings.Index(rest, `": `); i >= 0 {
				s = rest[i+3:]
			}
		}
	}
	if i := strings.Index(s, " failed, reason: "); i >= 0 && strings.HasPrefix(s, "request to ") {
		s = s[i+len(" failed, reason: "):]
	}
	for i := range quotedIndex {
		q := &quotedIndex[i]
		if !q.glob.match(s, nil) {
			continue
		}
		return verdict{class: broken(q.class, q.kind, phase), rule: "quoted:" + q.pattern, source: q.source}, q.kind, true
	}
	return verdict{}, "", false
}

// broken is stream_interrupted for a connection that broke in a stream. What never got as far
// as a connection, or was never trusted, stays network.
func broken(c Class, kind string, phase Phase) Class {
	if c == Network && phase == PhaseStream && kind != transportCertificate && kind != transportDial && kind != transportDNS {
		return StreamInterrupted
	}
	return c
}

// textUnknown is the rule for the text of a transport's error that no row knows.
const textUnknown = "text"

// causeLeads begin the line of an error's text that names what is behind it, in lower case.
var causeLeads = [...]string{"[cause]: ", "cause: ", "caused by: "}

// cause is the line of an error's text that tells most: the last that names a cause, else the
// first. What else follows is a stack.
func cause(text string) string {
	first, rest, _ := strings.Cut(strings.TrimSpace(text), "\n")
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		for _, lead := range causeLeads {
			if len(line) > len(lead) && strings.EqualFold(line[:len(lead)], lead) {
				first = line[len(lead):]
			}
		}
	}
	return first
}

// fromTransportText classifies the text of a client's transport error, where its type is
// lost.
func fromTransportText(f Facts, text string) *Failure {
	e := gather(&f, nil)
	e.raw = text
	line := cause(text)
	e.text(line, "", 0)
	out := f.fail()
	var v verdict
	var kind string
	for i := len(e.layers) - 1; i >= 0 && v.rule == ""; i-- {
		l := &e.layers[i]
		if s := known(l.message, e.vendor); s != nil {
			v = verdict{class: s.class, rule: s.id(), source: s.source}
		} else if q, k, ok := quotedTransport(l.message, f.Phase); ok {
			v, kind = q, k
		} else if w := deny(l.folded(), false); w != nil {
			v = verdict{class: w.class, rule: w.id(), source: w.source}
		}
	}
	if v.rule == "" {
		lower := strings.ToLower(line)
		for _, r := range textRows {
			if strings.Contains(lower, r.words) {
				v, kind = verdict{class: r.class, rule: "text:" + r.words, source: r.source}, r.kind
				break
			}
		}
	}
	if v.rule == "" {
		v, kind = verdict{class: Network, rule: textUnknown, source: "a transport's error"}, transportReset
	}
	v.class = broken(v.class, kind, f.Phase)
	out.set(v.class, v.rule, v.source)
	out.Transport = kind
	if kind == transportCertificate {
		out.Retryable = false
	}
	e.describe(out)
	out.Message = clip(redact(clipToken(line, maxRaw)), maxMessage)
	return out
}
