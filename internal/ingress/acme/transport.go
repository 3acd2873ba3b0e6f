package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// exchangeTimeout bounds one request to an authority.
	exchangeTimeout = 30 * time.Second
	// maxResponse bounds the body that is read of a response.
	maxResponse = 1 << 20
	// maxRetryAfter caps a Retry-After, so that a wrong one cannot stop renewals for good.
	maxRetryAfter = 24 * time.Hour
)

// transport is the HTTP transport to an authority. It bounds response bodies and
// records the Retry-After of error responses, which the ACME library drops.
type transport struct {
	base *http.Transport

	mu      sync.Mutex
	retryAt time.Time
	busy    bool
	// directory is a prefetched response that has not been used yet.
	directory *cachedResponse
}

// cachedResponse is a response that was read completely.
type cachedResponse struct {
	url    string
	header http.Header
	body   []byte
}

// newTransport returns a transport with a timeout for each phase: an authority that
// hangs must not block its worker for good.
func newTransport(roots *x509.CertPool) *transport {
	return &transport{base: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: exchangeTimeout}).DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   exchangeTimeout,
		ResponseHeaderTimeout: exchangeTimeout,
		MaxIdleConnsPerHost:   2,
		IdleConnTimeout:       time.Minute,
		ForceAttemptHTTP2:     true,
	}}
}

// RoundTrip sends a request, or returns the prefetched directory.
func (c *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if kept := c.takeDirectory(request); kept != nil {
		return kept, nil
	}
	response, err := c.base.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, maxResponse), response.Body}
	busy := response.StatusCode == http.StatusServiceUnavailable
	if busy || response.StatusCode == http.StatusTooManyRequests {
		c.noteRetryAfter(response.Header.Get("Retry-After"), busy)
	}
	return response, nil
}

// prefetch fetches a URL; the next GET of it is served from memory.
func (c *transport) prefetch(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	c.setDirectory(nil)
	response, err := (&http.Client{Transport: c}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("unexpected HTTP status %d", response.StatusCode)
	}
	if err == nil {
		c.setDirectory(&cachedResponse{url: url, header: response.Header, body: body})
	}
	return err
}

// setDirectory sets the prefetched response; nil drops it.
func (c *transport) setDirectory(kept *cachedResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.directory = kept
}

// takeDirectory returns the prefetched response of a request, once.
func (c *transport) takeDirectory(request *http.Request) *http.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.directory == nil || request.Method != http.MethodGet || request.URL.String() != c.directory.url {
		return nil
	}
	kept := c.directory
	c.directory = nil
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: kept.header, Body: io.NopCloser(bytes.NewReader(kept.body)), ContentLength: int64(len(kept.body)),
	}
}

// noteRetryAfter parses a Retry-After header, in seconds or as a date (RFC 9110,
// section 10.2.3). An invalid one is ignored.
func (c *transport) noteRetryAfter(header string, busy bool) {
	now := time.Now()
	at, err := http.ParseTime(header)
	if seconds, bad := strconv.ParseUint(header, 10, 31); bad == nil {
		at, err = now.Add(time.Duration(seconds)*time.Second), nil
	}
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retryAt, c.busy = earlier(at, now.Add(maxRetryAfter)), busy
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// reset forgets the Retry-After of earlier orders.
func (c *transport) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retryAt, c.busy = time.Time{}, false
}

// retryAfter returns the time of the last Retry-After header, zero for none, and
// whether it came with a 503.
func (c *transport) retryAfter() (at time.Time, busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.retryAt, c.busy
}
