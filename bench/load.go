package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

var httpClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096, MaxConnsPerHost: 0}}

// result is what one stream saw.
type result struct {
	first   time.Duration   // from the request to the first delta
	transit []time.Duration // of each delta, from the upstream's write
}

// marks reads the times out of a piece of stream.
func marks(r *result, began time.Time, line []byte) int {
	n := 0
	for {
		i := bytes.IndexByte(line, '~')
		if i < 0 {
			return n
		}
		line = line[i+1:]
		j := bytes.IndexByte(line, '~')
		if j < 0 {
			return n
		}
		if stamp, err := strconv.ParseInt(string(line[:j]), 10, 64); err == nil {
			now := time.Now()
			if r.transit == nil {
				r.first = now.Sub(began)
			}
			r.transit = append(r.transit, now.Sub(time.Unix(0, stamp)))
			n++
		}
		line = line[j+1:]
	}
}

// plain asks a Chat Completions endpoint: the upstream itself, or through the proxy.
func plain(ctx context.Context, base, model string) (r result, err error) {
	body, _ := json.Marshal(map[string]any{"model": model, "stream": true, "messages": []map[string]string{{"role": "user", "content": "hi"}}})
	req, err := http.NewRequestWithContext(ctx, "POST", base+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return r, err
	}
	began := time.Now()
	resp, err := httpClient.Do(req)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	return r, scan(resp.Body, func(line []byte) bool {
		marks(&r, began, line)
		return bytes.Contains(line, []byte("[DONE]"))
	})
}

// scan reads lines until f says that it was the last.
func scan(body io.Reader, f func([]byte) bool) error {
	sc := bufio.NewScanner(body)
	sc.Buffer(make([]byte, 0, 16<<10), 64<<20)
	for sc.Scan() {
		if f(sc.Bytes()) {
			return nil
		}
	}
	return errors.Join(io.ErrUnexpectedEOF, sc.Err())
}

// conversation is a session of the server with its open stream of events.
type conversation struct {
	base, id string
	events   io.Closer
	lines    *bufio.Scanner
}

func (c *conversation) close() { c.events.Close() }

// converse makes a session and follows it.
func converse(ctx context.Context, base, model string) (*conversation, error) {
	var s struct{ ID string }
	if err := post(ctx, base+"/api/v1/sessions", map[string]string{"model": "bench/" + model}, &s); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, "GET", base+"/api/v1/events?session="+s.ID, nil)
	if err != nil {
		return nil, err
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return nil, fmt.Errorf("events: %s: %s", resp.Status, text)
	}
	c := &conversation{base: base, id: s.ID, events: resp.Body, lines: bufio.NewScanner(resp.Body)}
	c.lines.Buffer(make([]byte, 0, 16<<10), 64<<20)
	for c.lines.Scan() { // the snapshot
		if bytes.HasPrefix(c.lines.Bytes(), []byte("data:")) {
			return c, nil
		}
	}
	return nil, errors.Join(io.ErrUnexpectedEOF, c.lines.Err())
}

// ask posts a message and reads its reply from the stream of events.
func (c *conversation) ask(ctx context.Context) (r result, err error) {
	began := time.Now()
	posted := make(chan error, 1)
	go func() {
		posted <- post(ctx, c.base+"/api/v1/sessions/"+c.id+"/messages", map[string]any{"parts": []map[string]string{{"kind": "text", "text": "hi"}}}, nil)
	}()
	for c.lines.Scan() {
		line := c.lines.Bytes()
		if !bytes.Contains(line, []byte(`"type":"output"`)) {
			continue
		}
		marks(&r, began, line)
		if bytes.Contains(line, []byte(`"kind":"done"`)) {
			return r, <-posted
		}
	}
	return r, errors.Join(io.ErrUnexpectedEOF, c.lines.Err())
}

func post(ctx context.Context, url string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := httpClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("POST %s: %s: %s", url, resp.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// load is one way to get a stream of deltas: directly, through the proxy, or through Reprise.
type load struct {
	name string
	p    *process // whose processor time counts; nil: nobody's
	base string
	ours bool
}

// streams runs n streams of a model at once and returns what they saw, and the processor
// time that the load's process used meanwhile.
func (l load) streams(ctx context.Context, n int, model string) ([]result, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	asks := make([]func() (result, error), n)
	for i := range asks {
		asks[i] = func() (result, error) { return plain(ctx, l.base, model) }
		if l.ours {
			c, err := converse(ctx, l.base, model)
			if err != nil {
				return nil, 0, err
			}
			defer c.close()
			asks[i] = func() (result, error) { return c.ask(ctx) }
		}
	}
	var before time.Duration
	var err error
	if l.p != nil {
		if before, err = l.p.cpu(); err != nil {
			return nil, 0, err
		}
	}
	results, errs := make([]result, n), make([]error, n)
	var wg sync.WaitGroup
	for i, ask := range asks {
		wg.Go(func() { results[i], errs[i] = ask() })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", l.name, err)
	}
	if l.p == nil {
		return results, 0, nil
	}
	after, err := l.p.cpu()
	return results, after - before, err
}
