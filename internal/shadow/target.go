package shadow

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

const (
	dialTimeout = 5 * time.Second
	idleTimeout = 30 * time.Second
	// maxIdle bounds the connections that a Target keeps: those of TLS are kept by host.
	maxIdle = 256
	// maxHeadBytes bounds the head of a response.
	maxHeadBytes = 256 << 10
)

// TargetOptions are the settings of both controllers.
type TargetOptions struct {
	// Timeout bounds a request, with the body of its response.
	Timeout time.Duration
	// MaxBody is how much of a body is read and compared, decoded.
	MaxBody int64
	// Roots verify certificates; nil means those of the system.
	Roots    *x509.CertPool
	Insecure bool
	// ForwardClient sends the address of the client in X-Forwarded-For.
	ForwardClient bool
}

// Target is a controller at one address.
type Target struct {
	options   TargetOptions
	scheme    string
	address   string
	transport *http.Transport
}

// NewTarget returns the controller at a URL such as https://10.0.0.5. Requests go to that
// address, whatever their host is: DNS still has the old controller.
func NewTarget(address string, options TargetOptions) (*Target, error) {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" || strings.Trim(parsed.Path, "/") != "" {
		return nil, fmt.Errorf("%q is no address of a controller: write one such as http://10.0.0.5 or https://10.0.0.5:8443", address)
	}
	t := &Target{options: options, scheme: parsed.Scheme, address: parsed.Host}
	if parsed.Port() == "" {
		t.address = net.JoinHostPort(parsed.Hostname(), map[string]string{"http": "80", "https": "443"}[parsed.Scheme])
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	t.transport = &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, t.address)
		},
		// Responses are compared as they are sent, so nothing is decoded on the way.
		DisableCompression: true, MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTimeout,
		TLSHandshakeTimeout: dialTimeout, MaxResponseHeaderBytes: maxHeadBytes,
		TLSClientConfig: &tls.Config{RootCAs: options.Roots, InsecureSkipVerify: options.Insecure, MinVersion: tls.VersionTLS12},
	}
	return t, nil
}

// Close closes idle connections.
func (t *Target) Close() { t.transport.CloseIdleConnections() }

// String returns the address.
func (t *Target) String() string { return t.scheme + "://" + t.address }

// request composes a request. With TLS the host of the copy is that of the URL, which is
// the server name of the handshake and the name that the certificate must have. Without,
// all hosts share the connections.
func (t *Target) request(ctx context.Context, copied *Request) (*http.Request, error) {
	address := &url.URL{Scheme: t.scheme, Host: t.address}
	if name := hostName(copied.Host); t.scheme == "https" && !strings.ContainsAny(name, "_[]") {
		_, port, _ := net.SplitHostPort(t.address)
		address.Host = net.JoinHostPort(name, port)
	}
	if err := setTarget(address, copied.Target); err != nil {
		return nil, err
	}
	sent := (&http.Request{
		Method: copied.Method, URL: address, Host: copied.Host, Header: maps.Clone(copied.Header),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	sent.Header.Set(Marker, "1")
	if copied.Header.Get("User-Agent") == "" {
		sent.Header["User-Agent"] = []string{""} // or else the library adds its own
	}
	if t.options.ForwardClient && copied.Client != "" {
		sent.Header.Set("X-Forwarded-For", copied.Client)
	}
	if len(copied.Body) > 0 {
		sent.Body, sent.ContentLength = io.NopCloser(bytes.NewReader(copied.Body)), int64(len(copied.Body))
	}
	return sent, nil
}

// setTarget makes a URL whose request line has exactly the target. net/url would repair
// spellings that controllers treat differently, and an opaque URL is left as it is. Only a
// target with two slashes at its start has to be parsed: it would be taken for a host.
func setTarget(address *url.URL, target string) error {
	if !strings.HasPrefix(target, "//") {
		address.Opaque = target
	} else {
		path, query, hasQuery := strings.Cut(target, "?")
		plain, err := url.PathUnescape(path)
		if err != nil {
			return errSpelling
		}
		address.Path, address.RawPath, address.RawQuery, address.ForceQuery = plain, path, query, hasQuery
	}
	if address.RequestURI() != target {
		return errSpelling
	}
	return nil
}

// errSpelling is the error of a target that cannot be sent as it is.
var errSpelling = errors.New(SkipSpelling)

// hostName returns a Host header without its port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// Send sends a copy and returns the response, or how it failed. It follows no redirects.
func (t *Target) Send(ctx context.Context, copied *Request) *Response {
	ctx, cancel := context.WithTimeout(ctx, t.options.Timeout)
	defer cancel()
	request, err := t.request(ctx, copied)
	if err != nil {
		return failed(err)
	}
	response, err := t.transport.RoundTrip(request)
	if err != nil {
		return failed(err)
	}
	defer response.Body.Close()
	return readResponse(response, t.options.MaxBody)
}

// failed classifies an error.
func failed(err error) *Response {
	r := &Response{Failure: FailureConnection, Err: err.Error()}
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var deadline net.Error
	switch {
	case errors.Is(err, errSpelling):
		r.Failure = failureSpelling
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &deadline) && deadline.Timeout():
		r.Failure = FailureTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		r.Failure = FailureRefused
	case errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &alert):
		r.Failure = FailureTLS
	}
	return r
}
