// Package gateway forwards requests of users to runtimes:
// /runtimes/<name>/app-proxy/ and /workflows/ with the caller's session or
// key, /app-proxy/argocd/ with a key, and on the host of a tunnel also
// /webhooks/ without either, because the runtime verifies webhook signatures.
//
// It guarantees that the caller is authenticated and authorized before a byte
// is forwarded, that the runtime gets a token that is valid for it alone and
// for a minute, and never a cookie, key or other credential of the caller. A
// response cannot set a cookie or run a script with the platform's origin,
// and only responses of the requested runtime's router are accepted. Both
// directions stream; the request of a caller who loses access is aborted.
//
// It rejects ambiguous paths.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/apprights"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// Hub sends requests to runtimes through their tunnels.
type Hub interface {
	Transport(runtimeID string) http.RoundTripper
	// WaitingTransport waits for a connection of a runtime that has none yet.
	WaitingTransport(runtimeID string) http.RoundTripper
}

// Options configures a Gateway.
type Options struct {
	Store    *store.Store
	Identity *identity.Identity
	Signer   *signing.Signer
	Hub      Hub
	// Direct sends requests to runtimes at their access URLs; it must not
	// follow redirects.
	Direct http.RoundTripper
	// PublicURL is the issuer of tokens for runtimes, and the only origin
	// whose pages may open WebSockets.
	PublicURL *url.URL
	// Policies decides about Applications beside the roles of callers; nil has
	// no rules.
	Policies *apprights.Policies
	// TunnelDomain is the parent domain of tunnel hosts; empty without
	// tunnels.
	TunnelDomain string
	Limits       Limits
	Log          *slog.Logger
	Metrics      *Metrics
}

// Limits bound requests. Zero selects the default.
type Limits struct {
	// RequestsPerAccount bounds the requests in flight of an account: 512.
	RequestsPerAccount int
	// WebhooksPerRuntime bounds the webhooks in flight of a runtime: 32. They
	// are unauthenticated.
	WebhooksPerRuntime int
	// WebhookBytes bounds a webhook: 25 MiB, the maximum of the Git
	// providers.
	WebhookBytes int64
	// BodyBytes bounds other requests: 32 MiB.
	BodyBytes int64
	// Unary is the timeout of unary requests: 2 minutes.
	Unary time.Duration
	// Stream is the timeout of all others: 12 hours.
	Stream time.Duration
	// Webhook is the timeout of a webhook: 30 seconds.
	Webhook time.Duration
}

// withDefaults sets the zero fields to their defaults.
func (l Limits) withDefaults() Limits {
	return Limits{
		RequestsPerAccount: cmp.Or(l.RequestsPerAccount, 512),
		WebhooksPerRuntime: cmp.Or(l.WebhooksPerRuntime, 32),
		WebhookBytes:       cmp.Or(l.WebhookBytes, 25<<20),
		BodyBytes:          cmp.Or(l.BodyBytes, 32<<20),
		Unary:              cmp.Or(l.Unary, 2*time.Minute),
		Stream:             cmp.Or(l.Stream, 12*time.Hour),
		Webhook:            cmp.Or(l.Webhook, 30*time.Second),
	}
}

// Gateway is an http.Handler. It is safe for concurrent use.
type Gateway struct {
	Options
	origin  string
	running requestLimiter
}

// New returns a Gateway.
func New(options Options) (*Gateway, error) {
	if options.Store == nil || options.Identity == nil || options.Signer == nil || options.Hub == nil || options.Direct == nil || options.PublicURL == nil {
		return nil, errors.New("the gateway needs a store, an identity, a signer, a hub, a transport and the public URL")
	}
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	if options.Metrics == nil {
		options.Metrics = NewMetrics(nil)
	}
	options.Limits = options.Limits.withDefaults()
	return &Gateway{Options: options, origin: options.PublicURL.Scheme + "://" + options.PublicURL.Host}, nil
}

// OwnsHost reports whether a Host header is the host of a tunnel. The gateway
// serves such a request regardless of its path.
func (g *Gateway) OwnsHost(host string) bool {
	_, ok := g.label(host)
	return ok
}

// label returns the first label of a tunnel host, <account>-<runtime>.
func (g *Gateway) label(host string) (string, bool) {
	if g.TunnelDomain == "" {
		return "", false
	}
	// Host names are case-insensitive and may end with a dot.
	name := strings.ToLower((&url.URL{Host: host}).Hostname())
	label, found := strings.CutSuffix(strings.TrimSuffix(name, "."), "."+g.TunnelDomain)
	if !found || label == "" || strings.Contains(label, ".") {
		return "", false
	}
	return label, true
}

// request is the state of one forwarded request.
type request struct {
	gateway   *Gateway
	runtime   store.Runtime
	name      string // requested name of the runtime
	policy    *apprights.Policy
	caller    identity.Caller
	prefix    string // wire.AppProxyPath, WebhooksPath, WorkflowsPath or ArgoCDPath
	path      string // path at the router
	base      string // part of the caller's URL before path
	procedure string // app-proxy and argocd only
	rule      permission.Rule
	argo      *argoRequest // argocd only
	change    *change      // nil for requests that are not audited
	started   time.Time
}

// ServeHTTP forwards a request to its runtime.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	forwarded := &request{gateway: g, started: time.Now()}
	recorder := &statusRecorder{ResponseWriter: w}
	err := forwarded.serve(recorder, r)
	if err != nil {
		g.writeError(recorder, r, err)
	}
	g.Metrics.observe(forwarded.prefix, recorder.status, time.Since(forwarded.started))
}

