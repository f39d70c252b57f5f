package failure

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// secrets are planted everywhere, and none of their tell-tale parts may be found again.
var secrets = []struct{ text, tell string }{
	{"sk-proj-Zq8vTnW3xYb5LmK1PdRs", "Zq8vTnW3"},
	{"sk-ant-api03-Zq8vTnW3xYb5LmK1-PdRs", "Zq8vTnW3"},
	{"sk-or-v1-0123456789abcdef0123456789abcdef", "0123456789abcdef"},
	{"AIzaSyZq8vTnW3xYb5LmK1PdRsUuVvWwXxYyZz0", "Zq8vTnW3"},
	{"gsk_Zq8vTnW3xYb5LmK1PdRs", "Zq8vTnW3"},
	{"xai-Zq8vTnW3xYb5LmK1PdRs", "Zq8vTnW3"},
	{"ghu_Zq8vTnW3xYb5LmK1PdRs", "Zq8vTnW3"},
	{"AKIAZQ8VTNW3XYB5LMK1", "ZQ8VTNW3"},
	{"hf_Zq8vTnW3xYb5LmK1PdRs", "Zq8vTnW3"},
	{"ak-zq8vtnw3xyb5lmk1", "zq8vtnw3"},
	{"Bearer Zq8vTnW3xYb5", "Zq8vTnW3"},
	{"Authorization: Bearer Zq8vTnW3xYb5", "Zq8vTnW3"},
	{"Authorization=Bearer Zq8vTnW3xYb5", "Zq8vTnW3"},
	{"x-api-key: Zq8vTnW3xYb5", "Zq8vTnW3"},
	{"https://host/v1?key=Zq8vTnW3xYb5&alt=sse", "Zq8vTnW3"},
	{"api_key=hunterhunter", "hunterhunter"},
	{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJaSzgifQ.Zq8vTnW3xYb5LmK1PdRs", "Zq8vTnW3"},
	{"jane.doe+llm@example.co.uk", "jane.doe"},
	{"jane@example.com", "jane"},
	{"https://jane:pa55word@host.example/v1", "pa55word"},
	{"org-Zq8vTnW3", "Zq8vTnW3"},
	{"organization acme-4711", "acme-4711"},
	{"in organization acme on tokens per min", "acme"},
	{"proj_Zq8vTnW3", "Zq8vTnW3"},
	{"user_Zq8vTnW3", "Zq8vTnW3"},
	{"Your team 0b1e4c9a-1111-2222-3333-444455556666 has", "0b1e4c9a"},
	{"consumer 'project_number:471147114711'", "4711"},
	{"arn:aws:iam::471147114711:user/x", "4711"},
	{"projects/acme-prod/locations/us", "acme-prod"},
	{"account_id=471147", "471147"},
}

// TestRedaction plants every secret in every field of every shape of body. F34.
func TestRedaction(t *testing.T) {
	shapes := []string{
		`{"error":{"message":%s,"type":%s,"code":%s,"param":%s}}`,
		`{"type":"error","error":{"type":%s,"message":%s},"request_id":%s}`,
		`[{"error":{"code":429,"message":%s,"status":%s,"details":[{"@type":"x/google.rpc.ErrorInfo","reason":%s,"metadata":{"consumer":%s}}]}}]`,
		`{"error":%s,"message":%s}`,
		`{"detail":%s}`,
		`{"code":%s,"error":%s}`,
		`{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":%s,"provider_name":%s}},"user_id":%s}`,
		`{%s:"x"}`,
		`{"type":%s,"title":%s,"status":503,"detail":%s,"instance":%s}`,
		`{"base_resp":{"status_code":1008,"status_msg":%s},"trace_id":%s}`,
		`{"success":false,"errors":[{"code":%s,"message":%s}],"result":%s}`,
		`{"type":"response.failed","response":{"id":%s,"status":"failed","error":{"code":%s,"message":%s}}}`,
		`{"type":"error","status":429,"headers":{"x-request-id":%s,"retry-after":%s},"error":{"message":%s}}`,
		`{"error":{"message":{"detail":[{"msg":%s,"loc":["body",%s],"input":%s}]}}}`,
		`{"error":{"code":%s,"message":"x","innererror":{"code":%s,"message":%s}}}`,
		`{"fault":{"faultstring":%s,"detail":{"errorcode":%s}}}`,
		`{"choices":[{"finish_reason":%s,"delta":{"content":%s}}],"error":{"message":%s}}`,
		`{"__type":%s,"Message":%s}`,
		`%s`,
	}
	check := func(t *testing.T, out *Failure, tell string) {
		t.Helper()
		line, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(line), tell) || strings.Contains(out.Error(), tell) {
			t.Errorf("%q survives: %s", tell, line)
		}
		if redact(out.Message) != out.Message || redact(out.Body) != out.Body {
			t.Errorf("redacting twice changes %q or %q", out.Message, out.Body)
		}
	}
	f := Facts{Provider: "openrouter", Dialect: "chat", Phase: PhaseOpen, Now: now}
	for _, s := range secrets {
		quoted, err := json.Marshal(s.text)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := json.Marshal(fmt.Sprintf(`{"error":{"message":%s}}`, quoted))
		if err != nil {
			t.Fatal(err)
		}
		hidden := strings.NewReplacer("@", `\u0040`, "k", `\u006b`, "/", `\/`).Replace(string(quoted))
		for _, shape := range shapes {
			for _, value := range []string{string(quoted), string(twice), hidden} {
				body := strings.ReplaceAll(shape, "%s", value)
				check(t, FromResponse(f, 400, nil, []byte(body)), s.tell)
				check(t, FromStream(f, []byte(body)), s.tell)
				check(t, FromResponse(f, 400, nil, []byte(body[:len(body)-2])), s.tell)
			}
		}
		for _, body := range []string{s.text, "Error: 400 " + s.text, "<html><title>" + s.text + "</title>", "event: error\ndata: " + string(quoted)} {
			check(t, FromResponse(f, 400, nil, []byte(body)), s.tell)
		}
		check(t, FromError(f, fmt.Errorf("Post %q: EOF", s.text)), s.tell)
		check(t, NewLocal("x", s.text), s.tell)
		for _, text := range []string{s.text, "Error: " + s.text} {
			c := Case{Phase: PhaseOpen, TransportError: text}
			out, _ := c.Classify()
			check(t, out, s.tell)
		}
	}
	for _, s := range secrets[:9] {
		check(t, FromResponse(f, 400, http.Header{"X-Request-Id": {s.text}}, nil), s.tell)
	}
}

