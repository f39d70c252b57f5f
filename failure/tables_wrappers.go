package failure

import (
	"net/http"
	"strconv"
	"strings"
)

// wrapperRow is a fixed form in which a client, a relay or a log line quotes another error.
// {rest} is what it quotes; {status}, {httpreason}, {code}, {exception} and {vendor} say
// something about it; {reason} is a short phrase and says nothing;
// * is anything. Only these forms make a number or a name in prose a fact.
// A vendor binds the form to that vendor's answers.
type wrapperRow struct{ vendor, pattern, source string }

var wrapperRows = []wrapperRow{
	{"", "litellm.{code}: {vendor}Exception - {rest}", "https://docs.litellm.ai/docs/exception_mapping"},
	{"", "litellm.{code}: {rest}", "https://docs.litellm.ai/docs/exception_mapping"},
	{"", "{exception}: {vendor}Exception - {rest}", "https://docs.litellm.ai/docs/exception_mapping"},
	{"", "{vendor}Exception - {rest}", "https://docs.litellm.ai/docs/exception_mapping"},
	{"", "API returned unexpected status code: {status}: {rest}", "https://github.com/tmc/langchaingo/blob/main/llms/openai/internal/openaiclient/chat.go"},
	{"", "API error (status {status} {reason}): {code}: {rest}", "https://github.com/Anantys-oss/koan/issues/2412"},
	{"", "API error (status {status} {reason}): {rest}", "https://github.com/Anantys-oss/koan/issues/2412"},
	{"", "API Error: {status} {rest}", "https://github.com/anthropics/claude-code/issues/8118"},
	{"", "[API Error: {rest}]", "https://github.com/QwenLM/qwen-code/issues/882"},
	{"", "API Error: {rest}", "https://github.com/anthropics/claude-code/issues/71634"},
	{"", "Error code: {status} - {rest}", "https://github.com/openai/openai-python/blob/main/src/openai/_client.py"},
	{"", "error, status code: {status}, status: {reason}, message: {rest}", "https://github.com/sashabaranov/go-openai/blob/master/error.go"},
	{"", "error, status code: {status}, message: {rest}", "https://github.com/sashabaranov/go-openai/blob/master/error.go"},
	{"", "HTTP {status} ({code})\n{rest}", "https://github.com/openai/openai-dotnet/issues/55"},
	{"", "HTTP {status} (*: {code})\n{rest}", "https://github.com/openai/openai-dotnet/issues/55"},
	{"", "HTTP code {status} from API ({rest}", "https://github.com/Helicone/helicone/issues/798"},
	{"", "HTTP {status} ({status}) {rest}", "https://github.com/alex-wolf-ps/dbchatprov2/issues/2"},
	{"", "HTTP {status}: {rest}", "https://github.com/nearai/ironclaw/issues/1994"},
	{"", "HTTP {status} {reason}: {rest}", "https://github.com/nearai/ironclaw/issues/1994"},
	{"", "Request failed with status code {status}: {rest}", "https://github.com/axios/axios/blob/v1.x/lib/core/settle.js"},
	{"", "unexpected status {status} {reason}: {rest}", "https://github.com/openai/codex/issues/9278"},
	{"", "exceeded retry limit, last status: {status} {reason}", "https://github.com/openai/codex/issues/3002"},
	{"", "stream error: {rest}", "https://github.com/openai/codex/issues/3764"},
	{"", "stream disconnected before completion: {rest}", "https://github.com/openai/codex/issues/3764"},
	{"", "Failed after * attempts. Last error: {rest}", "https://github.com/vercel/ai/blob/main/packages/ai/src/util/retry-with-exponential-backoff.ts"},
	{"", "✖ Attempt * failed with * error. Retrying with backoff... {rest}", "https://github.com/QwenLM/qwen-code/issues/73"},
	{"", "Error None: {rest}", "https://github.com/xtekky/gpt4free/issues/3032"},
	{"", "Error from provider ({vendor}): {rest}", "https://github.com/anomalyco/opencode/issues/23722"},
	{"", "Error from provider: {rest}", "https://github.com/anomalyco/opencode/issues/23722"},
	{"", "Upstream error: {rest}", "https://github.com/kaitranntt/ccs/issues/402"},
	{"", "google.api_core.exceptions.*: {status} {rest}", "https://googleapis.dev/python/google-api-core/latest/exceptions.html"},
	{"", "API Error ({rest}) · Retrying *", "https://github.com/anthropics/claude-code/issues"},
	{"", "status_code: {status}, body: {rest}", "https://github.com/cohere-ai/cohere-python/blob/main/src/cohere/core/api_error.py"},
	{"", "headers: *, status_code: {status}, body: {rest}", "https://github.com/cohere-ai/cohere-python/blob/main/src/cohere/core/api_error.py"},
	{"", "Client error '{status} {reason}' for url *", "https://github.com/encode/httpx/blob/master/httpx/_models.py"},
	{"", "Server error '{status} {reason}' for url *", "https://github.com/encode/httpx/blob/master/httpx/_models.py"},
	{"", "Request failed with status code {status}", "https://github.com/axios/axios/blob/v1.x/lib/core/settle.js"},
	{"ollama", "{rest} (status code: {status})", "https://github.com/ollama/ollama-python/blob/main/ollama/_types.py"},
	{"azure", "{rest}\nStatus: {status} ({reason})", "https://github.com/Azure/azure-sdk-for-net/blob/main/sdk/core/Azure.Core/src/RequestFailedException.cs"},
	{"azure", "{rest}\nStatus: {status} ({reason})\n*", "https://github.com/Azure/azure-sdk-for-net/blob/main/sdk/core/Azure.Core/src/RequestFailedException.cs"},
	{"", "fetch failed: {rest}", undici},
	{"", "ERROR: {rest}", "https://github.com/openai/codex/issues/9278"},
	{"", "Error: {rest}", "https://developer.mozilla.org/docs/Web/JavaScript/Reference/Global_Objects/Error/toString"},
	{"", "LLM error: {rest}", "https://github.com/nearai/ironclaw/issues/1994"},
	{"", "Provider * request failed: {rest}", "https://github.com/nearai/ironclaw/issues/1994"},
	{"", "{vendor} API error: {rest}", "https://github.com/QwenLM/qwen-code/issues/73"},
	{"", "{vendor} error: {rest}", "https://github.com/pollinations/pollinations/issues/6260"},
	{"", "An error occurred ({code}) when calling the * operation: {rest}", "https://github.com/boto/botocore/blob/develop/botocore/exceptions.py"},
	{"", "An error occurred ({code}) when calling the * operation (reached max retries: *): {rest}", "https://github.com/boto/botocore/blob/develop/botocore/exceptions.py"},
	{"", "*: operation error *, https response error StatusCode: {status}, RequestID: *, {exception}: {rest}", "https://github.com/aws/smithy-go/blob/main/errors.go"},
	{"", "operation error *, https response error StatusCode: {status}, RequestID: *, {exception}: {rest}", "https://github.com/aws/smithy-go/blob/main/errors.go"},
	{"", "{exception} (HTTP Status Code: {status}): {rest}", "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ResponseStream.html"},
	{"", "* [GoogleGenerativeAI Error]: Error fetching from *: [{status} *] {rest}", "https://github.com/google-gemini/deprecated-generative-ai-js/blob/main/packages/main/src/requests/request.ts"},
	{"", "[GoogleGenerativeAI Error]: Error fetching from *: [{status} *] {rest}", "https://github.com/google-gemini/deprecated-generative-ai-js/blob/main/packages/main/src/requests/request.ts"},
	{"", "{status} {google} {rest}", "https://github.com/googleapis/python-genai/blob/main/google/genai/errors.py"},
	{"", "got status: {google}. {rest}", "https://github.com/googleapis/js-genai/blob/main/src/errors.ts"},
	{"", "got status: {status} {reason}. {rest}", "https://github.com/googleapis/js-genai/blob/main/src/errors.ts"},
	{"", "{code} · response.failed · {rest}", "https://github.com/james-6-23/codex2api/issues/310"},
	{"", "message: {rest} type: * param: * code: *", "https://github.com/agi-merge/waggle-dance/issues/53"},
	{"", "[{number}][{rest}", "https://github.com/NanmiCoder/cc-haha/issues/1266"},
	{"", "Unable to round-trip http request to upstream: {rest}", "https://github.com/langmanus/langmanus/issues/44"},
	{"", "The model returned the following errors: {rest}", "https://docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html"},
	{"", "Upstream error from {vendor}: {rest}", "https://openrouter.ai/docs/api-reference/errors"},
	{"", "* | {status}: {rest}", "https://developers.cloudflare.com/support/troubleshooting/http-status-codes/"},
	{"minimax", "{rest} ({number})", "https://github.com/MiniMax-AI/MiniMax-M2/issues/62"},
	{"", "{status}: {rest}", "https://github.com/diegosouzapw/OmniRoute/issues/3709"},
	{"", "{status} {rest}", "https://github.com/openai/openai-node/blob/master/src/core/error.ts"},
	{"", "{httpreason}: {rest}", "https://github.com/anomalyco/opencode/issues/17682"},
	{"", "{exception}: {rest}", "https://docs.python.org/3/library/traceback.html"},
}

