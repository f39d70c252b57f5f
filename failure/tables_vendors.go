package failure

// vendorRows: one line a vendor. Names are spelled without separators, in lower case.
var vendorRows = []vendorRow{
	{"openai", "", "openai chatgpt openaicompat", "api.openai.com"},
	{"codex", "openai", "codex openaicodex chatgptcodex", "chatgpt.com"},
	{"azure", "openai", "azure azureopenai azureai foundry azurefoundry", "openai.azure.com cognitiveservices.azure.com services.ai.azure.com"},
	{"anthropic", "", "anthropic claude claudecode", "api.anthropic.com anthropic.com"},
	{"google", "", "google gemini googleai googleaistudio aistudio googlegenai palm", "generativelanguage.googleapis.com"},
	{"vertex", "google", "vertex vertexai googlevertex vertexaibeta googlevertexai", "aiplatform.googleapis.com"},
	{"codeassist", "google", "geminicodeassist codeassist antigravity geminicli", "cloudcode-pa.googleapis.com"},
	{"bedrock", "", "bedrock amazonbedrock awsbedrock amazon aws bedrockmantle sagemaker", "amazonaws.com"},
	{"openrouter", "", "openrouter", "openrouter.ai"},
	{"groq", "", "groq", "api.groq.com"},
	{"mistral", "", "mistral mistralai codestral", "api.mistral.ai codestral.mistral.ai"},
	{"deepseek", "", "deepseek", "api.deepseek.com"},
	{"xai", "", "xai grok", "api.x.ai cli-chat-proxy.grok.com"},
	{"moonshot", "", "moonshot moonshotai kimi kimicode kimiforcoding", "api.moonshot.cn api.moonshot.ai api.kimi.com"},
	{"zhipu", "", "zhipu zhipuai zai bigmodel glm zaicodingplan", "open.bigmodel.cn api.z.ai"},
	{"minimax", "", "minimax minimaxi", "api.minimax.io api.minimaxi.com api.minimax.chat"},
	{"dashscope", "", "dashscope alibaba qwen bailian aliyun alibabacloud qwencode", "dashscope.aliyuncs.com dashscope-intl.aliyuncs.com aliyuncs.com portal.qwen.ai"},
	{"cerebras", "", "cerebras", "api.cerebras.ai"},
	{"together", "", "together togetherai", "api.together.xyz api.together.ai"},
	{"fireworks", "", "fireworks fireworksai", "api.fireworks.ai"},
	{"cohere", "", "cohere", "api.cohere.com api.cohere.ai"},
	{"copilot", "", "copilot githubcopilot", "githubcopilot.com"},
	{"githubmodels", "", "githubmodels github", "models.github.ai models.inference.ai.azure.com"},
	{"ollama", "", "ollama ollamacloud", "ollama.com"},
	{"lmstudio", "", "lmstudio", ""},
	{"vllm", "", "vllm hostedvllm", ""},
	{"llamacpp", "", "llamacpp llamaserver", ""},
	{"litellm", "", "litellm litellmproxy", ""},
	{"volcengine", "", "volcengine doubao ark", "volces.com"},
	{"siliconflow", "", "siliconflow siliconcloud", "api.siliconflow.cn api.siliconflow.com"},
	{"perplexity", "", "perplexity", "api.perplexity.ai"},
	{"huggingface", "", "huggingface hf", "router.huggingface.co api-inference.huggingface.co"},
	{"nvidia", "", "nvidia nim nvidianim", "integrate.api.nvidia.com"},
	{"cloudflare", "", "cloudflare workersai cloudflareaigateway", "gateway.ai.cloudflare.com"},
}

const (
	statusSource = "https://www.rfc-editor.org/rfc/rfc9110#name-status-codes"
	cloudflare   = "https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-5xx-errors/"
)

// statusRow gives a status that tells something by itself its class. vendor "" is any.
type statusRow struct {
	vendor string
	status int
	class  Class
	source string
}

var statusRows = []statusRow{
	{"bedrock", 424, ServerError, bedrockErrors},
	{"groq", 498, Overloaded, "https://console.groq.com/docs/errors"},
	{"", 401, AuthFailed, statusSource},
	{"", 402, QuotaExhausted, statusSource},
	{"", 403, PermissionDenied, statusSource},
	{"", 407, AuthFailed, statusSource},
	{"", 408, Timeout, statusSource},
	{"", 413, RequestTooLarge, statusSource},
	{"", 414, RequestTooLarge, statusSource},
	{"", 425, ServerError, "https://www.rfc-editor.org/rfc/rfc8470#section-5.2"},
	{"", 429, RateLimited, "https://www.rfc-editor.org/rfc/rfc6585#section-4"},
	{"", 431, RequestTooLarge, "https://www.rfc-editor.org/rfc/rfc6585#section-5"},
	{"", 451, PermissionDenied, "https://www.rfc-editor.org/rfc/rfc7725"},
	{"", 499, ServerError, "https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto"},
	{"", 501, InvalidRequest, statusSource},
	{"", 503, Overloaded, statusSource},
	{"", 504, Timeout, statusSource},
	{"", 505, InvalidRequest, statusSource},
	{"", 522, Timeout, cloudflare},
	{"", 524, Timeout, cloudflare},
	{"", 529, Overloaded, "https://docs.anthropic.com/en/api/errors"},
	{"", 598, Timeout, "https://github.com/BerriAI/litellm"},
}
