package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// tunnelHost is the host of requests that go through a tunnel: they go to the
// router at its end, whatever it is called.
const tunnelHost = "internal-router"

// errStranger is an answer that is not of the runtime's router.
var errStranger = errors.New("what answers at the runtime's address is not its router")

// forward hands the request to the runtime and its answer back.
func (q *request) forward(w http.ResponseWriter, r *http.Request) {
	g := q.gateway
	target, transport, err := q.target()
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	token := ""
	if q.prefix != wire.WebhooksPath {
		if token, err = g.Signer.Request(q.claims()); err != nil {
			g.refuse(w, r, err)
			return
		}
	}
	if streams(r) {
		body := duplex(w, r)
		defer body.end()
	}
	proxy := &httputil.ReverseProxy{
		Transport:      transport,
		FlushInterval:  -1, // what the runtime sends is not kept back
		ErrorLog:       slog.NewLogLogger(g.Log.Handler(), slog.LevelDebug),
		Rewrite:        func(out *httputil.ProxyRequest) { q.rewrite(out, target, token) },
		ModifyResponse: q.cleanAnswer,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			g.refuse(w, r, q.failure(r.Context(), err))
		},
	}
	proxy.ServeHTTP(w, r)
}

// target is where the runtime is, and how it is reached.
func (q *request) target() (*url.URL, http.RoundTripper, error) {
	if platformv1.AccessMode(q.runtime.AccessMode) == platformv1.AccessMode_ACCESS_MODE_TUNNEL {
		return &url.URL{Scheme: "http", Host: tunnelHost}, q.gateway.Hub.Transport(q.runtime.ID), nil
	}
	target, err := url.Parse(q.runtime.AccessURL)
	if err != nil || target.Host == "" {
		return nil, nil, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("the runtime %q has no access URL that could be used", q.runtime.Name))
	}
	return target, q.gateway.Direct, nil
}

// claims is what the runtime is told of the caller.
func (q *request) claims() wire.RuntimeClaims {
	user := q.caller.User
	return wire.RuntimeClaims{
		Issuer: q.gateway.origin, RuntimeID: q.runtime.ID, AccountID: q.runtime.AccountID,
		UserID: user.ID, Email: user.Email, Name: user.Name, Role: string(user.Role), Prefix: q.prefix,
	}
}

// callersOwn are headers of the caller that a runtime must not see, or that it must
// not believe.
var callersOwn = []string{
	"Authorization", "Cookie", "Proxy-Authorization", wire.CSRFHeader, "Forwarded", "X-Forwarded-For", "X-Forwarded-Host",
	"X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Server", "X-Real-Ip", "Via",
	"X-Forwarded-Client-Cert", "X-Forwarded-User", "X-Forwarded-Email", "X-Auth-Request-User", "Referer",
}

// rewrite makes the request that the runtime gets.
func (q *request) rewrite(out *httputil.ProxyRequest, target *url.URL, token string) {
	for _, name := range callersOwn {
		out.Out.Header.Del(name)
	}
	out.Out.URL.Scheme, out.Out.URL.Host = target.Scheme, target.Host
	out.Out.URL.Path, out.Out.URL.RawPath = strings.TrimSuffix(target.Path, "/")+q.path, ""
	out.Out.URL.RawQuery = out.In.URL.RawQuery
	out.Out.Host = ""
	if token != "" {
		out.Out.Header.Set("Authorization", "Bearer "+token)
	}
}

// runtimesOwn are headers of an answer that would change what a browser does with
// the platform's other pages.
var runtimesOwn = []string{
	"Set-Cookie", "Set-Cookie2", "Clear-Site-Data", "Strict-Transport-Security", "Public-Key-Pins", "Alt-Svc",
	"Www-Authenticate", "Proxy-Authenticate", "Service-Worker-Allowed", "Refresh", "Report-To", "Reporting-Endpoints", "Nel",
	"Content-Security-Policy", "Content-Security-Policy-Report-Only", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy",
	"Origin-Agent-Cluster", "Sourcemap", "X-Sourcemap", "Link", "Speculation-Rules", "Server",
}

// cleanAnswer takes from the answer what a runtime may not say on the platform's
// origin.
func (q *request) cleanAnswer(answer *http.Response) error {
	if answer.Header.Get(wire.RouterHeader) != q.runtime.Name {
		return errStranger
	}
	for _, name := range runtimesOwn {
		answer.Header.Del(name)
		answer.Trailer.Del(name)
	}
	for name := range answer.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			answer.Header.Del(name)
		}
	}
	if answer.StatusCode == http.StatusUnauthorized && q.prefix != wire.WebhooksPath {
		// The caller is signed in; it is the platform whom the runtime does not know.
		return errors.New("the runtime does not accept the platform's token: are the clocks right?")
	}
	if location := answer.Header.Get("Location"); location != "" {
		answer.Header.Del("Location")
		if strings.HasPrefix(location, wire.WorkflowsPath) && q.prefix == wire.WorkflowsPath {
			answer.Header.Set("Location", q.base+location)
		}
	}
	q.guard(answer.Header)
	return nil
}

// guard sets what keeps pages of a runtime from acting as the platform's.
func (q *request) guard(header http.Header) {
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	if q.prefix == wire.WorkflowsPath {
		header.Set("Content-Security-Policy", "sandbox allow-scripts allow-forms allow-popups allow-downloads")
		return
	}
	header.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	header.Set("Cache-Control", "no-store")
}

// failure is what the caller is told when the runtime could not be reached.
func (q *request) failure(ctx context.Context, err error) error {
	name := q.runtime.Name
	if refusal, ok := denied(context.Cause(ctx)); ok {
		return refusal
	}
	var offline *hub.OfflineError
	var busy *hub.BusyError
	var refused *hub.RefusedError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &refused):
		return statusError{http.StatusBadRequest, refused.Error()}
	case errors.As(err, &offline):
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the runtime %q is offline%s: see whether its agent runs and reaches the platform", name, q.since()))
	case errors.As(err, &busy):
		return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the runtime %q has as many requests as it can take: try again soon", name))
	case errors.As(err, &tooLarge):
		return statusError{http.StatusRequestEntityTooLarge, "the request is too large"}
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, fmt.Errorf("the runtime %q took too long", name))
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, context.Canceled)
	}
	// The address and the cause are for whoever runs the platform.
	q.gateway.Log.Warn("a runtime could not be reached", "runtime", name, "account", q.runtime.AccountID, observe.KeyError, err)
	if errors.Is(err, errStranger) {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the access URL of the runtime %q does not lead to its router: check its ingress", name))
	}
	return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the runtime %q cannot be reached%s", name, q.since()))
}

// since says when the runtime gave its last sign of life.
func (q *request) since() string {
	if q.runtime.HeartbeatAt.IsZero() {
		return " and has never given a sign of life"
	}
	return "; its last sign of life was at " + q.runtime.HeartbeatAt.UTC().Format(time.RFC3339)
}