// serve determines runtime and prefix of the request and forwards it. The
// runtime is named by the host of its tunnel or by the path.
func (q *request) serve(w *statusRecorder, r *http.Request) error {
	label, byHost := q.gateway.label(r.Host)
	path, err := plainPath(r)
	if err != nil {
		return err
	}
	name := ""
	if !byHost {
		rest, found := strings.CutPrefix(path, wire.RuntimesPath)
		name, path, _ = strings.Cut(rest, "/")
		if !found || wire.RuntimeName(name) != nil {
			return notFound("not found")
		}
		path, q.base = "/"+path, wire.RuntimesPath+name
	}
	q.path = path
	// The last one that matches is the longest.
	for _, prefix := range []string{wire.AppProxyPath, wire.WebhooksPath, wire.WorkflowsPath, wire.ArgoCDPath} {
		if strings.HasPrefix(path, prefix) {
			q.prefix = prefix
		}
	}
	switch {
	case q.prefix == "" || (q.prefix == wire.WebhooksPath && !byHost):
		return notFound("a runtime does not serve this path")
	case q.prefix == wire.WebhooksPath:
		return q.webhook(w, r, label)
	}
	return q.authorised(w, r, label, name)
}

// authorised forwards the request of an authenticated caller. The order is:
// authenticate, authorize, look up the runtime, limit, audit, forward. So a
// caller without permission learns nothing about runtimes.
func (q *request) authorised(w *statusRecorder, r *http.Request, label, name string) error {
	g := q.gateway
	account := ""
	if label != "" {
		account, name, _ = strings.Cut(label, "-")
	}
	q.name = name
	switch q.prefix {
	case wire.AppProxyPath:
		q.procedure = strings.TrimPrefix(q.path, strings.TrimSuffix(wire.AppProxyPath, "/"))
	case wire.ArgoCDPath:
		if err := q.identifyArgo(r); err != nil {
			return err
		}
	}
	caller, err := g.Identity.Authenticate(r)
	if err != nil {
		g.Identity.Deny(r.Context(), identity.Caller{Address: g.Identity.Address(r)}, q.event(), err)
		return err
	}
	q.caller = caller
	if err := q.authorise(r); err != nil {
		return err
	}
	// The account of the host must be the caller's: a session is never valid
	// for another account's runtime.
	if label != "" && account != caller.Account.ID {
		return notFound("the account has no such runtime")
	}
	if q.runtime, err = g.Store.RuntimeByName(r.Context(), caller.Account.ID, name); err != nil {
		return lookupError(err)
	}
	if err := q.authoriseVerb(r.Context()); err != nil {
		return err
	}
	release, ok := g.running.acquire("account "+caller.Account.ID, g.Limits.RequestsPerAccount)
	if !ok {
		return connect.NewError(connect.CodeResourceExhausted, errors.New("the account has reached its limit of concurrent requests to runtimes: retry later"))
	}
	defer release()
	if err := q.beginChange(w, r); err != nil {
		return err
	}
	// The watch aborts the request when the session ends or the key is
	// revoked.
	ctx, stop := g.Identity.Watch(r.Context(), caller)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, q.deadline(r))
	defer cancel()
	r.Body = http.MaxBytesReader(w, r.Body, g.Limits.BodyBytes)
	defer q.endChange(ctx)
	q.forward(w, r.WithContext(ctx))
	return nil
}

// webhook forwards an unauthenticated webhook, with tight limits.
func (q *request) webhook(w *statusRecorder, r *http.Request, label string) error {
	g := q.gateway
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return statusError{http.StatusMethodNotAllowed, "webhooks are sent with POST"}
	}
	account, name, _ := strings.Cut(label, "-")
	runtime, err := g.Store.RuntimeByName(r.Context(), account, name)
	if err != nil {
		return lookupError(err)
	}
	if platformv1.AccessMode(runtime.AccessMode) != platformv1.AccessMode_ACCESS_MODE_TUNNEL {
		return notFound("there is no such runtime")
	}
	q.runtime = runtime
	release, ok := g.running.acquire("webhooks "+runtime.ID, g.Limits.WebhooksPerRuntime)
	if !ok {
		w.Header().Set("Retry-After", "5")
		return statusError{http.StatusTooManyRequests, "the runtime has too many webhooks in flight: retry later"}
	}
	defer release()
	// The deadlines also bound a client that sends or reads slowly.
	until := time.Now().Add(g.Limits.Webhook)
	ctx, cancel := context.WithDeadline(r.Context(), until)
	defer cancel()
	control := http.NewResponseController(w)
	// With HTTP/2 the deadlines apply to this stream only, not to the
	// connection.
	_ = control.SetReadDeadline(until)
	_ = control.SetWriteDeadline(until.Add(time.Second))
	r.Body = http.MaxBytesReader(w, r.Body, g.Limits.WebhookBytes)
	q.forward(w, r.WithContext(ctx))
	return nil
}

// lookupError converts the error of a runtime lookup.
func lookupError(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return notFound("there is no such runtime")
	}
	return err
}

// plainPath returns the path of a request if it has only one spelling. The
// path that the platform checks and the one that the router serves must be
// the same.
func plainPath(r *http.Request) (string, error) {
	path := r.URL.Path
	if r.URL.RawPath != "" || strings.ContainsAny(path, "\\\x00;") {
		return "", statusError{http.StatusBadRequest, "the path contains characters that are not allowed"}
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/"), "/") {
		if part == "." || part == ".." || (part == "" && path != "/") {
			return "", statusError{http.StatusBadRequest, "the path contains an empty segment, . or .."}
		}
	}
	return path, nil
}
