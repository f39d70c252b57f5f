package failure

import "slices"

const (
	openaiErrors    = "https://platform.openai.com/docs/guides/error-codes"
	responsesErrors = "https://platform.openai.com/docs/api-reference/responses/object"
	anthropicErrors = "https://docs.anthropic.com/en/api/errors"
	googleCodes     = "https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto"
	googleReasons   = "https://github.com/googleapis/googleapis/blob/master/google/api/error_reason.proto"
	geminiCLI       = "https://github.com/google-gemini/gemini-cli/blob/main/packages/core/src/utils/googleQuotaErrors.ts"
	geminiFinish    = "https://ai.google.dev/api/generate-content#FinishReason"
	bedrockErrors   = "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InvokeModelWithResponseStream.html"
	awsErrors       = "https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html"
	azureErrors     = "https://learn.microsoft.com/azure/ai-services/openai/reference"
	zhipuErrors     = "https://docs.bigmodel.cn/cn/faq/api-code"
	minimaxErrors   = "https://platform.minimax.io/docs/api-reference/errorcode"
	dashscopeErrors = "https://help.aliyun.com/zh/model-studio/error-code"
	moonshotErrors  = "https://platform.moonshot.ai/docs/api/errors"
	litellmErrors   = "https://docs.litellm.ai/docs/exception_mapping"
	mistralErrors   = "https://docs.mistral.ai/api/"
	groqErrors      = "https://console.groq.com/docs/errors"
	fireworksErrors = "https://docs.fireworks.ai/guides/inference-error-codes"
	copilotErrors   = "https://github.com/ericc-ch/copilot-api/issues"
	githubModels    = "https://docs.github.com/github-models/use-github-models/prototyping-with-ai-models#rate-limits"
	grpcLegacy      = "https://cloud.google.com/apis/design/errors"
	volcErrors      = "https://www.volcengine.com/docs/82379/1299023"
	llamaErrors     = "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/server-common.cpp"
)

// codeRows: one line a code or type. Spelling is folded (case, separators), so a line serves
// RATE_LIMITED and rateLimited alike. weak: the label is put on much and decides last.
var codeRows = slices.Concat(commonCodes, cloudCodes, vendorCodes)

