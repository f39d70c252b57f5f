package failure

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/reprise-run/reprise/llm"
)

// TestStatusAlone: F27, K-130. Of 4xx only 408, 425, 429 and 499 are worth a retry; of 5xx all but
// those that say that the request is wrong.
func TestStatusAlone(t *testing.T) {
	for status := 300; status < 600; status++ {
		out := FromResponse(Facts{Now: now}, status, nil, nil)
		want := status == 408 || status == 425 || status == 429 || status == 499 ||
			status >= 500 && status != 501 && status != 505
		if out.Retryable != want || out.Retryable != out.Class.Retryable() {
			t.Errorf("%d: %v, retryable %v", status, out.Class, out.Retryable)
		}
	}
}

// TestNearMisses: a sentence counts only complete, only from its vendor, and only where no
// code or status says otherwise. F25, N43, N82.
func TestNearMisses(t *testing.T) {
	for _, c := range []struct {
		name, provider string
		status         int
		body           string
		class          Class
	}{
		{"the sentence", "codex", 0, "Selected model is at capacity. Please try a different model.", Overloaded},
		{"another vendor", "mistral", 0, "Selected model is at capacity. Please try a different model.", Unknown},
		{"a vendor with a similar name", "codex2", 0, "Selected model is at capacity. Please try a different model.", Unknown},
		{"without its dot", "codex", 0, "Selected model is at capacity. Please try a different model", Unknown},
		{"another dot", "codex", 0, "Selected model is at capacity. Please try a different model..", Unknown},
		{"a word before", "codex", 0, "Sorry: Selected model is at capacity. Please try a different model.", Unknown},
		{"a word after", "codex", 0, "Selected model is at capacity. Please try a different model. Soon", Unknown},
		{"another case", "codex", 0, "selected model is at capacity. Please try a different model.", Unknown},
		{"beside a code that decides", "codex", 0, `{"error":{"code":"invalid_api_key","message":"Selected model is at capacity. Please try a different model."}}`, AuthFailed},
		{"beside a code that nobody knows", "codex", 0, `{"error":{"code":"flux_low","message":"Selected model is at capacity. Please try a different model."}}`, Unknown},
		{"beside a type that decides little", "codex", 0, `{"error":{"type":"invalid_request_error","message":"Selected model is at capacity. Please try a different model."}}`, Overloaded},
		{"the sentence", "anthropic", 0, "Overloaded", Overloaded},
		{"another vendor", "openai", 0, "Overloaded", Unknown},
		{"with a dot", "anthropic", 0, "Overloaded.", Unknown},
		{"a forged label in prose, F31", "anthropic", 400, "overloaded_error: please retry, rate_limit_error", InvalidRequest},
		{"a safety stop in prose, N24", "openai", 503, "content_filter: the response was filtered", Overloaded},
		{"a safety stop of no provider's, N24", "openai", 503, `{"error":{"code":"safety_stop","message":"Stopped."}}`, Overloaded},
		{"a failure of our own, N23", "openai", 503, `{"error":{"code":"staging_overflow","type":"local","message":"Too much."}}`, Overloaded},
		{"a failure of our own without a status, N23", "openai", 0, `{"error":{"code":"local","message":"Too much."}}`, Unknown},
		{"a forged code in prose", "openai", 0, "code: rate_limit_exceeded", Unknown},
		{"words that promise a retry", "openai", 400, "Temporary problem, please try again later.", InvalidRequest},
		{"words that promise a retry, no status", "openai", 0, "Please try again in 5 seconds.", Unknown},
		{"statuses in prose", "openai", 0, "got 503 from upstream, 429 before", Unknown},
	} {
		t.Run(c.provider+" "+c.name, func(t *testing.T) {
			out := FromResponse(Facts{Provider: c.provider, Phase: PhaseOpen, Now: now}, c.status, nil, []byte(c.body))
			if out.Class != c.class {
				t.Errorf("%v by %q, want %v", out.Class, out.Rule, c.class)
			}
		})
	}
}

