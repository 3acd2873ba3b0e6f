package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"github.com/coder/websocket"

	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/link"
)

// Headers of the WebSocket upgrade. The hub has the same constants: the two packages
// share nothing but the wire format.
const (
	// runtimeHeader is the runtime name that the agent is configured with.
	runtimeHeader = "Slipway-Runtime"
	// replicaHeader identifies the replica that accepted the connection.
	replicaHeader = "Slipway-Replica"
	// replicasHeader is the number of live replicas that it has in its directory.
	replicasHeader = "Slipway-Replicas"
)

// maxResponseText bounds the part of an error response that is logged.
const maxResponseText = 300

// rejectedError is a response of the platform other than 101 Switching Protocols.
type rejectedError struct {
	status int
	text   string
}

// Error returns status and text of the response.
func (e *rejectedError) Error() string {
	message := fmt.Sprintf("the platform responded with %d %s", e.status, http.StatusText(e.status))
	if e.text != "" {
		message += ": " + e.text
	}
	return message
}

// newDialer returns the HTTP client that opens WebSockets. A WebSocket upgrade needs
// HTTP/1.1, so ALPN offers nothing else.
func newDialer(o Options) *http.Client {
	config := &tls.Config{}
	if o.TLS != nil {
		config = o.TLS.Clone()
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	config.NextProtos = []string{"http/1.1"}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               o.Proxy,
			DialContext:         (&net.Dialer{Timeout: o.Timing.Dial, KeepAlive: o.Timing.Ping}).DialContext,
			TLSClientConfig:     config,
			TLSHandshakeTimeout: o.Timing.Dial,
			DisableKeepAlives:   true,
		},
		// A redirect is not followed: the token is meant for the configured platform
		// only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// tunnelURL validates a URL of the platform and appends wire.TunnelPath.
func tunnelURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", errors.New("the platform URL is invalid; use a URL such as https://platform.example.com")
	}
	switch u.Scheme {
	case "https", "http":
	case "wss":
		u.Scheme = "https"
	case "ws":
		u.Scheme = "http"
	default:
		return "", fmt.Errorf("the platform URL has the scheme %q; use https", u.Scheme)
	}
	if u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("the platform URL %s must have a host, and no credentials, query or fragment", u.Redacted())
	}
	if path := strings.TrimSuffix(u.Path, "/"); !strings.HasSuffix(path, wire.TunnelPath) {
		u.Path = path + wire.TunnelPath
	}
	return u.String(), nil
}

// dial opens one WebSocket. The returned connection is not claimed yet: connect
// decides whether its replica is wanted.
func (t *tunnel) dial(ctx context.Context, address string) (*connection, error) {
	target, err := tunnelURL(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.Timing.Dial)
	defer cancel()
	token, err := t.Token(ctx)
	if err != nil {
		t.Metrics.tries.WithLabelValues("token").Inc()
		return nil, fmt.Errorf("get tunnel token: %w", err)
	}
	header := http.Header{"Authorization": {"Bearer " + token}}
	if t.Runtime != "" {
		header.Set(runtimeHeader, t.Runtime)
	}
	socket, response, err := websocket.Dial(ctx, target, &websocket.DialOptions{HTTPClient: t.dialer, HTTPHeader: header})
	if err != nil {
		return nil, t.dialError(address, response, err)
	}
	t.Metrics.tries.WithLabelValues("connected").Inc()
	replicas, _ := strconv.Atoi(response.Header.Get(replicasHeader))
	return &connection{
		tunnel: t, address: address, token: token,
		replica: response.Header.Get(replicaHeader), replicas: max(replicas, 1),
		link: link.New(socket, t.Timing.Dead, t.Metrics.bytes.WithLabelValues("in"), t.Metrics.bytes.WithLabelValues("out")),
	}, nil
}

// dialError counts a failed attempt and returns its error, with the platform's
// response if there was one.
func (t *tunnel) dialError(address string, response *http.Response, err error) error {
	if response == nil || response.StatusCode == http.StatusSwitchingProtocols {
		t.Metrics.tries.WithLabelValues("unreachable").Inc()
		return fmt.Errorf("connect to %s: %w", address, err)
	}
	t.Metrics.tries.WithLabelValues("refused").Inc()
	refused := &rejectedError{status: response.StatusCode}
	if response.Body != nil {
		text, _ := io.ReadAll(io.LimitReader(response.Body, maxResponseText))
		refused.text = printable(string(text))
	}
	return fmt.Errorf("connect to %s: %w", address, refused)
}

// printable replaces control characters in text from the network, so that it cannot
// forge log lines.
func printable(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text))
}
