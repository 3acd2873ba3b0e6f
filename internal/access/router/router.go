package router

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"connectrpc.com/connect"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire"
)

const (
	// maxBody bounds a request body of the API: certificates and keys are small.
	maxBody = 4 << 20
	// maxRequests bounds concurrent authenticated requests, including streams. A
	// console has about three for each user who has it open.
	maxRequests = 512
)

// Options configures a router.
type Options struct {
	// Runtime is the name of this runtime.
	Runtime string
	// AppProxy serves the API. It receives paths without /app-proxy and the claims in
	// the context. Without it the path is not served.
	AppProxy http.Handler
	// ArgoCD serves Argo CD's API in the same way, without /app-proxy/argocd.
	ArgoCD http.Handler
	// Webhooks receives webhooks of Git hosts. The source is in the path value
	// "source".
	Webhooks http.Handler
	// Workflows is the URL of the workflow server; without it /workflows/ returns
	// 404.
	Workflows *url.URL
	// Verify verifies the Authorization header.
	Verify func(ctx context.Context, bearer string) (wire.RuntimeClaims, error)
	// Ready returns why the runtime is not ready. Nil means always ready.
	Ready func() error
	Log   *slog.Logger
	// Metrics may be nil.
	Metrics *Metrics
}

// router is the handler. places is a semaphore of maxRequests.
type router struct {
	options   Options
	log       *slog.Logger
	denials   *connect.ErrorWriter
	workflows http.Handler
	places    chan struct{}
}

// New returns a router.
func New(options Options) http.Handler {
	r := &router{options: options, log: options.Log, denials: connect.NewErrorWriter(), places: make(chan struct{}, maxRequests)}
	r.log = cmp.Or(r.log, slog.New(slog.DiscardHandler))
	if options.Metrics == nil {
		r.options.Metrics = NewMetrics(nil)
	}
	if options.Workflows != nil {
		r.workflows = newWorkflows(options.Workflows, r.log)
	}
	return r
}

// ServeHTTP implements http.Handler. The path is matched after plainPath has rejected
// ambiguous spellings, so prefixes cannot be evaded.
func (r *router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	w.Header().Set(wire.RouterHeader, r.options.Runtime)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	path := request.URL.Path
	switch {
	case !plainPath(request.URL):
		r.finish(w, partOther, http.StatusBadRequest, "the path is ambiguous: write it without //, . and .. segments")
	case strings.HasPrefix(path, wire.ArgoCDPath):
		r.serveAPI(w, request, api{partArgoCD, wire.ArgoCDPath, r.options.ArgoCD, authoriseArgoCD})
	case strings.HasPrefix(path, wire.AppProxyPath):
		r.serveAPI(w, request, api{partAppProxy, wire.AppProxyPath, r.options.AppProxy, authorise})
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

// plainPath reports whether a path has only one interpretation. The path that is
// matched here and the one that a handler sees must be the same.
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

// serveReady serves /readyz.
func (r *router) serveReady(w http.ResponseWriter) {
	if r.options.Ready != nil && r.options.Ready() != nil {
		// The reason is served on the admin listener only: this endpoint is
		// unauthenticated.
		r.finish(w, partProbe, http.StatusServiceUnavailable, "not ready")
		return
	}
	r.finish(w, partProbe, http.StatusOK, "ok")
}

// api is one of the APIs that a router serves below a prefix.
type api struct {
	part      part
	prefix    string
	handler   http.Handler
	authorise func(method, procedure string, claims wire.RuntimeClaims) error
}

// serveAPI authenticates, authorizes and serves an API request. The body is
// bounded and not read before.
func (r *router) serveAPI(w http.ResponseWriter, request *http.Request, of api) {
	if of.handler == nil {
		r.finish(w, of.part, http.StatusNotFound, "this runtime serves no API")
		return
	}
	claims, err := r.verify(request, of.prefix)
	if err != nil {
		r.refuse(w, request, of.part, err)
		return
	}
	// The leading slash stays: procedures are named with it.
	procedure := request.URL.Path[len(of.prefix)-1:]
	if err := of.authorise(request.Method, procedure, claims); err != nil {
		r.refuse(w, request, of.part, err)
		return
	}
	release, acquired := r.acquire()
	if !acquired {
		r.refuse(w, request, of.part, connect.NewError(connect.CodeResourceExhausted, errors.New("the runtime has too many concurrent requests: retry later")))
		return
	}
	defer release()
	r.options.Metrics.count(of.part, outcomeServed)
	inner := request.Clone(token.WithClaims(request.Context(), claims))
	inner.URL.Path, inner.URL.RawPath = procedure, ""
	inner.Header.Del("Authorization") // no handler needs it, and some might log it
	inner.Body = http.MaxBytesReader(w, request.Body, maxBody)
	of.handler.ServeHTTP(w, inner)
}

// serveWebhook passes a webhook to the handler. The path must name this runtime.
func (r *router) serveWebhook(w http.ResponseWriter, request *http.Request) {
	name, source, ok := strings.Cut(strings.TrimPrefix(request.URL.Path, wire.WebhooksPath), "/")
	source = strings.TrimSuffix(source, "/")
	switch {
	case r.options.Webhooks == nil:
		r.finish(w, partWebhooks, http.StatusNotFound, "this runtime receives no webhooks")
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

// sourceName reports whether a text is a valid source name: a Kubernetes object name.
func sourceName(text string) bool {
	const most = 253
	if text == "" || len(text) > most {
		return false
	}
	return strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == "" && text[0] != '.' && text[0] != '-'
}

// verify returns the claims of a request's token, if it is valid for this path.
// Several Authorization headers are rejected: proxies disagree on which one counts.
func (r *router) verify(request *http.Request, prefix string) (wire.RuntimeClaims, error) {
	if len(request.Header.Values("Authorization")) > 1 {
		return wire.RuntimeClaims{}, refusal.New("", token.ReasonMalformed, "there is more than one header Authorization")
	}
	claims, err := r.options.Verify(request.Context(), request.Header.Get("Authorization"))
	if err != nil {
		return wire.RuntimeClaims{}, err
	}
	if claims.Prefix != prefix {
		return wire.RuntimeClaims{}, refusal.New("", token.ReasonPrefix, "the token is for another path of the runtime")
	}
	return claims, nil
}

// acquire takes a place of the semaphore without waiting; release returns it.
func (r *router) acquire() (release func(), acquired bool) {
	select {
	case r.places <- struct{}{}:
		return func() { <-r.places }, true
	default:
		return nil, false
	}
}

// refuse writes an error in the client's protocol: Connect, gRPC or plain text.
func (r *router) refuse(w http.ResponseWriter, request *http.Request, part part, err error) {
	code, result := connect.CodeUnauthenticated, outcomeUnauthenticated
	var refused *refusal.Refusal
	var denied *connect.Error
	switch {
	case errors.As(err, &refused):
		r.log.Warn("rejected request", observe.KeyReason, string(refused.Reason), "part", string(part))
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

// statusOf returns the HTTP status of an error code.
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

// finish counts a request and writes a text response.
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
	_, _ = io.WriteString(w, text+"\n") // the client may be gone
}