// TestSentencesAreBound: every sentence matches itself from its vendor, and nothing with a
// word or a dot more that the pattern does not leave open.
func TestSentencesAreBound(t *testing.T) {
	for _, r := range sentenceRows {
		said := strings.ReplaceAll(r.pattern, "*", "xyz")
		if s := known(said, r.vendor); s == nil || s.class != r.class {
			t.Errorf("%q does not match itself", r.pattern)
		}
		if s := known("Note: "+said, r.vendor); s != nil && !strings.HasPrefix(s.pattern, "*") {
			t.Errorf("%q matches with a word before it", r.pattern)
		}
		if s := known(said+"!", r.vendor); s != nil && !strings.HasSuffix(s.pattern, "*") {
			t.Errorf("%q matches with more behind it", r.pattern)
		}
		if r.vendor != "" && known(said, "nobody") != nil && known(said, "") == nil {
			t.Errorf("%q matches for any vendor", r.pattern)
		}
	}
}

// TestTables: words deny and never grant; every row names its source; no row hides another.
func TestTables(t *testing.T) {
	seen := make(map[string]bool)
	once := func(kind, key, source string) {
		t.Helper()
		if !strings.HasPrefix(source, "https://") {
			t.Errorf("%s %s: source %q is no address", kind, key, source)
		}
		if seen[kind+key] {
			t.Errorf("%s %s comes twice", kind, key)
		}
		seen[kind+key] = true
	}
	for _, r := range wordsRows {
		once("words ", r.words, r.source)
		if r.class.Retryable() || r.class == Unknown {
			t.Errorf("words %q grant %v", r.words, r.class)
		}
		if r.words != lowerASCII(r.words) {
			t.Errorf("words %q are not in lower case", r.words)
		}
	}
	for _, r := range codeRows {
		once("code ", r.vendor+" "+canonCode(r.code)+" "+string(r.phase), r.source)
		if r.vendor != "" && !isVendor(r.vendor) {
			t.Errorf("code %q: no vendor %q", r.code, r.vendor)
		}
	}
	for _, r := range sentenceRows {
		once("sentence ", r.vendor+" "+r.pattern, r.source)
		if r.vendor != "" && !isVendor(r.vendor) {
			t.Errorf("sentence %q: no vendor %q", r.pattern, r.vendor)
		}
	}
	for _, r := range statusRows {
		once("status ", r.vendor+" "+http.StatusText(r.status)+string(rune(r.status)), r.source)
	}
	for _, r := range wrapperRows {
		once("wrapper ", r.pattern, r.source)
	}
	for _, r := range quotedRows {
		once("quoted ", r.pattern, r.source)
	}
	for _, r := range textRows {
		once("text ", r.words, r.source)
	}
	for rule := range perKey {
		if !seen["words "+strings.TrimPrefix(rule, "words:")] {
			t.Errorf("no rule %q", rule)
		}
	}
}

func isVendor(name string) bool {
	for _, r := range vendorRows {
		if r.vendor == name {
			return true
		}
	}
	return false
}

// TestVendor: a known host wins over the name that somebody chose. F26.
func TestVendor(t *testing.T) {
	for _, c := range []struct{ name, host, vendor string }{
		{"claude", "", "anthropic"}, {"azure-openai", "", "azure"}, {"my-thing", "", ""}, {"", "", ""},
		{"mine", "api.openai.com", "openai"}, {"openai", "api.anthropic.com", "anthropic"}, {"mine", "api.openai.com:443", "openai"},
		{"mine", "acme.openai.azure.com", "azure"}, {"mine", "bedrock-runtime.eu-west-1.amazonaws.com", "bedrock"},
		{"mine", "us-central1-aiplatform.googleapis.com", "vertex"}, {"mine", "notapi.openai.com.evil.example", ""}, {"mine", "evilopenrouter.ai", ""},
	} {
		if got := vendorOf(&Facts{Provider: c.name, Host: c.host}); got != c.vendor {
			t.Errorf("%q at %q is %q, want %q", c.name, c.host, got, c.vendor)
		}
	}
	out := FromResponse(Facts{Provider: "p", Dialect: "chat", Model: "m", Phase: PhaseOpen}, 500, nil, []byte(`{"provider":"other","model":"else"}`))
	if out.Provider != "p" || out.Dialect != "chat" || out.Model != "m" {
		t.Errorf("identity comes from the attempt, not from the body: %+v", out)
	}
}

