package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const prompt = "Please say the two sentences."

// agent is a coding agent that runs without a terminal.
type agent struct {
	name, command string
	tool, key     string // its shell, and the argument that is the command
	// start makes its configuration and says how it is run.
	start func(home, base, model string) (env, args []string, err error)
	// read takes from its output the text that a person was shown, and what it tells of a failure.
	read func(out []byte) (text, told string)
}

var agents = []*agent{
	{"codex", "codex", "exec_command", "cmd", startCodex, readCodex},
	{"claude-code", "claude", "Bash", "command", startClaude, readClaude},
	{"opencode", "opencode", "bash", "command", startOpencode, readOpencode},
	{"gemini-cli", "gemini", "run_shell_command", "command", startGemini, readGemini},
	{"continue", "cn", "Bash", "command", startContinue, readContinue},
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

func startCodex(home, base, model string) (env, args []string, err error) {
	err = write(filepath.Join(home, ".codex", "config.toml"), fmt.Sprintf(`model = %q
model_provider = "reprise"
check_for_update_on_startup = false
[model_providers.reprise]
name = "Reprise"
base_url = "%s/v1"
wire_api = "responses"
env_key = "REPRISE_KEY"
[analytics]
enabled = false
`, model, base))
	return []string{"REPRISE_KEY=key"}, []string{"exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", prompt}, err
}

func startClaude(home, base, model string) (env, args []string, err error) {
	return []string{"ANTHROPIC_BASE_URL=" + base, "ANTHROPIC_API_KEY=key", "ANTHROPIC_MODEL=" + model, "ANTHROPIC_SMALL_FAST_MODEL=ok-fast",
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1"},
		[]string{"-p", prompt, "--output-format", "stream-json", "--include-partial-messages", "--verbose", "--dangerously-skip-permissions"}, nil
}

func startOpencode(home, base, model string) (env, args []string, err error) {
	config := fmt.Sprintf(`{"autoupdate": false, "share": "disabled", "permission": {"*": "allow"}, "enabled_providers": ["reprise"],
"model": "reprise/%s", "small_model": "reprise/ok-fast", "provider": {"reprise": {"npm": "@ai-sdk/openai-compatible", "name": "Reprise",
"options": {"baseURL": "%s/v1", "apiKey": "key"}, "models": {"%[1]s": {"tool_call": true}, "ok-fast": {}}}}}`, model, base)
	return []string{"OPENCODE_CONFIG_CONTENT=" + config, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
		"OPENCODE_DISABLE_DEFAULT_PLUGINS=1"}, []string{"run", "--format", "json", prompt}, nil
}

func startGemini(home, base, model string) (env, args []string, err error) {
	err = write(filepath.Join(home, ".gemini", "settings.json"), `{"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
"privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false}, "general": {"enableAutoUpdate": false}}`)
	return []string{"GEMINI_API_KEY=key", "GOOGLE_GEMINI_BASE_URL=" + base, "GEMINI_CLI_TRUST_WORKSPACE=true"},
		[]string{"-m", model, "--yolo", "-o", "stream-json", "-p", prompt}, err
}

func startContinue(home, base, model string) (env, args []string, err error) {
	config := filepath.Join(home, "config.yaml")
	err = write(config, fmt.Sprintf(`name: reprise
version: 0.0.1
schema: v1
models:
  - {name: reprise, provider: openai, model: %s, apiBase: %s/v1, apiKey: key, roles: [chat], capabilities: [tool_use]}
`, model, base))
	return []string{"CONTINUE_TELEMETRY_ENABLED=0"}, []string{"--config", config, "--auto", "-p", prompt}, err
}

// line is one line of an agent's report, as far as it is of interest here.
type line struct {
	Type, Role, Status string
	Content, Message   any
	IsError            bool `json:"is_error"`
	Result             any
	Item, Part         struct{ Type, Text, Message string }
	Error              struct {
		Message string
		Data    struct{ Message string }
	}
	Event struct {
		Type  string
		Delta struct{ Text string }
	}
}

func lines(out []byte, read func(l *line)) {
	for b := range bytes.Lines(out) {
		var l line
		_ = json.Unmarshal(b, &l) // what does not fit is not of interest
		read(&l)
	}
}

func readCodex(out []byte) (text, told string) {
	lines(out, func(l *line) {
		switch {
		case l.Type == "item.completed" && l.Item.Type == "agent_message":
			text += l.Item.Text
		case l.Type == "error":
			told += fmt.Sprint(l.Message)
		case l.Type == "turn.failed":
			told += l.Error.Message
		}
	})
	return text, told
}

func readClaude(out []byte) (text, told string) {
	lines(out, func(l *line) {
		switch {
		case l.Type == "stream_event" && l.Event.Type == "content_block_delta":
			text += l.Event.Delta.Text
		case l.Type == "result" && l.IsError:
			told += fmt.Sprint(l.Result)
		}
	})
	return text, told
}

func readOpencode(out []byte) (text, told string) {
	lines(out, func(l *line) {
		switch l.Type {
		case "text":
			text += l.Part.Text
		case "error":
			told += l.Error.Data.Message
		}
	})
	return text, told
}

func readGemini(out []byte) (text, told string) {
	lines(out, func(l *line) {
		switch {
		case l.Type == "message" && l.Role == "assistant":
			text += fmt.Sprint(l.Content)
		case l.Type == "error":
			told += fmt.Sprint(l.Message)
		case l.Type == "result" && l.Status != "success":
			told += l.Error.Message
		}
	})
	return text, told
}

func readContinue(out []byte) (text, told string) {
	text = string(out)
	if i := strings.Index(text, `{"status":"error"`); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}
