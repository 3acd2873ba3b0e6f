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

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// tunnelHost is the Host header of requests through a tunnel. They reach the
// router at its end, regardless of its name.
const tunnelHost = "internal-router"

// errNotRouter reports a response that is not from the runtime's router.
var errNotRouter = errors.New("the response at the runtime's address is not from its router")

// forward proxies the request to the runtime. The runtime gets a token of its
// own instead of the caller's credentials; webhooks get none, because the
// runtime verifies their signatures.
func (q *request) forward(w http.ResponseWriter, r *http.Request) {
	g := q.gateway
	fail := func(w http.ResponseWriter, r *http.Request, cause, err error) {
		if q.change != nil {
			q.change.cause, q.change.failure = cause, err
		}
		g.writeError(w, r, err)
	}
	target, transport, err := q.target()
	if err != nil {
		fail(w, r, err, err)
		return
	}
	token := ""
	if q.prefix != wire.WebhooksPath {
		claims, problem := q.claims()
		if problem == nil {
			token, problem = g.Signer.Request(claims)
		}
		if problem != nil {
			fail(w, r, connect.NewError(connect.CodeInternal, problem), problem)
			return
		}
	}
	if streams(r) {
		body := duplex(w, r)
		defer body.end()
	}
	proxy := &httputil.ReverseProxy{
		Transport:      transport,
		FlushInterval:  -1, // flush immediately
		ErrorLog:       slog.NewLogLogger(g.Log.Handler(), slog.LevelDebug),
		Rewrite:        func(out *httputil.ProxyRequest) { q.rewrite(out, target, token) },
		ModifyResponse: q.sanitizeResponse,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			fail(w, r, err, q.failure(r.Context(), err))
		},
	}
	proxy.ServeHTTP(w, r)
}

// target returns URL and transport of the runtime.
func (q *request) target() (*url.URL, http.RoundTripper, error) {
	// The mode is the one of the last heartbeat.
	if platformv1.AccessMode(q.runtime.AccessMode) == platformv1.AccessMode_ACCESS_MODE_TUNNEL {
		transport := q.gateway.Hub.Transport
		if q.runtime.Online(time.Now()) {
			transport = q.gateway.Hub.WaitingTransport
		}
		return &url.URL{Scheme: "http", Host: tunnelHost}, transport(q.runtime.ID), nil
	}
	target, err := url.Parse(q.runtime.AccessURL)
	if err != nil || target.Host == "" {
		return nil, nil, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("the runtime %q has no access URL that could be used", q.runtime.Name))
	}
	return target, q.gateway.Direct, nil
}

// claims returns the claims about the caller for the runtime.
func (q *request) claims() (wire.RuntimeClaims, error) {
	user := q.caller.User
	claims := wire.RuntimeClaims{
		Issuer: q.gateway.origin, RuntimeID: q.runtime.ID, AccountID: q.runtime.AccountID,
		UserID: user.ID, Email: user.Email, Name: user.Name, Role: string(user.Role), Prefix: q.prefix,
	}
	if err := q.policy.Claims(q.caller, &claims); err != nil {
		return claims, connect.NewError(connect.CodeFailedPrecondition, err)
	}
	return claims, nil
}

// strippedRequestHeaders are removed from requests: credentials of the
// caller, and headers that a runtime would trust.
var strippedRequestHeaders = []string{
	"Authorization", argoTokenHeader, "Cookie", "Proxy-Authorization", wire.CSRFHeader, "Forwarded", "X-Forwarded-For", "X-Forwarded-Host",
	"X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Server", "X-Real-Ip", "Via",
	"X-Forwarded-Client-Cert", "X-Forwarded-User", "X-Forwarded-Email", "X-Auth-Request-User", "Referer",
}

// rewrite builds the outgoing request.
func (q *request) rewrite(out *httputil.ProxyRequest, target *url.URL, token string) {
	for _, name := range strippedRequestHeaders {
		out.Out.Header.Del(name)
	}
	// RawPath is empty: plainPath accepted only paths with one spelling.
	out.Out.URL.Scheme, out.Out.URL.Host = target.Scheme, target.Host
	out.Out.URL.Path, out.Out.URL.RawPath = strings.TrimSuffix(target.Path, "/")+q.path, ""
	out.Out.URL.RawQuery = out.In.URL.RawQuery
	out.Out.Host = ""
	if token != "" {
		out.Out.Header.Set("Authorization", "Bearer "+token)
	}
}

