package hooks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Headers of a webhook.
const (
	HeaderEvent     = "X-Reprise-Event"
	HeaderDelivery  = "X-Reprise-Delivery"
	HeaderSignature = "X-Reprise-Signature" // sha256= and the HMAC of the body in hexadecimal
)

// client sends each request on a connection of its own, so that nothing below us sends one twice,
// and follows no redirect.
var client = &http.Client{
	Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, Protocols: http1()},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// post calls a webhook. It fails with another status than 2xx.
func (k *hook) post(ctx context.Context, d delivery) error {
	to, err := k.URL()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(d.body))
	if err != nil {
		return errors.New("its URL is none")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "reprise")
	req.Header.Set(HeaderEvent, string(d.notice.Event))
	req.Header.Set(HeaderDelivery, d.id)
	if k.Secret != nil {
		secret, err := k.Secret()
		if err != nil {
			return fmt.Errorf("read the secret: %w", err)
		}
		req.Header.Set(HeaderSignature, Sign(secret, d.body))
	}
	resp, err := client.Do(req)
	if err != nil {
		var with *url.Error
		if errors.As(err, &with) {
			err = with.Err // without the URL
		}
		return err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // its answer is not read for anything
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("it answered %s", resp.Status)
	}
	return nil
}

// Sign is the signature of a body, as the header has it.
func Sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