// TestRotation: N45. A typed code may say that a 403 is about the key; a per-key limit is
// marked as one; other 403 are not.
func TestRotation(t *testing.T) {
	for _, c := range []struct {
		status  int
		body    string
		invalid bool
		perKey  bool
	}{
		{401, `{"error":{"code":"forbidden"}}`, true, false},
		{401, ``, true, false},
		{403, `{"error":{"code":"invalid_api_key"}}`, true, false},
		{403, `{"error":{"message":"invalid api key"}}`, false, false},
		{403, ``, false, false},
		{403, `{"error":{"message":"Key limit exceeded (total limit). Manage it using https://openrouter.ai/settings/keys"}}`, false, true},
		{402, ``, false, false},
	} {
		out := FromResponse(Facts{}, c.status, nil, []byte(c.body))
		if out.KeyInvalid != c.invalid || out.PerKey != c.perKey {
			t.Errorf("%d %s: key invalid %v, per key %v", c.status, c.body, out.KeyInvalid, out.PerKey)
		}
	}
}

// TestDenied: a provider's own word that a retry is of no use denies it and leaves the class;
// so does a certificate that a proxy does not trust.
func TestDenied(t *testing.T) {
	for _, c := range []struct {
		status       int
		header, body string
		class        Class
		retryable    bool
	}{
		{503, "X-Should-Retry: false", "", Overloaded, false},
		{503, "X-Should-Retry: true", "", Overloaded, true},
		{400, "X-Should-Retry: true", "", InvalidRequest, false},
		{522, "", `{"error_name":"connection_timeout","status":522,"cloudflare_error":true,"retryable":false}`, Timeout, false},
		{522, "", `{"error_name":"connection_timeout","status":522,"retryable":false}`, Timeout, true},
		{502, "", "tls: failed to verify certificate: x509: certificate signed by unknown authority", Network, false},
	} {
		out := FromResponse(Facts{Phase: PhaseOpen, Now: now}, c.status, headers(c.header), []byte(c.body))
		if out.Class != c.class || out.Retryable != c.retryable {
			t.Errorf("%d %s %s: %v, retryable %v", c.status, c.header, c.body, out.Class, out.Retryable)
		}
	}
}

// TestGlob: patterns cover the whole text, and no hole is empty.
func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"a", "", false}, {"a*b", "axb", true}, {"a*b", "ab", false}, {"a*b", "axbx", false},
		{"*b", "ab", true}, {"*b", "b", false}, {"a*", "ab", true}, {"a*", "a", false}, {"a*b*c", "axbxc", true}, {"a*c", "abcbc", true},
		{"*", "x", true}, {"*", "", false}, {"a {rest}", "a b c", true}, {"", "", true}, {"", "a", false},
	} {
		if got := compile(c.pattern).match(c.text, nil); got != c.want {
			t.Errorf("%q and %q: %v", c.pattern, c.text, got)
		}
	}
}

