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
	// maxReply bounds what is read of an answer.
	maxReply = 1 << 20
	// maxComeBack bounds how long an authority can send us away.
	maxComeBack = 24 * time.Hour
)

// courier carries requests to an authority. It bounds what is read of answers,
// and remembers when the authority wants to be asked again.
type courier struct {
	transport *http.Transport

	mu   sync.Mutex
	at   time.Time
	busy bool
	// page is a directory that was fetched and not been used yet.
	page *page
}

// page is an answer that is kept.
type page struct {
	url    string
	header http.Header
	body   []byte
}

func newCourier(roots *x509.CertPool) *courier {
	return &courier{transport: &http.Transport{
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

// RoundTrip sends a request.
func (c *courier) RoundTrip(request *http.Request) (*http.Response, error) {
	if kept := c.take(request); kept != nil {
		return kept, nil
	}
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, maxReply), response.Body}
	busy := response.StatusCode == http.StatusServiceUnavailable
	if busy || response.StatusCode == http.StatusTooManyRequests {
		c.note(response.Header.Get("Retry-After"), busy)
	}
	return response, nil
}

// prefetch fetches a page for the next request of it.
func (c *courier) prefetch(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	c.keep(nil)
	response, err := (&http.Client{Transport: c}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the answer is HTTP %d", response.StatusCode)
	}
	if err == nil {
		c.keep(&page{url: url, header: response.Header, body: body})
	}
	return err
}

func (c *courier) keep(kept *page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.page = kept
}

// take gives the page that was kept for a request, once.
func (c *courier) take(request *http.Request) *http.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.page == nil || request.Method != http.MethodGet || request.URL.String() != c.page.url {
		return nil
	}
	kept := c.page
	c.page = nil
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: kept.header, Body: io.NopCloser(bytes.NewReader(kept.body)), ContentLength: int64(len(kept.body)),
	}
}

func (c *courier) note(header string, busy bool) {
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
	c.at, c.busy = earlier(at, now.Add(maxComeBack)), busy
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (c *courier) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.busy = time.Time{}, false
}

// comeBack is when the authority wants to be asked again; zero when it did not
// say.
func (c *courier) comeBack() (at time.Time, busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at, c.busy
}
