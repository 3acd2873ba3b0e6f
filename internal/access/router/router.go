package router

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire"
)

const (
	// maxBody bounds a request to the API: certificates and keys are small.
	maxBody = 4 << 20
	// maxRequests bounds the requests with a token at a time, streams too. A
	// console has about three for each person who looks at it.
	maxRequests = 512
)

// Options is what a router serves.
type Options struct {
	// Runtime is the name of this runtime.
	Runtime string
	// AppProxy serves the API; it gets paths without /app-proxy, and the claims
	// in the context. Without it the path is not there.
	AppProxy http.Handler
	// Webhooks hears Git hosts. The source is in the path value "source".
	Webhooks http.Handler
	// Workflows is the server for workflows; without one /workflows/ says so.
	Workflows *url.URL
	// Verify verifies the header Authorization.
	Verify func(ctx context.Context, bearer string) (wire.RuntimeClaims, error)
	// Ready says why the runtime is not ready. Without it, it is.
	Ready func() error
	Log   *slog.Logger
	// Metrics can be nil.
	Metrics *Metrics
}

// router is the handler.
type router struct {
	options   Options
	log       *slog.Logger
	denials   *connect.ErrorWriter
	workflows http.Handler
	places    chan struct{}
}

// New makes a router.
func New(options Options) http.Handler {
	r := &router{options: options, log: options.Log, denials: connect.NewErrorWriter(), places: make(chan struct{}, maxRequests)}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if options.Workflows != nil {
		r.workflows = newWorkflows(options.Workflows, r.log)
	}
	return r
}

// ServeHTTP answers.
func (r *router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	w.Header().Set(wire.RouterHeader, r.options.Runtime)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	path := request.URL.Path
	switch {
	case !plainPath(request.URL):
		r.finish(w, partOther, http.StatusBadRequest, "the path can be read in two ways: write it without //, . and .. segments")
	case strings.HasPrefix(path, wire.AppProxyPath):
		r.serveAppProxy(w, request)
	case strings.HasPrefix(path, wire.WebhooksPath):
		r.serveWebhook(w, request)
	case path == strings.TrimSuffix(wire.WorkflowsPath, "/") || strings.HasPrefix(path, wire.WorkflowsPath):
		r.serveWorkflows(w, request)
	case path == "/healthz":
		r.finish(w, partProbe, http.StatusOK, "ok")
	case path == "/readyz":
		r.serveReady(w)
	default:
		r.finish(w, partOther, http.StatusNotFound, "a runtime serves "+wire.AppProxyPath+", "+wire.WebhooksPath+" and "+wire.WorkflowsPath)
	}
}

// plainPath reports whether a path can be read in one way only. What is matched
// here and what a handler sees must be the same.
func plainPath(address *url.URL) bool {
	if !strings.HasPrefix(address.Path, "/") || strings.ContainsAny(address.Path, "\\\x00") {
		return false
	}
	escaped := strings.ToLower(address.EscapedPath())
	if strings.Contains(escaped, "%2f") || strings.Contains(escaped, "%5c") {
		return false
	}
	segments := strings.Split(address.Path[1:], "/")
	for i, segment := range segments {
		if segment == "." || segment == ".." || segment == "" && i != len(segments)-1 {
			return false
		}
	}
	return true
}

func (r *router) serveReady(w http.ResponseWriter) {
	if r.options.Ready != nil && r.options.Ready() != nil {
		// Why is for the admin listener: anybody can ask here.
		r.finish(w, partProbe, http.StatusServiceUnavailable, "not ready")
		return
	}
	r.finish(w, partProbe, http.StatusOK, "ok")
}

// serveAppProxy serves the API.
func (r *router) serveAppProxy(w http.ResponseWriter, request *http.Request) {
	if r.options.AppProxy == nil {
		r.finish(w, partAppProxy, http.StatusNotFound, "this runtime serves no API")
		return
	}
	claims, err := r.verify(request, wire.AppProxyPath)
	if err != nil {
		r.refuse(w, request, partAppProxy, err)
		return
	}
	procedure := request.URL.Path[len(wire.AppProxyPath)-1:]
	if err := authorise(procedure, claims); err != nil {
		r.refuse(w, request, partAppProxy, err)
		return
	}
	leave, entered := r.enter()
	if !entered {
		r.refuse(w, request, partAppProxy, connect.NewError(connect.CodeResourceExhausted, errors.New("the runtime answers too many requests: try again later")))
		return
	}
	defer leave()
	r.options.Metrics.count(partAppProxy, outcomeServed)
	inner := request.Clone(token.WithClaims(request.Context(), claims))
	inner.URL.Path, inner.URL.RawPath = procedure, ""
	inner.Header.Del("Authorization") // no handler needs it, and some might log it
	inner.Body = http.MaxBytesReader(w, request.Body, maxBody)
	r.options.AppProxy.ServeHTTP(w, inner)
}