// TestStreams: how a recorded stream ended. N56.
func TestStreams(t *testing.T) {
	chat := func(content, finish string) string {
		return `{"choices":[{"delta":{"content":"` + content + `"},"finish_reason":` + finish + `}]}`
	}
	const call = `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"x","arguments":"{\"a"}}]}}]}`
	for _, c := range []struct {
		name   string
		frames []string
		class  Class
	}{
		{"nothing", nil, StreamInterrupted},
		{"no end", []string{chat("hi", "null")}, StreamInterrupted},
		{"done without a finish reason", []string{chat("hi", "null"), "[DONE]"}, StreamInterrupted},
		{"half a tool call", []string{call}, StreamInterrupted},
		{"an answer of nothing", []string{chat("", "null"), chat("", `"stop"`), "[DONE]"}, ServerError},
		{"a tool call and nothing else", []string{call, chat("", `"tool_calls"`)}, Unknown},
		{"a whole answer", []string{chat("hi", "null"), chat("", `"stop"`), "[DONE]"}, Unknown},
		{"filtered", []string{chat("hi", "null"), chat("", `"content_filter"`), "[DONE]"}, ContentFiltered},
		{"finish reason error", []string{chat("hi", "null"), chat("", `"error"`), "[DONE]"}, ServerError},
		{"the overload told as the answer", []string{chat("The engine is currently overloaded, please try again later", "null"), chat("", `"stop"`)}, Overloaded},
		{"incomplete by a filter", []string{`{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}`}, ContentFiltered},
		{"failed without an error", []string{`{"type":"response.failed","response":{"status":"failed","error":null}}`}, ServerError},
		{"completed", []string{`{"type":"response.output_text.delta","delta":"hi"}`, `{"type":"response.completed","response":{"status":"completed"}}`}, Unknown},
		{"a refusal", []string{`{"type":"message_delta","delta":{"stop_reason":"refusal"}}`, `{"type":"message_stop"}`}, ContentFiltered},
		{"a stop reason without message_stop", []string{`{"type":"content_block_delta","delta":{"text":"hi"}}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`}, Unknown},
		{"Gemini, malformed", []string{`{"candidates":[{"content":{"parts":[]},"finishReason":"MALFORMED_FUNCTION_CALL"}]}`}, ServerError},
		{"Gemini, nothing", []string{`{"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"STOP"}]}`}, ServerError},
		{"Gemini, blocked", []string{`{"promptFeedback":{"blockReason":"SAFETY"}}`}, ContentFiltered},
		{"Ollama", []string{`{"message":{"content":"hi"},"done":false}`, `{"message":{"content":""},"done":true}`}, Unknown},
		{"an error between", []string{chat("hi", "null"), `{"error":{"code":503,"message":"gone"}}`, chat("", `"error"`)}, Overloaded},
	} {
		in := struct {
			Provider string              `json:"provider"`
			Phase    Phase               `json:"phase"`
			SSE      []map[string]string `json:"sse"`
		}{"openai", PhaseStream, []map[string]string{}}
		for _, f := range c.frames {
			in.SSE = append(in.SSE, map[string]string{"data": f})
		}
		line, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		recorded, err := ParseCase(line)
		if err != nil {
			t.Fatal(err)
		}
		if out, _ := recorded.Classify(); out.Class != c.class {
			t.Errorf("%s: %v by %q, want %v", c.name, out.Class, out.Rule, c.class)
		}
	}
}

// TestUnknownCode: F24. A code that no table knows is kept and grants nothing.
func TestUnknownCode(t *testing.T) {
	out := FromStream(Facts{Phase: PhaseStream}, []byte(`{"error":{"code":"please_retry","type":"transient_error","message":"Transient."}}`))
	if out.Code != "please_retry" || out.Type != "transient_error" || out.Class != Unknown || out.Retryable {
		t.Errorf("%+v", out)
	}
}