// commonCodes are OpenAI's, Anthropic's, the relays', and what everybody imitates.
var commonCodes = []codeRow{
	// OpenAI, its Responses API, and what imitates it.
	{"", "rate_limit_exceeded", RateLimited, strong, "", openaiErrors},
	{"", "rate_limit_error", RateLimited, strong, "", anthropicErrors},
	{"", "rate_limit_reached_error", RateLimited, strong, "", moonshotErrors},
	{"", "rate_limit_reached", RateLimited, strong, "", moonshotErrors},
	{"", "rate_limited", RateLimited, strong, "", mistralErrors},
	{"", "rate_limit", RateLimited, strong, "", openaiErrors},
	{"", "too_many_requests", RateLimited, strong, "", openaiErrors},
	{"openai", "resource_unavailable", Overloaded, strong, "", "https://platform.openai.com/docs/guides/flex-processing"},
	{"", "requests", RateLimited, weak, "", openaiErrors},
	{"", "tokens", RateLimited, weak, "", openaiErrors},
	{"", "response.failed", ServerError, weak, PhaseStream, responsesErrors},
	{"", "insufficient_quota", QuotaExhausted, strong, "", openaiErrors},
	{"", "billing_not_active", QuotaExhausted, strong, "", openaiErrors},
	{"", "billing_hard_limit_reached", SpendLimitExceeded, strong, "", openaiErrors},
	{"", "quota_exceeded", QuotaExhausted, strong, "", "https://docs.github.com/copilot/concepts/billing/copilot-requests"},
	{"", "insufficient_balance", QuotaExhausted, strong, "", "https://api-docs.deepseek.com/quick_start/error_codes"},
	{"", "insufficient_credits", QuotaExhausted, strong, "", "https://openrouter.ai/docs/api-reference/errors"},
	{"", "free_quota_exceeded", QuotaExhausted, strong, "", "https://github.com/Gitlawb/openclaude/issues/1554"},
	{"", "insufficient_funds", QuotaExhausted, strong, "", "https://openrouter.ai/docs/api-reference/errors"},
	{"", "payment_required", QuotaExhausted, strong, "", "https://docs.cerebras.ai/support/error"},
	{"", "credits_exhausted", QuotaExhausted, strong, "", "https://docs.x.ai/docs/key-information/debugging"},
	{"", "usage_limit_reached", QuotaExhausted, strong, "", "https://github.com/openai/codex/blob/main/codex-rs/core/src/api_bridge.rs"},
	{"", "usage_not_included", QuotaExhausted, strong, "", "https://github.com/openai/codex/blob/main/codex-rs/core/src/api_bridge.rs"},
	{"", "usage_limit_exceeded", QuotaExhausted, strong, "", "https://github.com/openai/codex/blob/main/codex-rs/core/src/api_bridge.rs"},
	{"", "workspace_owner_credits_depleted", QuotaExhausted, strong, "", "https://github.com/openai/codex/blob/main/codex-rs/core/src/error.rs"},
	{"", "context_length_exceeded", ContextOverflow, strong, "", openaiErrors},
	{"", "string_above_max_length", RequestTooLarge, strong, "", openaiErrors},
	{"", "array_above_max_length", InvalidRequest, strong, "", openaiErrors},
	{"", "integer_above_max_value", InvalidRequest, strong, "", openaiErrors},
	{"", "invalid_api_key", AuthFailed, strong, "", openaiErrors},
	{"", "incorrect_api_key", AuthFailed, strong, "", openaiErrors},
	{"", "invalid_authentication_error", AuthFailed, strong, "", moonshotErrors},
	{"", "incorrect_api_key_error", AuthFailed, strong, "", moonshotErrors},
	{"", "invalid_key", AuthFailed, strong, "", openaiErrors},
	{"", "expired_api_key", AuthFailed, strong, "", openaiErrors},
	{"", "authentication_error", AuthFailed, strong, "", anthropicErrors},
	{"", "authentication_failed", AuthFailed, strong, "", openaiErrors},
	{"", "auth_error", AuthFailed, strong, "", "https://docs.litellm.ai/docs/proxy/virtual_keys"},
	{"", "expired_key", AuthFailed, strong, "", "https://docs.litellm.ai/docs/proxy/virtual_keys"},
	{"", "token_not_found_in_db", AuthFailed, strong, "", "https://docs.litellm.ai/docs/proxy/virtual_keys"},
	{"", "account_deactivated", AuthFailed, strong, "", openaiErrors},
	{"", "token_expired", AuthFailed, strong, "", "https://github.com/openai/codex/issues/3002"},
	{"", "token_invalidated", AuthFailed, strong, "", "https://github.com/openai/codex/issues"},
	{"", "token_revoked", AuthFailed, strong, "", "https://github.com/openai/codex/issues"},
	{"", "refresh_token_reused", AuthFailed, strong, "", "https://github.com/openai/codex/issues"},
	{"", "refresh_token_expired", AuthFailed, strong, "", "https://github.com/openai/codex/issues"},
	{"", "refresh_token_invalidated", AuthFailed, strong, "", "https://github.com/openai/codex/issues"},
	{"", "invalid_grant", AuthFailed, strong, "", "https://www.rfc-editor.org/rfc/rfc6749#section-5.2"},
	{"", "invalid_token", AuthFailed, strong, "", "https://www.rfc-editor.org/rfc/rfc6750#section-3.1"},
	{"", "invalid_client", AuthFailed, strong, "", "https://www.rfc-editor.org/rfc/rfc6749#section-5.2"},
	{"", "unauthorized", AuthFailed, strong, "", "https://docs.fireworks.ai/guides/inference-error-codes"},
	{"", "unauthenticated", AuthFailed, strong, "", googleCodes},
	{"", "model_not_found", ModelNotFound, strong, "", openaiErrors},
	{"", "model_not_available", ModelNotFound, strong, "", "https://docs.together.ai/docs/error-codes"},
	{"", "model_not_supported", ModelNotFound, strong, "", copilotErrors},
	{"", "model_decommissioned", ModelNotFound, strong, "", groqErrors},
	{"", "model_terms_required", PermissionDenied, strong, "", groqErrors},
	{"", "model_not_active", ModelNotFound, strong, "", groqErrors},
	{"", "unknown_model", ModelNotFound, strong, "", "https://docs.github.com/rest/models"},
	{"", "invalid_model", ModelNotFound, strong, "", mistralErrors},
	{"", "unsupported_model", ModelNotFound, strong, "", copilotErrors},
	{"", "model_deprecated", ModelNotFound, strong, "", openaiErrors},
	{"", "resource_not_found_error", ModelNotFound, weak, "", moonshotErrors},
	{"", "not_found_error", ModelNotFound, weak, "", anthropicErrors},
	{"", "unsupported_country_region_territory", PermissionDenied, strong, "", openaiErrors},
	{"", "unsupported_api_for_model", InvalidRequest, strong, "", copilotErrors},
	{"", "unsupported_parameter", InvalidRequest, strong, "", openaiErrors},
	{"", "unsupported_value", InvalidRequest, strong, "", openaiErrors},
	{"", "unknown_parameter", InvalidRequest, strong, "", openaiErrors},
	{"", "missing_required_parameter", InvalidRequest, strong, "", openaiErrors},
	{"", "invalid_value", InvalidRequest, strong, "", openaiErrors},
	{"", "invalid_type", InvalidRequest, strong, "", openaiErrors},
	{"", "invalid_function_parameters", InvalidRequest, strong, "", openaiErrors},
	{"", "invalid_image_format", InvalidRequest, strong, "", responsesErrors},
	{"", "invalid_image", InvalidRequest, strong, "", responsesErrors},
	{"", "invalid_image_url", InvalidRequest, strong, "", responsesErrors},
	{"", "invalid_base64_image", InvalidRequest, strong, "", responsesErrors},
	{"", "image_too_large", RequestTooLarge, strong, "", responsesErrors},
	{"", "invalid_prompt", ContentFiltered, strong, "", "https://github.com/openai/codex/blob/main/codex-rs/codex-api/src/sse/responses.rs"},
	{"", "previous_response_not_found", InvalidRequest, strong, "", responsesErrors},
	{"", "invalid_encrypted_content", InvalidRequest, strong, "", responsesErrors},
	{"", "tool_use_failed", ServerError, strong, "", groqErrors},
	{"", "json_validate_failed", ServerError, strong, "", groqErrors},
	{"", "content_filter", ContentFiltered, strong, "", azureErrors},
	{"", "content_policy_violation", ContentFiltered, strong, "", openaiErrors},
	{"", "content_filtered", ContentFiltered, strong, "", openaiErrors},
	{"", "moderation_blocked", ContentFiltered, strong, "", openaiErrors},
	{"", "image_content_policy_violation", ContentFiltered, strong, "", responsesErrors},
	{"", "responsible_ai_policy_violation", ContentFiltered, strong, "", azureErrors},
	{"", "cyber_policy", ContentFiltered, strong, "", "https://github.com/router-for-me/CLIProxyAPI/issues/4854"},
	{"", "cyber_policy_violation", ContentFiltered, strong, "", "https://github.com/router-for-me/CLIProxyAPI/issues/4854"},
	{"", "bio_policy", ContentFiltered, strong, "", "https://github.com/router-for-me/CLIProxyAPI/issues/4854"},
	{"", "refusal", ContentFiltered, strong, "", anthropicErrors},
	{"", "server_is_overloaded", Overloaded, strong, "", "https://github.com/openai/codex/blob/main/codex-rs/codex-api/src/sse/responses.rs"},
	{"", "slow_down", Overloaded, strong, "", "https://github.com/openai/codex/blob/main/codex-rs/codex-api/src/sse/responses.rs"},
	{"", "service_unavailable_error", Overloaded, weak, "", openaiErrors},
	{"", "service_unavailable", Overloaded, weak, "", openaiErrors},
	{"", "engine_overloaded_error", Overloaded, strong, "", moonshotErrors},
	{"", "engine_overloaded", Overloaded, strong, "", moonshotErrors},
	{"", "provider_overloaded", Overloaded, strong, "", "https://openrouter.ai/docs/api-reference/errors"},
	{"", "provider_unavailable", ServerError, weak, "", "https://github.com/diegosouzapw/OmniRoute/pull/8210"},
	{"", "model_overloaded", Overloaded, strong, "", openaiErrors},
	{"", "overloaded_error", Overloaded, strong, "", anthropicErrors},
	{"", "overloaded", Overloaded, strong, "", anthropicErrors},
	{"", "capacity_exceeded", Overloaded, strong, "", groqErrors},
	{"", "server_error", ServerError, weak, "", openaiErrors},
	{"", "internal_server_error", ServerError, weak, "", openaiErrors},
	{"", "internal_error", ServerError, weak, "", openaiErrors},
	{"", "processing_error", ServerError, weak, "", openaiErrors},
	{"", "api_error", ServerError, weak, "", anthropicErrors},
	{"", "vector_store_timeout", Timeout, strong, "", responsesErrors},
	{"", "timeout_error", Timeout, strong, "", anthropicErrors},
	{"", "timeout", Timeout, strong, "", openaiErrors},
	{"", "request_timeout", Timeout, weak, "", openaiErrors},
	{"", "gateway_timeout", Timeout, strong, "", openaiErrors},
	{"", "invalid_request_error", InvalidRequest, weak, "", openaiErrors},
	{"", "invalid_request", InvalidRequest, weak, "", openaiErrors},
	{"", "bad_request", InvalidRequest, weak, "", openaiErrors},
	{"", "validation_error", InvalidRequest, weak, "", openaiErrors},
	{"", "request_too_large", RequestTooLarge, strong, "", anthropicErrors},
	{"", "request_entity_too_large", RequestTooLarge, strong, "", groqErrors},
	{"", "payload_too_large", RequestTooLarge, strong, "", openaiErrors},
	{"", "permission_error", PermissionDenied, weak, "", anthropicErrors},
	{"", "permission_denied_error", PermissionDenied, weak, "", moonshotErrors},
	{"", "insufficient_permissions", PermissionDenied, strong, "", openaiErrors},
	{"", "forbidden", PermissionDenied, weak, "", openaiErrors},
	{"", "access_denied", PermissionDenied, weak, "", openaiErrors},
	{"", "access_terminated_error", PermissionDenied, weak, "", moonshotErrors},
	{"", "model_access_denied", PermissionDenied, strong, "", openaiErrors},
	{"", "max_output_tokens", InvalidRequest, weak, "", responsesErrors},
	{"", "unknown_error", Unknown, weak, "", "https://api-docs.deepseek.com/quick_start/error_codes"},

	// Relays: what they call a lost upstream.
	{"", "upstream_stream_error", StreamInterrupted, strong, PhaseStream, "https://github.com/Yeachan-Heo/gajae-code/issues"},
	{"", "upstream_error", StreamInterrupted, strong, PhaseStream, "https://github.com/dativo-io/talon/pull/254"},
	{"", "upstream_stream_error", ServerError, weak, PhaseOpen, "https://github.com/Yeachan-Heo/gajae-code/issues"},
	{"", "upstream_error", ServerError, weak, PhaseOpen, "https://github.com/kittors/CliRelay/issues/240"},
	{"", "stream_error", StreamInterrupted, weak, PhaseStream, "https://github.com/QuantumNous/new-api"},
	{"", "stream_read_error", StreamInterrupted, strong, PhaseStream, "https://github.com/Wei-Shaw/sub2api"},
	{"", "websocket_connection_limit_reached", StreamInterrupted, strong, "", "https://github.com/openai/codex"},
	{"", "stream_interrupted", StreamInterrupted, strong, PhaseStream, "https://github.com/Wei-Shaw/sub2api"},
	{"", "new_api_error", ServerError, weak, "", "https://github.com/QuantumNous/new-api"},
	{"", "bad_response_status_code", ServerError, weak, "", "https://github.com/QuantumNous/new-api"},
	{"", "do_request_failed", Network, strong, "", "https://github.com/QuantumNous/new-api"},
	{"", "insufficient_user_quota", QuotaExhausted, strong, "", "https://github.com/QuantumNous/new-api"},
	{"", "pre_consume_token_quota_failed", QuotaExhausted, strong, "", "https://github.com/QuantumNous/new-api"},

	// Anthropic.
	{"", "enforced_spend_limit_reached", SpendLimitExceeded, strong, "", "https://www.developersdigest.tech/errors/api/anthropic-api/429-enforced-spend-limit-reached"},
	{"", "billing_error", QuotaExhausted, strong, "", anthropicErrors},
	{"", "credits_required", QuotaExhausted, strong, "", anthropicErrors},

	// Finish reasons of chat completions.
	{"", "error", ServerError, weak, PhaseStream, "https://openrouter.ai/docs/api-reference/errors"},
	{"", "network_error", StreamInterrupted, strong, PhaseStream, "https://docs.bigmodel.cn/api-reference"},
	{"zhipu", "network_error", ServerError, strong, PhaseStream, "https://docs.bigmodel.cn/api-reference"},
	{"", "sensitive", ContentFiltered, strong, PhaseStream, zhipuErrors},
	{"", "insufficient_system_resource", Overloaded, strong, PhaseStream, "https://api-docs.deepseek.com/api/create-chat-completion"},
	{"", "model_context_window_exceeded", ContextOverflow, strong, PhaseStream, anthropicErrors},
	{"", "guardrail_intervened", ContentFiltered, strong, PhaseStream, bedrockErrors},
}