var wrapperIndex = indexWrappers()

type wrapper struct {
	glob   glob
	vendor string
	relay  bool   // labels another's error
	first  string // the literal text that the pattern begins with
}

func indexWrappers() []wrapper {
	all := make([]wrapper, len(wrapperRows))
	for i, r := range wrapperRows {
		g := compile(r.pattern)
		all[i] = wrapper{glob: g, vendor: r.vendor, relay: strings.Contains(r.pattern, "{vendor}") || strings.HasPrefix(r.pattern, "litellm.")}
		if g[0].hole == "" {
			all[i].first = g[0].text
		}
	}
	return all
}

// reasonStatus gives the statuses of failures by the reason of their status line.
var reasonStatus = func() map[string]int {
	m := make(map[string]int)
	for status := 400; status < 600; status++ {
		if r := http.StatusText(status); r != "" && r != "Not Found" && r != "Conflict" && r != "Gone" && r != "Locked" {
			m[r] = status
		}
	}
	return m
}()

// clientTails are what clients add behind the error that they quote.
var clientTails = []string{"; retrying ", ", url: http", "\n\nRequest URL: ", ", request id: ", "\n    at "}

// wrapping is what a wrapper says by itself.
type wrapping struct {
	layer
	relay bool
}

// unwrap recognises a wrapper, and returns what it says and the text that it quotes.
func unwrap(s, vendor string) (wrapping, string, bool) {
	if len(s) > 64<<10 {
		return wrapping{}, "", false
	}
	for _, t := range clientTails {
		if i := strings.Index(s, t); i > 0 {
			s = strings.TrimSpace(s[:i])
		}
	}
	for i := range wrapperIndex {
		w := &wrapperIndex[i]
		if w.vendor != "" && w.vendor != vendor || w.first != "" && !strings.HasPrefix(s, w.first) {
			continue
		}
		l := wrapping{relay: w.relay}
		var rest string
		ok := w.glob.match(s, func(hole, text string) bool {
			switch hole {
			case "rest":
				rest = text
				return true
			case "status":
				n, err := strconv.Atoi(text)
				l.status = n
				return err == nil && n >= 400 && n < 600
			case "code":
				l.codes = append(l.codes, text)
				return word(text)
			case "google":
				l.codes = append(l.codes, text)
				return word(text) && strings.ToUpper(text) == text && !isDigits(text)
			case "reason":
				if rest == "" {
					rest = text
				}
				return phrase(text)
			case "httpreason":
				l.status = reasonStatus[text]
				return l.status != 0
			case "number":
				l.codes = append(l.codes, text)
				return isDigits(text)
			case "exception":
				if !word(text) || !strings.HasSuffix(text, "Exception") && !strings.HasSuffix(text, "Error") {
					return false
				}
				l.types = append(l.types, text)
			case "vendor":
				l.vendor = vendorNamed(text)
				return l.vendor != ""
			default:
				return len(text) < 400
			}
			return true
		})
		switch {
		case !ok:
		case strings.TrimSpace(rest) != "":
			return l, rest, true
		case rest == "" && l.status != 0: // the form says all that there is
			l.message = s
			return l, "", true
		}
	}
	return wrapping{}, "", false
}

// phrase reports whether a text could be a status line's reason.
func phrase(s string) bool {
	for i := range len(s) {
		if !isAlpha(s[i]) && s[i] != ' ' && s[i] != '-' && s[i] != '\'' {
			return false
		}
	}
	return len(s) < 48
}

// word reports whether a text could be a code: letters, digits and separators.
func word(s string) bool {
	for i := range len(s) {
		if !isAlnum(s[i]) && s[i] != '_' && s[i] != '-' && s[i] != '.' {
			return false
		}
	}
	return s != "" && len(s) < 80
}