// TestStops: terminal reasons that are failures, and those that are none. F31, N56.
func TestStops(t *testing.T) {
	for stop, want := range map[llm.StopReason]Class{llm.StopFiltered: ContentFiltered, llm.StopMalformed: ServerError} {
		if out := FromStop(Facts{Provider: "p"}, stop); out == nil || out.Class != want || out.Provider != "p" || out.Retryable != want.Retryable() {
			t.Errorf("%s: %v", stop, out)
		}
	}
	for _, stop := range []llm.StopReason{llm.StopEnd, llm.StopToolCalls, llm.StopLength, llm.StopSequence, llm.StopPaused, "", "else"} {
		if out := FromStop(Facts{}, stop); out != nil {
			t.Errorf("%s: %v", stop, out)
		}
	}
}

// TestMakers: our own failures. N56: a local defect is never retried.
func TestMakers(t *testing.T) {
	for _, c := range []struct {
		out       *Failure
		class     Class
		retryable bool
		delivered llm.Delivery
	}{
		{NewLocal("staged_bytes", "too much"), Local, false, llm.MaybeAccepted},
		{NewCancelled(nil), Cancelled, false, llm.MaybeAccepted},
		{NewInterrupted(), Interrupted, true, llm.MaybeAccepted},
		{NewUnresolved(Facts{}, "no key"), CredentialsUnresolved, false, llm.NeverSent},
		{NewTimeout(Facts{}, "connect_timeout", time.Second), Timeout, true, llm.NeverSent},
		{NewTimeout(Facts{}, "idle_timeout", time.Second), Timeout, true, llm.MaybeAccepted},
	} {
		if c.out.Class != c.class || c.out.Retryable != c.retryable || c.out.Delivered != c.delivered || c.out.Rule == "" || c.out.Message == "" {
			t.Errorf("%+v", c.out)
		}
	}
}

// TestBodies: one error in every encoding and every wrapping. Bodies are bounded.
func TestBodies(t *testing.T) {
	const plain = `{"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}`
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write([]byte(plain)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	wide := func(order func(uint16) [2]byte) (b []byte) {
		for _, u := range utf16.Encode([]rune("\uFEFF" + plain)) {
			two := order(u)
			b = append(b, two[0], two[1])
		}
		return b
	}
	quoted, err := json.Marshal(plain)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := json.Marshal(`{"message":` + string(quoted) + `}`)
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"plain":            plain,
		"an array":         "[" + plain + "]",
		"a string":         string(quoted),
		"in a message":     `{"error":{"message":` + string(quoted) + `,"code":"upstream_error"}}`,
		"twice":            `{"message":` + string(twice) + `}`,
		"behind words":     "Upstream said: " + plain,
		"Python":           `{'error': {'message': "Rate limit reached", 'type': 'tokens', 'code': 'rate_limit_exceeded', 'param': None}}`,
		"JavaScript":       `{ error: { message: 'Rate limit reached', code: 'rate_limit_exceeded', param: undefined } }`,
		"event stream":     "event: error\ndata: " + plain + "\n\n",
		"event stream end": "data: " + plain + "\n\ndata: [DONE]\n\n",
		"truncated":        plain[:len(plain)-3],
		"byte order mark":  "\xef\xbb\xbf" + plain,
		"UTF-16 little":    string(wide(func(u uint16) [2]byte { return [2]byte{byte(u), byte(u >> 8)} })),
		"UTF-16 big":       string(wide(func(u uint16) [2]byte { return [2]byte{byte(u >> 8), byte(u)} })),
		"gzip":             zipped.String(),
		"Latin-1":          "{\"city\":\"M\xfcnchen\"," + plain[1:],
		"much behind it":   plain + strings.Repeat(" padding", 1<<20),
		"much in it":       `{"pad":"` + strings.Repeat("x", 100<<10) + `",` + plain[1:],
		"deep":             `{"error":` + strings.Repeat(`{"error":`, 8) + plain + strings.Repeat("}", 9),
	} {
		before := strings.Clone(body)
		h := http.Header{"Content-Type": {"application/json; charset=iso-8859-1"}}
		out := FromResponse(Facts{Provider: "some", Phase: PhaseOpen, Now: now}, 200, h, []byte(body))
		if out.Class != RateLimited || out.Code != "rate_limit_exceeded" {
			t.Errorf("%s: %v by %q, code %q, message %q", name, out.Class, out.Rule, out.Code, clip(out.Message, 100))
		}
		if len(out.Message) > maxMessage || len(out.Body) > maxRaw || body != before || len(h) != 1 {
			t.Errorf("%s: %d bytes of message, %d of body", name, len(out.Message), len(out.Body))
		}
	}
}