// serveWebhook passes a Git host's request on. The path names this runtime.
func (r *router) serveWebhook(w http.ResponseWriter, request *http.Request) {
	name, source, ok := strings.Cut(strings.TrimPrefix(request.URL.Path, wire.WebhooksPath), "/")
	source = strings.TrimSuffix(source, "/")
	switch {
	case r.options.Webhooks == nil:
		r.finish(w, partWebhooks, http.StatusNotFound, "this runtime hears no webhooks")
		return
	case name != r.options.Runtime || !ok || !sourceName(source):
		r.finish(w, partWebhooks, http.StatusNotFound, "webhooks of this runtime are sent to "+wire.WebhooksPath+r.options.Runtime+"/<source>")
		return
	}
	r.options.Metrics.count(partWebhooks, outcomeServed)
	inner := request.Clone(request.Context())
	inner.SetPathValue("source", source)
	r.options.Webhooks.ServeHTTP(w, inner)
}

// sourceName reports whether a text can be the name of a source: as Kubernetes
// names objects.
func sourceName(text string) bool {
	const most = 253
	if text == "" || len(text) > most {
		return false
	}
	return strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == "" && text[0] != '.' && text[0] != '-'
}

// verify gives what the token of a request says, if it is for this path.
func (r *router) verify(request *http.Request, prefix string) (wire.RuntimeClaims, error) {
	if len(request.Header.Values("Authorization")) > 1 {
		return wire.RuntimeClaims{}, token.Refuse(token.ReasonMalformed, "there is more than one header Authorization")
	}
	claims, err := r.options.Verify(request.Context(), request.Header.Get("Authorization"))
	if err != nil {
		return wire.RuntimeClaims{}, err
	}
	if claims.Prefix != prefix {
		return wire.RuntimeClaims{}, token.Refuse(token.ReasonPrefix, "the token is for another path of the runtime")
	}
	return claims, nil
}

// enter takes one of the places for requests.
func (r *router) enter() (leave func(), entered bool) {
	select {
	case r.places <- struct{}{}:
		return func() { <-r.places }, true
	default:
		return nil, false
	}
}

// refuse answers who may not, in the form that the client reads.
func (r *router) refuse(w http.ResponseWriter, request *http.Request, part part, err error) {
	code, result := connect.CodeUnauthenticated, outcomeUnauthenticated
	var refused *token.RefusedError
	var denied *connect.Error
	switch {
	case errors.As(err, &refused):
		r.log.Warn("a request was refused", observe.KeyReason, string(refused.Reason), "part", string(part))
	case errors.As(err, &denied):
		code, result = denied.Code(), outcomeDenied
		if code == connect.CodeResourceExhausted {
			result = outcomeOverloaded
		}
	default:
		err = errors.New("the token cannot be verified")
	}
	r.options.Metrics.count(part, result)
	if denied == nil {
		denied = connect.NewError(code, err)
	}
	if r.denials.IsSupported(request) {
		_ = r.denials.Write(w, request, denied)
		return
	}
	writeText(w, statusOf(code), denied.Message())
}

// statusOf is the status of HTTP for what we refuse with.
func statusOf(code connect.Code) int {
	switch code {
	case connect.CodePermissionDenied:
		return http.StatusForbidden
	case connect.CodeUnimplemented:
		return http.StatusNotFound
	case connect.CodeResourceExhausted:
		return http.StatusTooManyRequests
	}
	return http.StatusUnauthorized
}

// finish answers with a text, and counts.
func (r *router) finish(w http.ResponseWriter, part part, status int, text string) {
	result := outcomeServed
	if status >= http.StatusBadRequest {
		result = outcomeRefused
	}
	r.options.Metrics.count(part, result)
	writeText(w, status, text)
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // a client that has gone needs no answer
}
