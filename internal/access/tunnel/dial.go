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

// Headers of the upgrade.
const (
	// runtimeHeader is the name that the agent has for itself.
	runtimeHeader = "Slipway-Runtime"
	// replicaHeader is the replica that answers.
	replicaHeader = "Slipway-Replica"
	// replicasHeader is how many replicas it knows.
	replicasHeader = "Slipway-Replicas"
)

// maxAnswer bounds what is shown of the platform's words.
const maxAnswer = 300

// refusedError is an answer of the platform that is no connection.
type refusedError struct {
	status int
	answer string
}

// Error says what the platform said.
func (e *refusedError) Error() string {
	message := fmt.Sprintf("the platform answers %d %s", e.status, http.StatusText(e.status))
	if e.answer != "" {
		message += ": " + e.answer
	}
	return message
}

// newDialer makes the client that opens WebSockets. They need HTTP/1.1.
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
		// The token is for the platform that was named, and for no other.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// tunnelURL is the address of the WebSocket.
func tunnelURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", errors.New("the URL of the platform cannot be read; it looks like https://platform.example.com")
	}
	switch u.Scheme {
	case "https", "http":
	case "wss":
		u.Scheme = "https"
	case "ws":
		u.Scheme = "http"
	default:
		return "", fmt.Errorf("the URL of the platform begins with %q; it must be https", u.Scheme)
	}
	if u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("the URL of the platform %s must have a host, and neither credentials nor a query", u.Redacted())
	}
	if path := strings.TrimSuffix(u.Path, "/"); !strings.HasSuffix(path, wire.TunnelPath) {
		u.Path = path + wire.TunnelPath
	}
	return u.String(), nil
}

// dial opens one WebSocket.
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
		return nil, fmt.Errorf("get a token for the tunnel: %w", err)
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

// dialError says why there is no connection.
func (t *tunnel) dialError(address string, response *http.Response, err error) error {
	if response == nil || response.StatusCode == http.StatusSwitchingProtocols {
		t.Metrics.tries.WithLabelValues("unreachable").Inc()
		return fmt.Errorf("connect to %s: %w", address, err)
	}
	t.Metrics.tries.WithLabelValues("refused").Inc()
	refused := &refusedError{status: response.StatusCode}
	if response.Body != nil {
		answer, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
		refused.answer = printable(string(answer))
	}
	return fmt.Errorf("connect to %s: %w", address, refused)
}

// printable is text without what could disturb a log.
func printable(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text))
}