// TestFromText: what a person pastes.
func TestFromText(t *testing.T) {
	for text, want := range map[string]Class{
		"API Error: 529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}": Overloaded,
		"Error: connect ECONNREFUSED 127.0.0.1:11434":                                                              Network,
		"httpx.ReadTimeout":       Timeout,
		"something else entirely": Unknown,
		"":                        Unknown,
		"HTTP/1.1 402 Payment Required\r\nServer: nginx\r\n\r\nno": QuotaExhausted,
		"HTTP/2 529": Overloaded,
		"HTTP/1.1 503 Service Unavailable\nno header\n\nno": Unknown,
	} {
		if out := FromText(Facts{Phase: PhaseOpen, Now: now}, text); out.Class != want {
			t.Errorf("%q: %v by %q, want %v", text, out.Class, out.Rule, want)
		}
	}
}

// TestPastedAnswer: a whole answer has its headers' word, too.
func TestPastedAnswer(t *testing.T) {
	out := FromText(Facts{Provider: "groq", Phase: PhaseOpen, Now: now},
		"HTTP/2 429 \r\ncontent-type: application/json\r\nretry-after: 20\r\nx-request-id: req_1\r\n\r\n{\"error\":{\"message\":\"slow\",\"code\":\"rate_limit_exceeded\"}}\n")
	if out.Class != RateLimited || out.NotBefore.Sub(now) != 20*time.Second || out.Hint != "retry-after" || out.RequestID != "req_1" || out.Status != 429 || out.Message != "slow" {
		t.Errorf("%+v", out)
	}
}

// TestBecause: every rule that a failure can have is put into words of its own.
func TestBecause(t *testing.T) {
	for rule, want := range map[string]string{
		"code:any:rate_limited":     "the code or type rate_limited, whoever sends it",
		"code:zhipu:1305":           "the code or type 1305 as zhipu uses it",
		"code:any:" + windowDay:     "the " + windowDay,
		"sentence:any:x: y":         "the complete sentence “x: y”",
		"sentence:openai:x":         "the complete sentence “x”, which is openai's",
		"words:key+limit":           "the words “key” and “limit”: no retry would help",
		"status:429":                "the status 429",
		"text:econnreset":           "the words of a network library: “econnreset”",
		"transport:dial":            "what the network did: dial",
		"first_event_timeout":       "the rule first_event_timeout",
		"header:" + unifiedStatus:   "the header " + unifiedStatus + " says that the plan's window is spent",
		"request_limit:of the step": "the rule request_limit:of the step",
	} {
		if got := (&Failure{Rule: rule}).Because(); got != want {
			t.Errorf("%s: %q, want %q", rule, got, want)
		}
	}
	for _, file := range []string{recordedCases, furtherCases} {
		for _, c := range readCases(t, file) {
			if out, _ := c.Classify(); strings.HasPrefix(out.Because(), "the rule ") || out.Source == "" {
				t.Errorf("%s: %q by %q", c.ID, out.Because(), out.Source)
			}
		}
	}
}

