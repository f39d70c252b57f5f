// Package client calls a Reprise server over HTTP: every route, and the event stream with
// reconnect and resume.
//
// It promises: an error of the server is an *Error, with the server's code; Watch delivers
// each event that can be resumed from once and in order, across broken connections, and ends
// only by its context, its callback or a refusal; no other call is repeated. It refuses to
// interpret events.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-run/reprise/internal/httpapi"
	"github.com/reprise-run/reprise/llm"
	"github.com/reprise-run/reprise/recovery"
	"github.com/reprise-run/reprise/session"
)

// Client is one server and the way to reach it. It is safe for concurrent use; its fields
// are set before the first call.
type Client struct {
	// Base is the server's address, "http://127.0.0.1:7337".
	Base string
	// Token is a bearer token; empty: none is sent.
	Token string
	// HTTP sends the requests; nil: http.DefaultClient. It needs no timeout: every call
	// takes a context.
	HTTP *http.Client
	// Reconnecting, where it is set, is told why Watch has lost its connection, before it
	// waits and tries again.
	Reconnecting func(err error)
}

// Error is what the server answered instead of what was asked for.
type Error struct {
	Status  int             `json:"-"`
	Code    string          `json:"code"` // of the API; empty where the answer was not the API's
	Message string          `json:"message"`
	Details json.RawMessage `json:"details,omitempty"`
}

func (e *Error) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("the server answered %d: %s", e.Status, e.Message)
	}
	return e.Message
}

// largest is the largest body that is read of an answer, in bytes.
const largest = 256 << 20

// do sends one request. in, where it is not nil, is its JSON body; the answer is decoded
// into out, where that is not nil.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, key string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode %s %s: %w", method, path, err)
		}
		body = bytes.NewReader(b)
	}
	req, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := c.http().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return refused(resp)
	}
	if out == nil || resp.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, largest)).Decode(out); err != nil {
		return fmt.Errorf("decode the answer to %s %s: %w", method, path, err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Request, error) {
	target := strings.TrimSuffix(c.Base, "/") + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	return req, nil
}

func (c *Client) http() *http.Client {
	if c.HTTP != nil {
		return c.HTTP
	}
	return http.DefaultClient
}

// refused reads an error's body.
func refused(resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return &Error{Status: resp.StatusCode, Message: err.Error()}
	}
	var body struct {
		Error Error `json:"error"`
	}
	if json.Unmarshal(b, &body) != nil || body.Error.Code == "" {
		return &Error{Status: resp.StatusCode, Message: strings.TrimSpace(string(b[:min(len(b), 500)]))}
	}
	body.Error.Status = resp.StatusCode
	return &body.Error
}

const (
	sessions   = "/api/v1/sessions"
	clientKeys = "/api/v1/client-keys"
)

func at[T ~string](id T) string { return "/" + url.PathEscape(string(id)) }

func ofSession(id session.ID) string { return sessions + at(id) }

func ofRun(id session.ID, run session.RunID) string { return ofSession(id) + "/runs" + at(run) }

func ofPending(id session.ID, m session.MessageID) string { return ofSession(id) + "/pending" + at(m) }

// CreateSession creates a session.
func (c *Client) CreateSession(ctx context.Context, n session.NewSession) (s session.Session, err error) {
	err = c.do(ctx, "POST", sessions, nil, "", n, &s)
	return s, err
}

// Sessions lists the sessions, or those that are archived.
func (c *Client) Sessions(ctx context.Context, archived bool) ([]session.Session, error) {
	var list httpapi.SessionList
	query := url.Values{}
	if archived {
		query.Set("archived", "true")
	}
	err := c.do(ctx, "GET", sessions, query, "", nil, &list)
	return list.Sessions, err
}

