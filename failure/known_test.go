package failure

import (
	"net/http"
	"testing"
	"time"
)

// answers are documented answers of providers beyond the recorded cases. wait: 0 none stated,
// else the stated wait.
var answers = []struct {
	name, provider string
	status         int
	header         string // "Key: value"
	body           string
	class          Class
	wait           time.Duration
}{
	// OpenAI.
	{"insufficient_quota", "openai", 429, "", `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, QuotaExhausted, 0},
	{"insufficient_quota with a retry header", "openai", 429, "Retry-After: 2", `You exceeded your current quota, please check your plan and billing details.`, QuotaExhausted, 2 * time.Second},
	{"not active", "openai", 429, "", `{"error":{"message":"Your account is not active, please check your billing details on our website.","type":"billing_not_active","param":null,"code":"billing_not_active"}}`, QuotaExhausted, 0},
	{"tpm", "openai", 429, "", `{"error":{"message":"Rate limit reached for gpt-4o in organization org-abc on tokens per min (TPM): Limit 30000, Used 29937, Requested 385. Please try again in 6m0s.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, RateLimited, 6 * time.Minute},
	{"rpd of twelve hours", "openai", 429, "", `{"error":{"message":"Rate limit reached for gpt-4o in organization org-abc on requests per day (RPD): Limit 100, Used 100, Requested 1. Please try again in 12h34m16s.","type":"requests","param":null,"code":"rate_limit_exceeded"}}`, QuotaExhausted, 12*time.Hour + 34*time.Minute + 16*time.Second},
	{"context", "openai", 400, "", `{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, ContextOverflow, 0},
	{"context that mentions 503, N55", "openai", 503, "", `{"error":{"message":"upstream 503: this model's maximum context length is 8192 tokens","type":"server_error"}}`, ContextOverflow, 0},
	{"key", "openai", 401, "", `{"error":{"message":"Incorrect API key provided: sk-abcd1234. You can find your API key at https://platform.openai.com/account/api-keys.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, AuthFailed, 0},
	{"country", "openai", 403, "", `{"error":{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported","param":null,"type":"request_forbidden"}}`, PermissionDenied, 0},
	{"a code before a sentence, F23", "openai", 429, "", `{"error":{"code":"rate_limit_exceeded","message":"The engine is currently overloaded, please try again later"}}`, RateLimited, 0},
	{"server error", "openai", 500, "", `{"error":{"message":"The server had an error while processing your request. Sorry about that!","type":"server_error","param":null,"code":null}}`, ServerError, 0},
	{"overloaded", "openai", 503, "", `{"error":{"message":"The engine is currently overloaded, please try again later","type":"server_error","param":null,"code":null}}`, Overloaded, 0},
	{"unsupported parameter", "openai", 400, "", `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`, InvalidRequest, 0},
	{"usage policy", "openai", 400, "", `{"error":{"message":"Invalid prompt: your prompt was flagged as potentially violating our usage policy.","type":"invalid_request_error","param":null,"code":"invalid_prompt"}}`, ContentFiltered, 0},
	{"reset headers, the bucket with nothing left", "openai", 429, "X-Ratelimit-Remaining-Requests: 0\nX-Ratelimit-Reset-Requests: 1m2s\nX-Ratelimit-Remaining-Tokens: 12\nX-Ratelimit-Reset-Tokens: 9m", ``, RateLimited, 62 * time.Second},
	// Anthropic.
	{"529", "anthropic", 529, "", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, Overloaded, 0},
	{"filter", "anthropic", 400, "", `{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}`, ContentFiltered, 0},
	{"model", "anthropic", 404, "", `{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}`, ModelNotFound, 0},
	{"permission", "anthropic", 403, "", `{"type":"error","error":{"type":"permission_error","message":"Your API key does not have permission to use the specified resource."}}`, PermissionDenied, 0},
	{"credential", "anthropic", 400, "", `{"type":"error","error":{"type":"invalid_request_error","message":"This credential is only authorized for use with Claude Code and cannot be used for other API requests."}}`, PermissionDenied, 0},
	{"tool results", "anthropic", 400, "", "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"messages.3: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1.\"}}", InvalidRequest, 0},
	{"plan window", "anthropic", 429, "Anthropic-Ratelimit-Unified-Status: rejected\nAnthropic-Ratelimit-Unified-Reset: 1777897800", `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your account's rate limit. Please try again later."}}`, QuotaExhausted, 30 * time.Minute},
	{"retry-after", "anthropic", 429, "Retry-After: 41", `{"type":"error","error":{"type":"rate_limit_error","message":"Number of request tokens has exceeded your per-minute rate limit"}}`, RateLimited, 41 * time.Second},
	{"timeout", "anthropic", 504, "", `{"type":"error","error":{"type":"timeout_error","message":"Request timed out"}}`, Timeout, 0},
	{"not the user's limit", "anthropic", 0, "", "API Error: Server is temporarily limiting requests (not your usage limit) · Rate limited", RateLimited, 0},
	{"repeated", "anthropic", 0, "", "API Error: Repeated 529 Overloaded errors", Overloaded, 0},
	{"529 in a client's words", "anthropic", 0, "", "API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment.", Overloaded, 0},
	{"claude.ai", "anthropic", 0, "", `Claude AI usage limit reached|1777899600`, QuotaExhausted, time.Hour},
	// Google.
	{"capacity with 429", "antigravity", 429, "", `{"error":{"code":429,"message":"No capacity available for model gemini-2.5-pro on the server","errors":[{"message":"No capacity available","domain":"global","reason":"rateLimitExceeded"}],"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"MODEL_CAPACITY_EXHAUSTED","domain":"cloudcode-pa.googleapis.com","metadata":{"model":"gemini-2.5-pro"}}]}}`, Overloaded, 0},
	{"key", "gemini", 400, "", `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com","metadata":{"service":"generativelanguage.googleapis.com"}}]}}`, AuthFailed, 0},
	{"service disabled", "vertex", 403, "", `{"error":{"code":403,"message":"Vertex AI API has not been used in project 123 before or it is disabled.","status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"SERVICE_DISABLED"}]}}`, PermissionDenied, 0},
	{"model", "gemini", 404, "", `{"error":{"code":404,"message":"models/gemini-9 is not found for API version v1beta, or is not supported for generateContent.","status":"NOT_FOUND"}}`, ModelNotFound, 0},
	{"overloaded", "gemini", 503, "", `{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`, Overloaded, 0},
	{"deadline", "gemini", 504, "", `{"error":{"code":504,"message":"Deadline expired before operation could complete.","status":"DEADLINE_EXCEEDED"}}`, Timeout, 0},
	{"internal", "gemini", 500, "", `{"error":{"code":500,"message":"Internal error encountered.","status":"INTERNAL"}}`, ServerError, 0},
	{"location", "gemini", 400, "", `{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}`, PermissionDenied, 0},
	{"safety", "gemini", 200, "", `{"candidates":[{"finishReason":"SAFETY","index":0}],"usageMetadata":{"promptTokenCount":9}}`, ContentFiltered, 0},
	{"blocked prompt", "gemini", 200, "", `{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}`, ContentFiltered, 0},
	{"a day beside a minute", "gemini", 429, "", `{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier","quotaValue":"10"},{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaValue":"250"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"17s"}]}}`, QuotaExhausted, 0},
	{"an allowance of none", "gemini", 429, "", `{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier","quotaValue":"0"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"17s"}]}}`, QuotaExhausted, 0},
	{"a minute and no wait", "gemini", 429, "", `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateContentPaidTierInputTokensPerModelPerMinute"}]}]}}`, RateLimited, 0},
	{"a day in the metadata alone", "gemini-code-assist", 429, "", `{"error":{"code":429,"message":"Quota exceeded.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"RATE_LIMIT_EXCEEDED","metadata":{"quota_limit":"Gemini25ProRequestsPerDay"}}]}}`, QuotaExhausted, 0},
	{"words alone with a wait", "gemini", 429, "", `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.\nPlease retry in 36s."}}`, RateLimited, 36 * time.Second},
	{"words alone without one", "gemini", 429, "", `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details."}}`, QuotaExhausted, 0},
	{"python client", "gemini", 429, "", `429 RESOURCE_EXHAUSTED. {'error': {'code': 429, 'message': 'Resource has been exhausted (e.g. check quota).', 'status': 'RESOURCE_EXHAUSTED'}}`, RateLimited, 0},
	{"javascript client", "gemini", 0, "", `got status: 503 Service Unavailable. {"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`, Overloaded, 0},
	// Bedrock.
	{"tokens of a day", "bedrock", 429, "X-Amzn-Errortype: ThrottlingException", `{"message":"Too many tokens per day, please wait before trying again."}`, QuotaExhausted, 0},
	{"throttled, as botocore says it", "bedrock", 0, "", `An error occurred (ThrottlingException) when calling the InvokeModel operation (reached max retries: 4): Too many requests, please wait before trying again. You have sent too many requests.  Wait before trying again.`, RateLimited, 0},
	{"input", "bedrock", 400, "X-Amzn-Errortype: ValidationException", `{"message":"Input is too long for requested model."}`, ContextOverflow, 0},
	{"nested words", "bedrock", 400, "", `{"message":"The model returned the following errors: input length and ` + "`max_tokens`" + ` exceed context limit: 178959 + 64000 > 200000, decrease input length or ` + "`max_tokens`" + ` and try again"}`, ContextOverflow, 0},
	{"model id", "bedrock", 400, "", `{"message":"The provided model identifier is invalid."}`, ModelNotFound, 0},
	{"not ready", "bedrock", 429, "X-Amzn-Errortype: ModelNotReadyException", `{"message":"The model is not ready for inference."}`, Overloaded, 0},
	{"quota", "bedrock", 400, "X-Amzn-Errortype: ServiceQuotaExceededException", `{"message":"Your request exceeds the service quota for your account."}`, QuotaExhausted, 0},
	{"expired", "bedrock", 403, "X-Amzn-Errortype: ExpiredTokenException", `{"message":"The security token included in the request is expired"}`, AuthFailed, 0},
	{"a code of the same error", "bedrock", 503, "", `An error occurred (ServiceUnavailableException) when calling the InvokeModel operation (reached max retries: 4): Bedrock is unable to process your request.`, Overloaded, 0},
	{"no credentials", "bedrock", 0, "", `Unable to locate credentials`, CredentialsUnresolved, 0},
	{"go client", "bedrock", 0, "", `operation error Bedrock Runtime: ConverseStream, https response error StatusCode: 429, RequestID: 0000, ThrottlingException: Too many tokens, please wait before trying again.`, RateLimited, 0},
	// OpenRouter.
	{"upstream limit", "openrouter", 429, "", `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"google/gemini-2.0-flash-exp:free is temporarily rate-limited upstream. Please retry shortly, or add your own key to accumulate your rate limits.","provider_name":"Google"}},"user_id":"user_abc123"}`, RateLimited, 0},
	{"free day", "openrouter", 429, "", `{"error":{"message":"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day","code":429,"metadata":{"headers":{"X-RateLimit-Limit":"50","X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1777939200000"},"provider_name":null}}}`, QuotaExhausted, 12 * time.Hour},
	{"upstream overload", "openrouter", 502, "", `{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}","provider_name":"Anthropic"}}}`, Overloaded, 0},
	{"upstream words", "openrouter", 200, "", `{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"Overloaded","provider_name":"Anthropic"}}}`, Overloaded, 0},
	{"upstream words of another", "openrouter", 200, "", `{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"Overloaded","provider_name":"Mistral"}}}`, ServerError, 0},
	{"upstream context", "openrouter", 400, "", `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"This model's maximum context length is 131072 tokens.\",\"type\":\"BadRequestError\",\"code\":400}}","provider_name":"Together"}}}`, ContextOverflow, 0},
	{"moderation", "openrouter", 403, "", `{"error":{"message":"openai/gpt-4o requires moderation on OpenAI. Your input was flagged for \"sexual\".","code":403,"metadata":{"reasons":["sexual"],"flagged_input":"x","provider_name":"OpenAI"}}}`, ContentFiltered, 0},
	{"no endpoints", "openrouter", 404, "", `{"error":{"message":"No endpoints found for foo/bar.","code":404}}`, ModelNotFound, 0},
	{"no auth", "openrouter", 401, "", `{"error":{"message":"No auth credentials found","code":401}}`, AuthFailed, 0},
	// The others.
	{"groq day", "groq", 429, "", "{\"error\":{\"message\":\"Rate limit reached for model `llama` in organization `org_x` service tier `on_demand` on tokens per day (TPD): Limit 100000, Used 99000, Requested 5000. Please try again in 57m36s. Need more tokens? Upgrade to Dev Tier today at https://console.groq.com/settings/billing\",\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\"}}", RateLimited, 57*time.Minute + 36*time.Second},
	{"groq too large", "groq", 413, "", "{\"error\":{\"message\":\"Request too large for model `llama` in organization `org_x` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size and try again.\",\"type\":\"tokens\",\"code\":\"rate_limit_exceeded\"}}", RequestTooLarge, 0},
	{"groq flex", "groq", 498, "", `{"error":{"message":"Flex tier capacity exceeded","type":"capacity_exceeded"}}`, Overloaded, 0},
	{"mistral", "mistral", 429, "", `{"message":"Requests rate limit exceeded"}`, RateLimited, 0},
	{"mistral context", "mistral", 400, "", `{"object":"error","message":"Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","param":null,"code":"3051"}`, ContextOverflow, 0},
	{"deepseek", "deepseek", 402, "", `{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}`, QuotaExhausted, 0},
	{"deepseek busy", "deepseek", 503, "", `{"error":{"message":"Service is too busy. We advise users to temporarily switch to alternative LLM API service providers.","type":"service_unavailable_error","param":null,"code":"service_unavailable_error"}}`, Overloaded, 0},
	{"xai credits", "xai", 429, "", `{"code":"Some resource has been exhausted","error":"Your team 0b1e4c9a-1111-2222-3333-444455556666 has either used all available credits or reached its monthly spending limit."}`, QuotaExhausted, 0},
	{"xai key", "xai", 400, "", `{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***xx. You can obtain an API key from https://console.x.ai."}`, AuthFailed, 0},
	{"xai context", "xai", 400, "", `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 140000 tokens."}`, ContextOverflow, 0},
	{"moonshot concurrency", "moonshot", 429, "", `{"error":{"message":"Your account org-a1b2c3 <ak-a1b2c3> request reached max organization concurrency: 1, please try again after 1 seconds","type":"rate_limit_reached_error"}}`, RateLimited, time.Second},
	{"moonshot busy", "moonshot", 429, "", `{"error":{"message":"The engine is currently overloaded, please try again later","type":"engine_overloaded_error"}}`, Overloaded, 0},
	{"kimi plan", "kimi", 403, "", `{"error":{"message":"You've reached your usage limit for this billing cycle. Your quota will be refreshed in the next cycle. Upgrade to get more: https://www.kimi.com/code/console","type":"access_terminated_error"}}`, QuotaExhausted, 0},
	{"zhipu window", "zhipu", 429, "", `{"error":{"code":"1308","message":"Usage limit reached for 5 hour. Your limit will reset at 2026-05-04 22:00:00"}}`, QuotaExhausted, 2 * time.Hour},
	{"zhipu concurrency", "zhipu", 429, "", `{"error":{"code":"1302","message":"High concurrency usage of this API, please reduce concurrency or contact customer service to increase limits"}}`, RateLimited, 0},
	{"zhipu money", "zhipu", 429, "", `{"error":{"code":"1113","message":"Insufficient balance or no resource package. Please recharge."}}`, QuotaExhausted, 0},
	{"minimax in a 200", "minimax", 200, "", `{"base_resp":{"status_code":1002,"status_msg":"rate limit"}}`, RateLimited, 0},
	{"minimax number in words", "minimax", 500, "", `{"type":"error","error":{"type":"api_error","message":"unknown error, 999 (1000)"}}`, ServerError, 0},
	{"minimax window", "minimax", 429, "", `{"type":"error","error":{"type":"rate_limit_error","message":"usage limit exceeded, 5-hour usage limit reached for Token Plan Starter (0/0 used), resets at 2026-05-04T15:00:00Z (2056)"}}`, QuotaExhausted, 3 * time.Hour},
	{"relay of an HTTP/2 reset", "cliproxyapi", 500, "", `{"error":{"message":"stream error: stream ID 17; INTERNAL_ERROR; received from peer","type":"server_error","code":"internal_server_error"}}`, Network, 0},
	{"openrouter's error type", "openrouter", 200, "", `{"error":{"code":429,"message":"Provider returned error","metadata":{"error_type":"rate_limit_exceeded"}},"choices":[{"finish_reason":"error"}]}`, RateLimited, 0},
	{"minimax plan", "minimax", 500, "", `{"type":"error","error":{"type":"api_error","message":"your current token plan not support model, MiniMax-M2.7-highspeed (2061)"}}`, PermissionDenied, 0},
	{"dashscope throttling", "dashscope", 429, "", `{"code":"Throttling.RateQuota","message":"Requests rate limit exceeded, please try again later.","request_id":"x"}`, RateLimited, 0},
	{"dashscope tokens of a minute", "qwen", 429, "", `{"error":{"code":"insufficient_quota","message":"You exceeded your current quota, please check your plan and billing details. For details, see: https://help.aliyun.com/zh/model-studio/error-code#token-limit","param":null,"type":"insufficient_quota"},"request_id":""}`, RateLimited, 0},
	{"qwen code", "qwen-code", 0, "", `[API Error: 429 status code (no body)]`, RateLimited, 0},
	{"dashscope free", "dashscope", 403, "", `{"error":{"code":"AllocationQuota.FreeTierOnly","message":"The free tier of the model has been exhausted.","type":"AllocationQuota.FreeTierOnly"}}`, QuotaExhausted, 0},
	{"dashscope inspection", "dashscope", 400, "", `{"error":{"code":"data_inspection_failed","message":"Input data may contain inappropriate content.","type":"data_inspection_failed"}}`, ContentFiltered, 0},
	{"cerebras queue", "cerebras", 429, "", `{"message":"We're experiencing high traffic right now! Please try again soon.","type":"too_many_requests_error","param":"queue","code":"queue_exceeded"}`, Overloaded, 0},
	{"cerebras day", "cerebras", 429, "", `{"message":"Tokens per day limit exceeded - too many tokens processed.","type":"too_many_tokens_error","param":"quota","code":"token_quota_exceeded"}`, QuotaExhausted, 0},
	{"cohere minute", "cohere", 429, "", `{"message":"You are using a Trial key, which is limited to 40 API calls / minute. You can continue to use the Trial key for free or upgrade to a Production key with higher rate limits."}`, RateLimited, 0},
	{"cohere tokens", "cohere", 400, "", `{"message":"too many tokens: total number of tokens in the prompt exceeds the limit of 4081."}`, ContextOverflow, 0},
	{"copilot premium", "copilot", 402, "", `{"error":{"message":"You have no quota","code":"quota_exceeded"}}`, QuotaExhausted, 0},
	{"copilot prompt", "copilot", 400, "", `{"error":{"message":"prompt token count of 139011 exceeds the limit of 128000","code":"model_max_prompt_tokens_exceeded"}}`, ContextOverflow, 0},
	{"copilot plain", "copilot", 429, "", "quota exceeded\n", QuotaExhausted, 0},
	{"copilot wait", "copilot", 0, "", "You've hit your global rate limit. Please upgrade your plan or wait 6 seconds for your limit to reset.", RateLimited, 6 * time.Second},
	{"opencode", "copilot", 0, "", "Too Many Requests: quota exceeded", QuotaExhausted, 0},
	{"AI SDK, words", "zai-coding-plan", 0, "", "AI_RetryError: Failed after 4 attempts. Last error: Too Many Requests", RateLimited, 0},
	{"AI SDK, object", "openai", 0, "", `{"name":"AI_APICallError","url":"https://x","statusCode":429,"responseHeaders":{"retry-after":"7"},"responseBody":"{\"error\":{\"message\":\"Rate limit reached\",\"type\":\"tokens\"}}","isRetryable":true}`, RateLimited, 7 * time.Second},
	{"AWS SDK, object", "bedrock", 0, "", `{"name":"ThrottlingException","$fault":"client","$metadata":{"httpStatusCode":429,"attempts":3,"totalRetryDelay":787}}`, RateLimited, 0},
	{"a proxy's log", "zhipu", 0, "", "[glmt-proxy] Request error: Upstream error: 429 Too Many Requests\n{\"error\":{\"code\":\"1302\",\"message\":\"High concurrency usage of this API, please reduce concurrency\"}}", RateLimited, 0},
	{"github models", "github-models", 429, "", `{"error":{"code":"RateLimitReached","message":"Rate limit of 50 per 86400s exceeded for UserByModelByDay. Please wait 40000 seconds before retrying.","details":"Rate limit of 50 per 86400s exceeded for UserByModelByDay. Please wait 40000 seconds before retrying."}}`, QuotaExhausted, 40000 * time.Second},
	{"ollama memory", "ollama", 404, "", `{"error":"model \"llama9\" not found, try pulling it first"}`, ModelNotFound, 0},
	{"ollama runner", "ollama", 500, "", `{"error":"llama runner process has terminated: signal: killed"}`, ServerError, 0},
	{"lm studio", "lm-studio", 404, "", `{"error":{"message":"No models loaded. Please load a model in the developer page or use the 'lms load' command.","type":"invalid_request_error","param":"model","code":"model_not_found"}}`, ModelNotFound, 0},
	{"vllm context", "vllm", 400, "", `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.","type":"BadRequestError","param":null,"code":400}`, ContextOverflow, 0},
	{"vllm model", "vllm", 404, "", "{\"object\":\"error\",\"message\":\"The model `x` does not exist.\",\"type\":\"NotFoundError\",\"param\":null,\"code\":404}", ModelNotFound, 0},
	{"llama.cpp loading", "llama.cpp", 503, "", `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, Overloaded, 0},
	{"litellm cooldown", "litellm", 429, "", `{"error":{"message":"No deployments available for selected model, Try again in 5 seconds. Passed model=gpt-4. pre-call-checks=False, cooldown_list=[]","type":"None","param":"None","code":"429"}}`, RateLimited, 5 * time.Second},
	{"litellm context", "litellm", 400, "", `{"error":{"message":"litellm.ContextWindowExceededError: litellm.BadRequestError: OpenAIException - {\"error\":{\"message\":\"x\",\"type\":\"invalid_request_error\"}}","type":null,"param":null,"code":"400"}}`, ContextOverflow, 0},
	{"litellm timeout", "litellm", 408, "", `{"error":{"message":"litellm.Timeout: APITimeoutError - Request timed out.","type":null,"param":null,"code":"408"}}`, Timeout, 0},
	{"litellm overload", "litellm", 500, "", `{"error":{"message":"litellm.InternalServerError: AnthropicException - {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}. Received Model Group=claude","type":null,"code":"500"}}`, Overloaded, 0},
	{"codex model", "codex", 400, "", `{"detail":"The 'gpt-9' model is not supported when using Codex with a ChatGPT account."}`, ModelNotFound, 0},
	{"codex limit", "codex", 429, "", `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"plus","resets_at":1777910400}}`, QuotaExhausted, 4 * time.Hour},
	{"codex words", "codex", 0, "", `You've hit your usage limit. Upgrade to Pro or try again in 3 days 2 hours 5 minutes.`, QuotaExhausted, 74*time.Hour + 5*time.Minute},
	{"codex date", "codex", 0, "", `You've hit your usage limit. Visit https://chatgpt.com/codex/settings/usage to purchase more credits or try again at May 5th, 2026 2:00 PM.`, QuotaExhausted, 26 * time.Hour},
	{"codex token", "codex", 401, "", `{"error":{"message":"Your authentication token has been invalidated. Please try signing in again.","type":"invalid_request_error","code":"token_invalidated","param":null},"status":401}`, AuthFailed, 0},
	{"fastapi", "openai-compatible", 422, "", `{"detail":[{"type":"missing","loc":["body","messages"],"msg":"Field required"}]}`, InvalidRequest, 0},
	{"fastapi wrong path", "openai-compatible", 404, "", `{"detail":"Not Found"}`, InvalidRequest, 0},
	{"go mux wrong path", "openai-compatible", 404, "", "404 page not found\n", InvalidRequest, 0},
	{"nginx 413", "openai-compatible", 413, "", "<html>\r\n<head><title>413 Request Entity Too Large</title></head></html>", RequestTooLarge, 0},
	{"a page with status 200", "openai-compatible", 200, "", "<!doctype html><html><head><title>Welcome</title></head></html>", InvalidRequest, 0},
	{"page of 500 with the word quota", "openai-compatible", 500, "", "<html><head><title>Error</title></head><body>insufficient balance, rate limit</body></html>", ServerError, 0},
	{"redirect", "openai-compatible", 302, "Location: /login", "", InvalidRequest, 0},
	{"a page in a client's words", "codex", 0, "", "unexpected status 403 Forbidden: <html><head><title>Just a moment...</title></head></html>, url: https://chatgpt.com/x", PermissionDenied, 0},
	{"an answer of nothing", "gemini", 200, "", `{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP"}]}`, ServerError, 0},
	{"407", "openai-compatible", 407, "", "", AuthFailed, 0},
	{"520", "openai-compatible", 520, "", "", ServerError, 0},
	{"a label that promises a retry in a 400", "openai-compatible", 400, "", `{"error":{"type":"api_error","message":"no"}}`, InvalidRequest, 0},
	{"a byte order mark before words", "anthropic", 0, "", "\xef\xbb\xbfOverloaded", Overloaded, 0},
	{"405", "openai-compatible", 405, "", "", InvalidRequest, 0},
	{"409", "openai-compatible", 409, "", "", InvalidRequest, 0},
	{"418", "openai-compatible", 418, "", "", InvalidRequest, 0},
	{"an answer where an error was due, F32", "openai", 200, "", `{"id":"x","object":"chat.completion","choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}`, Unknown, 0},
	{"foreign JSON in a 200, F32", "openai", 200, "", `{"hello":"world"}`, Unknown, 0},
	{"an unknown code, F24", "openai", 0, "", `{"error":{"code":"flux_capacitor_low","message":"please retry"}}`, Unknown, 0},
	{"an unknown code with a status, F24", "openai", 400, "", `{"error":{"code":"please_retry_now","message":"please retry"}}`, InvalidRequest, 0},
	{"watchdog's words in a 503, N42", "openai", 503, "", `timed out waiting for first event`, Overloaded, 0},
	{"a number in prose, N44", "openai", 400, "", `rate limit: 400 requests per minute`, RateLimited, 0},
	{"a number in prose, F28", "openai", 429, "", `You may send 500 requests per minute; 503 were sent`, RateLimited, 0},
	{"401 forbidden, N45", "openai", 401, "", `{"error":{"code":"forbidden","message":"no"}}`, AuthFailed, 0},
	{"403 invalid key, N45", "openai", 403, "", `{"error":{"code":"invalid_api_key","message":"no"}}`, AuthFailed, 0},
	{"far 503, N83", "openai", 503, "Retry-After: 7200", ``, Overloaded, 2 * time.Hour},
	{"envoy", "openai-compatible", 503, "", "upstream connect error or disconnect/reset before headers. reset reason: connection termination", Network, 0},
}

func TestKnownAnswers(t *testing.T) {
	for _, a := range answers {
		t.Run(a.provider+" "+a.name, func(t *testing.T) {
			f := Facts{Provider: a.provider, Phase: PhaseOpen, Now: now}
			out := FromResponse(f, a.status, headers(a.header), []byte(a.body))
			if out.Class != a.class {
				t.Errorf("class %v by %q, want %v (%q %q %q)", out.Class, out.Rule, a.class, out.Code, out.Type, out.Message)
			}
			if out.Retryable != a.class.Retryable() {
				t.Errorf("retryable %v", out.Retryable)
			}
			if got := out.NotBefore.Sub(now); a.wait == 0 && out.Hint != "" || a.wait != 0 && got != a.wait {
				t.Errorf("wait %v by %q, want %v", got, out.Hint, a.wait)
			}
		})
	}
}

// headers reads lines of "Key: value".
func headers(lines string) http.Header {
	h := make(http.Header)
	for _, l := range splitLines(lines) {
		k, v, _ := cutHeader(l)
		h.Add(k, v)
	}
	return h
}