// strippedResponseHeaders are removed from responses, because they would
// affect the platform's other pages in the browser.
var strippedResponseHeaders = []string{
	"Set-Cookie", "Set-Cookie2", "Clear-Site-Data", "Strict-Transport-Security", "Public-Key-Pins", "Alt-Svc",
	"Www-Authenticate", "Proxy-Authenticate", "Service-Worker-Allowed", "Refresh", "Report-To", "Reporting-Endpoints", "Nel",
	"Content-Security-Policy", "Content-Security-Policy-Report-Only", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy",
	"Origin-Agent-Cluster", "Sourcemap", "X-Sourcemap", "Link", "Speculation-Rules", "Server",
}

// sanitizeResponse removes everything from a response that a runtime must not
// set on the platform's origin. A response without the router's header is
// rejected: another server listens at the access URL.
func (q *request) sanitizeResponse(response *http.Response) error {
	if response.Header.Get(wire.RouterHeader) != q.runtime.Name {
		return errNotRouter
	}
	for _, name := range strippedResponseHeaders {
		response.Header.Del(name)
		response.Trailer.Del(name)
	}
	// CORS headers would let other sites read responses on the platform's
	// origin.
	for name := range response.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			response.Header.Del(name)
		}
	}
	if response.StatusCode == http.StatusUnauthorized && q.prefix != wire.WebhooksPath {
		// The caller is authenticated; the runtime rejects the platform's
		// token. A 401 would make the console sign out.
		return errors.New("the runtime does not accept the platform's token: are the clocks right?")
	}
	// Redirects are only valid within the workflow server, and are mapped to
	// the caller's URL.
	if location := response.Header.Get("Location"); location != "" {
		response.Header.Del("Location")
		if strings.HasPrefix(location, wire.WorkflowsPath) && q.prefix == wire.WorkflowsPath {
			response.Header.Set("Location", q.base+location)
		}
	}
	if q.change != nil {
		q.change.response = record(response)
	}
	q.isolate(response.Header)
	return nil
}

// isolate sets headers that keep pages of a runtime from acting with the
// platform's origin.
func (q *request) isolate(header http.Header) {
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	if q.prefix == wire.WorkflowsPath {
		header.Set("Content-Security-Policy", "sandbox allow-scripts allow-forms allow-popups allow-downloads")
		return
	}
	header.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	header.Set("Cache-Control", "no-store")
}

// failure converts a transport error to the error for the caller.
func (q *request) failure(ctx context.Context, err error) error {
	name := q.runtime.Name
	if denial, ok := denied(context.Cause(ctx)); ok {
		return denial
	}
	var offline *hub.OfflineError
	var busy *hub.BusyError
	var refused *refusal.Refusal
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &refused):
		return statusError{http.StatusBadRequest, refused.Error()}
	case errors.As(err, &offline):
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the runtime %q is offline%s: check that its agent runs and reaches the platform", name, q.lastHeartbeat()))
	case errors.As(err, &busy):
		return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the runtime %q has reached its request limit: retry later", name))
	case errors.As(err, &tooLarge):
		return statusError{http.StatusRequestEntityTooLarge, "the request is too large"}
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, fmt.Errorf("the runtime %q did not respond in time", name))
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, context.Canceled)
	}
	// Address and cause are only logged: they are internal to the platform.
	q.gateway.Log.Warn("runtime unreachable", "runtime", name, "account", q.runtime.AccountID, observe.KeyError, err)
	if errors.Is(err, errNotRouter) {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the access URL of the runtime %q does not lead to its router: check its ingress", name))
	}
	return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the runtime %q is unreachable%s", name, q.lastHeartbeat()))
}

// lastHeartbeat returns when the runtime sent its last heartbeat, as the end
// of a sentence.
func (q *request) lastHeartbeat() string {
	if q.runtime.HeartbeatAt.IsZero() {
		return " and has never sent a heartbeat"
	}
	return "; its last heartbeat was at " + q.runtime.HeartbeatAt.UTC().Format(time.RFC3339)
}