// Children lists the sessions of a session's subagents, oldest first.
func (c *Client) Children(ctx context.Context, id session.ID) ([]session.Session, error) {
	var list httpapi.SessionList
	err := c.do(ctx, "GET", sessions, url.Values{"parent": {string(id)}}, "", nil, &list)
	return list.Sessions, err
}

// Settings lists what may be changed while the server works.
func (c *Client) Settings(ctx context.Context) (list httpapi.SettingList, err error) {
	err = c.do(ctx, "GET", "/api/v1/settings", nil, "", nil, &list)
	return list, err
}

// ChangeSettings sets settings by key, and takes back the changes of those in reset.
func (c *Client) ChangeSettings(ctx context.Context, set map[string]string, reset []string) (list httpapi.SettingList, err error) {
	err = c.do(ctx, "PATCH", "/api/v1/settings", nil, "", httpapi.SettingsChange{Set: set, Reset: reset}, &list)
	return list, err
}

// Session reads a session.
func (c *Client) Session(ctx context.Context, id session.ID) (s session.Session, err error) {
	err = c.do(ctx, "GET", ofSession(id), nil, "", nil, &s)
	return s, err
}

// PatchSession changes what is set in the patch.
func (c *Client) PatchSession(ctx context.Context, id session.ID, p session.SessionPatch) (s session.Session, err error) {
	err = c.do(ctx, "PATCH", ofSession(id), nil, "", p, &s)
	return s, err
}

// ArchiveSession archives a session.
func (c *Client) ArchiveSession(ctx context.Context, id session.ID) (s session.Session, err error) {
	err = c.do(ctx, "DELETE", ofSession(id), nil, "", nil, &s)
	return s, err
}

// Messages reads a session's messages with a position above after, at most limit of them
// (0: all), and with superseded also those that have left the model's context.
func (c *Client) Messages(ctx context.Context, id session.ID, superseded bool, after int64, limit int) ([]session.Message, error) {
	query := url.Values{}
	if superseded {
		query.Set("superseded", "true")
	}
	if after > 0 {
		query.Set("after", strconv.FormatInt(after, 10))
	}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	var list httpapi.MessageList
	err := c.do(ctx, "GET", ofSession(id)+"/messages", query, "", nil, &list)
	return list.Messages, err
}

// Post posts a message, whose run keeps to the routing. With a key the post can be repeated: the
// first answer comes again.
func (c *Client) Post(ctx context.Context, id session.ID, parts []llm.Part, to session.Routing, key string) (r session.Receipt, err error) {
	err = c.do(ctx, "POST", ofSession(id)+"/messages", nil, key, httpapi.PostMessage{Parts: parts, Routing: to}, &r)
	return r, err
}

// Regenerate answers an operator message anew.
func (c *Client) Regenerate(ctx context.Context, id session.ID, m session.MessageID, q session.RegenerateRequest, key string) (r session.Receipt, err error) {
	err = c.do(ctx, "POST", ofSession(id)+"/messages"+at(m)+"/regenerate", nil, key, q, &r)
	return r, err
}

// Resume goes on after a run's last committed step.
func (c *Client) Resume(ctx context.Context, id session.ID, run session.RunID, key string) (r session.Receipt, err error) {
	err = c.do(ctx, "POST", ofRun(id, run)+"/resume", nil, key, nil, &r)
	return r, err
}

// EditPending changes a pending message and returns the queue.
func (c *Client) EditPending(ctx context.Context, id session.ID, m session.MessageID, parts []llm.Part) ([]session.Pending, error) {
	var list httpapi.PendingList
	err := c.do(ctx, "PATCH", ofPending(id, m), nil, "", httpapi.EditMessage{Parts: parts}, &list)
	return list.Pending, err
}

// RemovePending takes a pending message out of the queue.
func (c *Client) RemovePending(ctx context.Context, id session.ID, m session.MessageID) error {
	return c.do(ctx, "DELETE", ofPending(id, m), nil, "", nil, nil)
}