// TestRedactionKeeps: what a person needs stays.
func TestRedactionKeeps(t *testing.T) {
	for _, s := range []string{
		"Rate limit reached for gpt-4o-2024-08-06 on tokens per min (TPM): Limit 30000, Used 29937, Requested 385. Please try again in 6m0s.",
		"model claude-sonnet-4-5-20250929 at https://platform.openai.com/account/rate-limits",
		"request req_011CTabcdefghijklmnopqr12 failed", "chatcmpl-9XyZabcdefghijklmnop0123 ended",
		"the API key is invalid", "token limit", "Your account is not active, please check your billing details on our website.",
		"This request would exceed your account's rate limit, and your organization's.", "user_model_rate_limited", "workspace_owner_credits_depleted", "account_deactivated",
		"accounts/fireworks/models/llama-v3p1-405b-instruct not found", "Meta-Llama-3.1-405B-Instruct-Turbo", "anthropic.claude-3-5-sonnet-20241022-v2:0",
		"Bearer token expired", "OAuth token has expired.", "2026-05-04T12:00:00Z", "[key] [id] [email]", `"api_key":"[key]"`, "organization [id] on", "1777896060000",
		"You can find your API key at https://platform.openai.com/account/api-keys.",
	} {
		if got := redact(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	if got := redact("secret 0f1e2d3c4b5a69788796a5b4c3d2e1f0 here"); got != "secret [key] here" {
		t.Errorf("a long hexadecimal run became %q", got)
	}
	if got := redactID("3f2504e04f8911d39a0c0305e82c3301"); got != "3f2504e04f8911d39a0c0305e82c3301" {
		t.Errorf("a request id became %q", got)
	}
}

// FuzzRedact: no planted key survives, and redacting twice changes nothing more.
func FuzzRedact(f *testing.F) {
	for _, s := range secrets {
		f.Add(s.text, " ")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		const key = "sk-proj-Hh4kUuJ7eWq2"
		if strings.Contains(a+b, "UuJ7") {
			return
		}
		once := redact(a + " " + key + " " + b)
		if strings.Contains(once, "UuJ7") {
			t.Fatalf("survives in %q", once)
		}
		if twice := redact(once); twice != once {
			t.Fatalf("%q became %q", once, twice)
		}
	})
}
