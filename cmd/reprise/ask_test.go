package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/reprise-run/reprise/internal/client"
	"github.com/reprise-run/reprise/session"
)

// Without a terminal what is asked about is denied at once, with a sentence that says how to allow
// it; --approve allows all, or by name. explain tells the story.
func TestRunAsks(t *testing.T) {
	for _, tc := range []struct {
		flag    string
		written bool
		stderr  string
		explain string
	}{
		{"", false, "denied  write_file  nobody can be asked without a terminal: --approve write_file allows it\n", `(?s)Tool call \S+  step 1  write_file  \{"path":"rehearsal.txt".*\n  asked .*, to be answered until .*\n  denied by \S+ after \S+: nobody is there who could be asked\n  not run\n`},
		{"none", false, "tool  write_file  denied by operator: it may not be used in this run\n", `denied by`},
		{"clock", false, "nobody can be asked", `denied by`},
		{"clock,write_file", true, "tool  write_file  approved by operator\n", `(?s)  approved by \S+ after \S+\n  started .*, ended after \S+\n`},
		{"all", true, "tool  write_file  ended\n", `approved by`},
	} {
		t.Run(tc.flag, func(t *testing.T) {
			h := newHome(t)
			dir := t.TempDir()
			settings := []string{"--set", "tools.workspace=" + dir}
			args := append([]string{"run", "--model", "rehearsal/write-file-fast", "write it down"}, settings...)
			if tc.flag != "" {
				args = append(args, "--approve", tc.flag)
			}
			r := h.run(args...)
			r.want(t, exitDone)
			_, err := os.Stat(filepath.Join(dir, "rehearsal.txt"))
			if tc.written != (err == nil) || !strings.Contains(r.stderr, tc.stderr) {
				t.Errorf("%v\n%s", err, r.stderr)
			}
			run := regexp.MustCompile(`run (run_\w+)`).FindStringSubmatch(r.stderr)[1]
			if e := h.run("explain", run); e.code != exitDone || !regexp.MustCompile(tc.explain).MatchString(e.stdout) {
				t.Errorf("%s", e.stdout)
			}
			var record struct {
				ToolCalls []session.ToolCall `json:"tool_calls"`
			}
			if e := h.run("explain", "--json", run); json.Unmarshal([]byte(e.stdout), &record) != nil || len(record.ToolCalls) != 1 {
				t.Errorf("%s", e.stdout)
			}
		})
	}
}

// A person at a terminal is asked about one call after the other, with all of its arguments. What
// was answered elsewhere is taken back, and when they have gone everything is denied.
func TestTalk(t *testing.T) {
	answers := make(chan string, 8)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answers <- strings.TrimPrefix(r.URL.Path, "/api/v1/sessions/ses_1/tool-calls/") + " " + string(body)
		fmt.Fprint(w, "{}")
	}))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	stderr := &output{}
	a := &asker{client: &client.Client{Base: s.URL}, stderr: stderr, heard: make(chan session.ToolCall)}
	lines, ended := make(chan string), make(chan struct{})
	go func() { defer close(ended); a.talk(ctx, lines) }()
	change := func(id string, state session.CallState) {
		a.change(ctx, &session.ToolCall{SessionID: "ses_1", CallID: id, Name: "tool_" + id, Arguments: `{"command":"rm -r \u001b[2K` + "\u202e" + `","n":1}`, State: state})
	}
	lines <- "y" // it answers no question
	for _, id := range []string{"1", "2", "3", "4", "5"} {
		change(id, session.CallAsked)
	}
	change("1", session.CallAsked)
	lines <- "y"
	lines <- "not there"
	change("3", session.CallApproved)
	lines <- ""
	close(lines)
	for _, want := range []string{`1/approve `, `2/deny {"reason":"not there"}`, `4/deny {}`, `5/deny {"reason":"nobody is there who could be asked"}`} {
		if got := <-answers; got != want {
			t.Errorf("answered %q, want %q", got, want)
		}
	}
	cancel()
	<-ended
	got := stderr.String()
	for _, want := range []string{"tool_1 wants to run:\n  {\n    \"command\": \"rm -r \\u001b[2K\\u202e\",\n    \"n\": 1\n  }\nAllow it? ", "it was answered elsewhere\n\ntool_4 wants"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not said in\n%s", want, got)
		}
	}
	if strings.Count(got, "tool_1 wants") != 1 {
		t.Error(got)
	}
}

// Calls are answered and settled from the command line; who looks is told what is asked.
func TestApproveVerbs(t *testing.T) {
	h := newHome(t)
	dir := t.TempDir()
	stop := h.serve("--set", "tools.workspace="+dir)
	defer func() { stop().want(t, exitDone) }()
	id := h.run("run", "--model", "rehearsal/write-file-fast", "--approve", "none", "Hello").id(t, "ses")
	h.run("send", id, "Again").want(t, exitDone)
	for {
		if r := h.run("show", id); strings.Contains(r.stdout, "reprise approve") {
			r.says(t, exitDone, id+"  asks  .*\\nasks  write_file  \\{\"path\":.*  reprise approve "+id+" \\S+  until "+aTime+" \\(in .*\\)\n")
			break
		}
	}
	r := h.run("waiting")
	r.says(t, exitDone, id+"  asks  write_file  .*  reprise approve "+id+" \\S+  until "+aTime+" \\(in .*\\)\n")
	h.run("sessions").says(t, exitDone, id+"  asks  .*\n")
	call := regexp.MustCompile(`approve \S+ (\S+)`).FindStringSubmatch(r.stdout)[1]
	h.run("resolve", id, call, "mark_done").want(t, exitFailed)
	h.run("approve", id, call).says(t, exitDone, "tool  write_file  approved by \\S+\n")
	if r := h.run("deny", id, call, "no"); r.code != exitFailed || !strings.Contains(r.stderr, "write_file was approved already, by ") {
		t.Errorf("%+v", r)
	}
	h.run("waiting").says(t, exitDone, "")
	h.run("audit", id).says(t, exitDone, ".*approve call.*")
}