// SendNow moves a pending message to the head, and releases a paused queue.
func (c *Client) SendNow(ctx context.Context, id session.ID, m session.MessageID) (r session.Receipt, err error) {
	err = c.do(ctx, "POST", ofPending(id, m)+"/send-now", nil, "", nil, &r)
	return r, err
}

// Cancel asks for a run's end. The run is in a terminal state once that is acknowledged.
func (c *Client) Cancel(ctx context.Context, id session.ID, run session.RunID) (r session.Run, err error) {
	err = c.do(ctx, "POST", ofRun(id, run)+"/cancel", nil, "", nil, &r)
	return r, err
}

// StartRun lets a run start that waits for the operator.
func (c *Client) StartRun(ctx context.Context, id session.ID, run session.RunID) (r session.Run, err error) {
	err = c.do(ctx, "POST", ofRun(id, run)+"/start", nil, "", nil, &r)
	return r, err
}

// Run reads a run.
func (c *Client) Run(ctx context.Context, id session.ID, run session.RunID) (r session.Run, err error) {
	err = c.do(ctx, "GET", ofRun(id, run), nil, "", nil, &r)
	return r, err
}

// Attempts reads every attempt of a run.
func (c *Client) Attempts(ctx context.Context, id session.ID, run session.RunID) ([]session.Attempt, error) {
	var list httpapi.AttemptList
	err := c.do(ctx, "GET", ofRun(id, run)+"/attempts", nil, "", nil, &list)
	return list.Attempts, err
}

// FindRun finds a run of any session.
func (c *Client) FindRun(ctx context.Context, run session.RunID) (r session.Run, err error) {
	err = c.do(ctx, "GET", "/api/v1/runs"+at(run), nil, "", nil, &r)
	return r, err
}

// Retry reads the session's schedule; a session that has none is not found.
func (c *Client) Retry(ctx context.Context, id session.ID) (s session.Schedule, err error) {
	err = c.do(ctx, "GET", "/api/v1/sessions"+at(id)+"/retry", nil, "", nil, &s)
	return s, err
}

// RetryNow starts the retry at once. token is that of the schedule that was seen; 0: any.
func (c *Client) RetryNow(ctx context.Context, id session.ID, token int64, confirmEffects bool) (r session.Receipt, err error) {
	body := map[string]any{"token": token, "confirm_effects": confirmEffects}
	err = c.do(ctx, "POST", "/api/v1/sessions"+at(id)+"/retry/now", nil, "", body, &r)
	return r, err
}

// CancelRetry ends a wait, or dismisses one that has ended.
func (c *Client) CancelRetry(ctx context.Context, id session.ID, token int64) (r session.Retired, err error) {
	err = c.do(ctx, "DELETE", "/api/v1/sessions"+at(id)+"/retry", url.Values{"token": {strconv.FormatInt(token, 10)}}, "", nil, &r)
	return r, err
}

// Snooze puts the retry off.
func (c *Client) Snooze(ctx context.Context, id session.ID, token int64, until time.Time) (s session.Schedule, err error) {
	body := map[string]any{"token": token, "until": session.At(until)}
	err = c.do(ctx, "POST", "/api/v1/sessions"+at(id)+"/retry/snooze", nil, "", body, &s)
	return s, err
}

// Schedule lets what is not repeated by itself be repeated at the provider's time.
func (c *Client) Schedule(ctx context.Context, id session.ID, token int64) (s session.Schedule, err error) {
	err = c.do(ctx, "POST", "/api/v1/sessions"+at(id)+"/retry/schedule", nil, "", map[string]any{"token": token}, &s)
	return s, err
}

// Waiting lists the retries that wait, and the tool calls that are asked about.
func (c *Client) Waiting(ctx context.Context) (list httpapi.WaitingList, err error) {
	err = c.do(ctx, "GET", "/api/v1/waiting", nil, "", nil, &list)
	return list, err
}