// TestParseCase: unusable lines say what is wrong with them.
func TestParseCase(t *testing.T) {
	for line, want := range map[string]string{
		"": "read case", "{": "read case", `{"id":"x","now":"yesterday"}`: `"x": now`, `{"id":"x","phase":"later"}`: "phase", `{"id":"x","status":-1}`: "status",
	} {
		if _, err := ParseCase([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
	c, err := ParseCase([]byte(`{"id":"x","provider":"openai","status":null,"headers":{"Retry-After":"3"},"body":null}`))
	if _, a := c.Classify(); err != nil || a.ID != "x" || a.RetryAfterMS != nil {
		t.Errorf("%+v %v", a, err)
	}
}

// TestHostileBodies: what is made to be slow is not, and what lies beyond the bound is not
// read. BenchmarkHostile has the times.
func TestHostileBodies(t *testing.T) {
	beyond := `{"pad":"` + strings.Repeat("x", MaxBody) + `","code":"rate_limit_exceeded"}`
	for _, body := range append(hostile(), beyond) {
		if out := FromResponse(Facts{Provider: "some", Phase: PhaseOpen, Now: now}, 0, nil, []byte(body)); out.Class != Unknown {
			t.Errorf("%s…: %v by %q", body[:20], out.Class, out.Rule)
		}
	}
}

// hostile (N20) returns bodies of full size that repeat what parsers backtrack on.
func hostile() []string {
	var all []string
	for _, unit := range []string{"[{", "{", "[", `{"a":`, `{"`, "Error: ", `\u0061`, "a@", "key=", "try again in 1", `{"message":"{`, "data:\n", "x: y ", "*", "until 2"} {
		all = append(all, strings.Repeat(unit, MaxBody/len(unit)), "words "+strings.Repeat(unit, MaxBody/len(unit)))
	}
	return all
}

// TestImmutable: F34. The same answer gives the same failure; what is handed in stays as it
// is; a failure survives its JSON.
func TestImmutable(t *testing.T) {
	for _, c := range readCases(t, recordedCases) {
		one, _ := c.Classify()
		two, _ := c.Classify()
		if one.cause != nil {
			continue
		}
		if !reflect.DeepEqual(one, two) {
			t.Errorf("%s: %+v and %+v", c.ID, one, two)
		}
		line, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		var three Failure
		if err := json.Unmarshal(line, &three); err != nil || !reflect.DeepEqual(*one, three) {
			t.Errorf("%s: %s came back as %+v (%v)", c.ID, line, three, err)
		}
	}
}

// FuzzFromResponse: nothing that a server can send makes it panic, hang or break its bounds,
// and no class is retryable that is none.
func FuzzFromResponse(f *testing.F) {
	for _, c := range readCases(f, recordedCases) {
		if c.Body != nil {
			f.Add(c.Status, "Retry-After", "3", []byte(*c.Body))
		}
	}
	f.Add(200, "Content-Encoding", "deflate", []byte("[[[[[[[[{{{{{{\"\\u00"))
	f.Fuzz(func(t *testing.T, status int, key, value string, body []byte) {
		out := FromResponse(Facts{Provider: "openrouter", Phase: PhaseOpen, Now: now}, status, http.Header{http.CanonicalHeaderKey(key): {value}}, body)
		if out.Rule == "" || len(out.Message) > maxMessage || len(out.Body) > maxRaw || out.Retryable && !out.Class.Retryable() {
			t.Fatalf("%+v", out)
		}
		if d := out.NotBefore.Sub(now); out.Hint != "" && (d < 0 || d > maxWait) {
			t.Fatalf("wait of %v", d)
		}
	})
}

// FuzzLoose reads at least what encoding/json reads.
func FuzzLoose(f *testing.F) {
	f.Add(`{"a":[1,"b",null,true,{"c":"\u00e9\n"}]}`)
	f.Fuzz(func(t *testing.T, s string) {
		var want map[string]string
		if json.Unmarshal([]byte(s), &want) != nil || len(want) != 1 {
			parse(s)
			return
		}
		n, _ := parse(s)
		for k, v := range want {
			if strings.ContainsAny(s, `\`) {
				return // escapes of control characters become spaces
			}
			if got := n.get(k); got == nil || got.kind == kindText && got.text != v {
				t.Fatalf("%q: %+v", s, n)
			}
		}
	})
}
