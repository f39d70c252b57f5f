package failure

import (
	"net/http"
	"testing"
)

// BenchmarkFromResponse: a typical body costs under 20 µs.
func BenchmarkFromResponse(b *testing.B) {
	f := Facts{Provider: "openai", Dialect: "chat", Phase: PhaseOpen, Now: now}
	h := http.Header{"Retry-After": {"20"}, "X-Request-Id": {"req_123"}, "Content-Type": {"application/json"}}
	bodies := map[string]string{
		"openai":    `{"error":{"message":"Rate limit reached for gpt-4o in organization org-abcdef123 on tokens per min (TPM): Limit 30000, Used 29937, Requested 385. Please try again in 644ms. Visit https://platform.openai.com/account/rate-limits to learn more.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`,
		"anthropic": `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_011CTabc"}`,
		"plain":     `upstream says no`,
		"html":      "<html>\n<head><title>502 Bad Gateway</title></head>\n<body>\n<center><h1>502 Bad Gateway</h1></center>\n<hr><center>nginx</center>\n</body>\n</html>",
	}
	for name, body := range bodies {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			raw := []byte(body)
			for b.Loop() {
				FromResponse(f, 429, h, raw)
			}
		})
	}
}

// BenchmarkHostile: a body of MaxBody bytes made to be slow costs milliseconds.
func BenchmarkHostile(b *testing.B) {
	f := Facts{Provider: "openai", Phase: PhaseOpen, Now: now}
	for _, body := range hostile() {
		b.Run(body[:12], func(b *testing.B) {
			raw := []byte(body)
			for b.Loop() {
				FromResponse(f, 500, nil, raw)
			}
		})
	}
}