// ToolCalls lists a run's calls by step.
func (c *Client) ToolCalls(ctx context.Context, id session.ID, run session.RunID) ([]session.ToolCall, error) {
	var list httpapi.CallList
	err := c.do(ctx, "GET", "/api/v1/sessions"+at(id)+"/runs"+at(run)+"/tool-calls", nil, "", nil, &list)
	return list.ToolCalls, err
}

// ApproveCall lets a tool call of the session's last run start that is asked about.
func (c *Client) ApproveCall(ctx context.Context, id session.ID, call string) (t session.ToolCall, err error) {
	err = c.do(ctx, "POST", "/api/v1/sessions"+at(id)+"/tool-calls"+at(call)+"/approve", nil, "", nil, &t)
	return t, err
}

// DenyCall lets a tool call of the session's last run that is asked about never start. The reason,
// where there is one, is told to the model.
func (c *Client) DenyCall(ctx context.Context, id session.ID, call, reason string) (t session.ToolCall, err error) {
	err = c.do(ctx, "POST", "/api/v1/sessions"+at(id)+"/tool-calls"+at(call)+"/deny", nil, "", httpapi.DenyCall{Reason: reason}, &t)
	return t, err
}

// ResolveCall settles a tool call of the session's last run whose outcome nobody knows.
func (c *Client) ResolveCall(ctx context.Context, id session.ID, call string, how session.Resolution) (t session.ToolCall, err error) {
	err = c.do(ctx, "POST", "/api/v1/sessions"+at(id)+"/tool-calls"+at(call)+"/resolve", nil, "", map[string]session.Resolution{"action": how}, &t)
	return t, err
}

// Models lists the models and chains that a session can use.
func (c *Client) Models(ctx context.Context) (list httpapi.ModelList, err error) {
	err = c.do(ctx, "GET", "/api/v1/models", nil, "", nil, &list)
	return list, err
}

// Tools lists the tools that models may ask for, and the servers that offer them.
func (c *Client) Tools(ctx context.Context) (list httpapi.ToolList, err error) {
	err = c.do(ctx, "GET", "/api/v1/tools", nil, "", nil, &list)
	return list, err
}

// StartTools starts the tool servers that are not there, and lists the tools.
func (c *Client) StartTools(ctx context.Context) (list httpapi.ToolList, err error) {
	err = c.do(ctx, "POST", "/api/v1/tools/start", nil, "", nil, &list)
	return list, err
}

// Check sends a provider one tiny request. A provider that answers badly is no error, but
// one that cannot be reached is.
func (c *Client) Check(ctx context.Context, provider string) (k httpapi.Check, err error) {
	err = c.do(ctx, "POST", "/api/v1/providers"+at(provider)+"/check", nil, "", nil, &k)
	return k, err
}

// Audit lists who did what on a session, or, without one, on all: the newest first, at most
// limit (0: 100).
func (c *Client) Audit(ctx context.Context, id session.ID, limit int) ([]session.Audit, error) {
	query := url.Values{}
	if id != "" {
		query.Set("session", string(id))
	}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	var list httpapi.AuditList
	err := c.do(ctx, "GET", "/api/v1/audit", query, "", nil, &list)
	return list.Audit, err
}

// ClientKeys lists the gateway's client keys, and what was asked with each.
func (c *Client) ClientKeys(ctx context.Context) (list httpapi.ClientKeyList, err error) {
	err = c.do(ctx, "GET", clientKeys, nil, "", nil, &list)
	return list, err
}

// CreateClientKey makes a client key, and returns it this once.
func (c *Client) CreateClientKey(ctx context.Context, n httpapi.NewClientKey) (k httpapi.CreatedClientKey, err error) {
	err = c.do(ctx, "POST", clientKeys, nil, "", n, &k)
	return k, err
}

// ChangeClientKey changes what is set in the patch.
func (c *Client) ChangeClientKey(ctx context.Context, id session.ClientKeyID, p session.ClientTermsPatch) (k session.ClientKey, err error) {
	err = c.do(ctx, "PATCH", clientKeys+at(id), nil, "", p, &k)
	return k, err
}

// RevokeClientKey ends a client key.
func (c *Client) RevokeClientKey(ctx context.Context, id session.ClientKeyID) (k session.ClientKey, err error) {
	err = c.do(ctx, "DELETE", clientKeys+at(id), nil, "", nil, &k)
	return k, err
}

// Fences lists the gateway's requests that broke and are not repeated by themselves.
func (c *Client) Fences(ctx context.Context) (list httpapi.FenceList, err error) {
	err = c.do(ctx, "GET", "/api/v1/fences", nil, "", nil, &list)
	return list, err
}

// LiftFence lets a request be asked again that broke.
func (c *Client) LiftFence(ctx context.Context, id session.FenceID) error {
	return c.do(ctx, "DELETE", "/api/v1/fences"+at(id), nil, "", nil, nil)
}

// CoolOffs lists the keys and models that are left alone at present.
func (c *Client) CoolOffs(ctx context.Context) (list httpapi.CoolOffList, err error) {
	err = c.do(ctx, "GET", "/api/v1/cool-offs", nil, "", nil, &list)
	return list, err
}

// LiftCoolOff lets a key or model be asked again before its time, named as in the list.
func (c *Client) LiftCoolOff(ctx context.Context, of recovery.Candidate) error {
	query := url.Values{"provider": {of.Provider}}
	for name, v := range map[string]string{"model": of.Model, "key": of.Key} {
		if v != "" {
			query.Set(name, v)
		}
	}
	return c.do(ctx, "DELETE", "/api/v1/cool-offs", query, "", nil, nil)
}

// GatewayCalls lists calls of the gateway, the newest first (limit 0: 100).
func (c *Client) GatewayCalls(ctx context.Context, q session.GatewayQuery) ([]session.GatewayCall, error) {
	query := url.Values{}
	for name, v := range map[string]string{"key": string(q.Key), "client": q.Client, "outcome": string(q.Outcome), "before": q.Before} {
		if v != "" {
			query.Set(name, v)
		}
	}
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	var list httpapi.GatewayCallList
	err := c.do(ctx, "GET", "/api/v1/gateway/calls", query, "", nil, &list)
	return list.Calls, err
}

// GatewayCall reads a call of the gateway, with its attempts.
func (c *Client) GatewayCall(ctx context.Context, id string) (g session.GatewayCall, err error) {
	err = c.do(ctx, "GET", "/api/v1/gateway/calls"+at(id), nil, "", nil, &g)
	return g, err
}

// System reads what the server does, and its clock.
func (c *Client) System(ctx context.Context) (s session.System, err error) {
	err = c.do(ctx, "GET", "/api/v1/system", nil, "", nil, &s)
	return s, err
}

// Ready returns nil when the server can serve.
func (c *Client) Ready(ctx context.Context) error {
	return c.do(ctx, "GET", "/readyz", nil, "", nil, nil)
}

// Login exchanges a launch link's secret for a login, which is kept in the cookie jar of
// c.HTTP.
func (c *Client) Login(ctx context.Context, secret string) (a httpapi.Actor, err error) {
	err = c.do(ctx, "POST", "/auth/launch", nil, "", httpapi.Launch{Secret: secret}, &a)
	return a, err
}

// Link makes a launch link, by which a browser logs in once within ten minutes.
func (c *Client) Link(ctx context.Context) (string, error) {
	var l httpapi.Link
	err := c.do(ctx, "POST", "/auth/link", nil, "", nil, &l)
	return l.URL, err
}

// Logout ends the login, or all of them.
func (c *Client) Logout(ctx context.Context, all bool) error {
	return c.do(ctx, "POST", "/auth/logout", nil, "", httpapi.Logout{All: all}, nil)
}
