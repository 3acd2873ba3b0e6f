// Package gateway hands requests of users to runtimes: /runtimes/<name>/app-proxy/
// and /workflows/ with the caller's session or key, and on the host name of a tunnel
// /webhooks/ without either, because the runtime checks the signatures of those.
//
// It promises that the caller is known and allowed before a byte goes on, that the
// runtime gets a token that is good for it alone and for seconds, and never a
// cookie, key or other credential of the caller. What a runtime answers cannot set a
// cookie or run a script with the platform's rights, and only the router of the
// runtime that was asked for is listened to. Both directions stream; the request of
// a caller whose rights end is cut.
//
// It refuses paths that two readers could understand in two ways.
package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// Hub reaches runtimes through their tunnels.
type Hub interface {
	Transport(runtimeID string) http.RoundTripper
}

// Options is what a Gateway works with.
type Options struct {
	Store    *store.Store
	Identity *identity.Identity
	Signer   *signing.Signer
	Hub      Hub
	// Direct reaches runtimes at their access URLs; it must not follow redirects.
	Direct http.RoundTripper
	// PublicURL is the issuer of the tokens for runtimes, and the only origin of
	// pages that may open WebSockets.
	PublicURL *url.URL
	// TunnelDomain is the domain of tunnels' host names; empty when there is none.
	TunnelDomain string
	Limits       Limits
	Log          *slog.Logger
	Metrics      *Metrics
}

// Limits bound what callers and runtimes may take. Zero is the default.
type Limits struct {
	// RequestsPerAccount is how many may run at a time: 512.
	RequestsPerAccount int
	// WebhooksPerRuntime is how many may run at a time: 32. Nobody signs in for them.
	WebhooksPerRuntime int
	// WebhookBytes bounds a webhook: 25 MiB, which is the most that a provider sends.
	WebhookBytes int64
	// BodyBytes bounds other requests: 32 MiB.
	BodyBytes int64
	// Unary bounds a request that has one answer: 2 minutes.
	Unary time.Duration
	// Stream bounds all others: 12 hours.
	Stream time.Duration
	// Webhook bounds a webhook: 30 seconds.
	Webhook time.Duration
}

func (l Limits) withDefaults() Limits {
	set := func(value *int, fallback int) {
		if *value == 0 {
			*value = fallback
		}
	}
	size := func(value *int64, fallback int64) {
		if *value == 0 {
			*value = fallback
		}
	}
	span := func(value *time.Duration, fallback time.Duration) {
		if *value == 0 {
			*value = fallback
		}
	}
	set(&l.RequestsPerAccount, 512)
	set(&l.WebhooksPerRuntime, 32)
	size(&l.WebhookBytes, 25<<20)
	size(&l.BodyBytes, 32<<20)
	span(&l.Unary, 2*time.Minute)
	span(&l.Stream, 12*time.Hour)
	span(&l.Webhook, 30*time.Second)
	return l
}

// Gateway is an http.Handler. It is safe for concurrent use.
type Gateway struct {
	Options
	origin  string
	running counts
}

// New makes a Gateway.
func New(options Options) (*Gateway, error) {
	if options.Store == nil || options.Identity == nil || options.Signer == nil || options.Hub == nil || options.Direct == nil || options.PublicURL == nil {
		return nil, errors.New("the gateway needs a store, an identity, a signer, a hub, a transport and the public URL")
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.Metrics == nil {
		options.Metrics = newMetrics()
	}
	options.Limits = options.Limits.withDefaults()
	return &Gateway{Options: options, origin: options.PublicURL.Scheme + "://" + options.PublicURL.Host}, nil
}

// OwnsHost says whether a Host header is the host name of a tunnel: such a request
// is for the gateway whatever its path.
func (g *Gateway) OwnsHost(host string) bool {
	_, ok := g.label(host)
	return ok
}

// label is the first label of a tunnel's host name.
func (g *Gateway) label(host string) (string, bool) {
	if g.TunnelDomain == "" {
		return "", false
	}
	name := strings.ToLower((&url.URL{Host: host}).Hostname())
	label, found := strings.CutSuffix(strings.TrimSuffix(name, "."), "."+g.TunnelDomain)
	if !found || label == "" || strings.Contains(label, ".") {
		return "", false
	}
	return label, true
}

// request is one that is on its way to a runtime.
type request struct {
	gateway   *Gateway
	runtime   store.Runtime
	caller    identity.Caller
	prefix    string // wire.AppProxyPath, WebhooksPath or WorkflowsPath
	path      string // what the router is asked for
	base      string // what stands before path in the URL of the caller
	procedure string // of app-proxy
	started   time.Time
}

// ServeHTTP hands a request to its runtime.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := &request{gateway: g, started: time.Now()}
	recorder := &statusRecorder{ResponseWriter: w}
	err := asked.serve(recorder, r)
	if err != nil {
		g.refuse(recorder, r, err)
	}
	g.Metrics.observe(asked.prefix, recorder.status, time.Since(asked.started))
}

// serve finds out what is asked of whom, and hands it on.
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
			return notFound("there is no such address")
		}
		path, q.base = "/"+path, wire.RuntimesPath+name
	}
	q.path = path
	for _, prefix := range []string{wire.AppProxyPath, wire.WebhooksPath, wire.WorkflowsPath} {
		if strings.HasPrefix(path, prefix) {
			q.prefix = prefix
		}
	}
	switch {
	case q.prefix == "" || (q.prefix == wire.WebhooksPath && !byHost):
		return notFound("a runtime has no such address")
	case q.prefix == wire.WebhooksPath:
		return q.webhook(w, r, label)
	}
	return q.authorised(w, r, label, name)
}

// authorised hands on a request of a caller who may make it.
func (q *request) authorised(w *statusRecorder, r *http.Request, label, name string) error {
	g := q.gateway
	caller, err := g.Identity.Authenticate(r)
	if err != nil {
		return err
	}
	q.caller = caller
	if err := q.authorise(r); err != nil {
		return err
	}
	if label != "" {
		account := ""
		if account, name, _ = strings.Cut(label, "-"); account != caller.Account.ID {
			return notFound("the account has no such runtime")
		}
	}
	if q.runtime, err = g.Store.RuntimeByName(r.Context(), caller.Account.ID, name); err != nil {
		return lookup(err)
	}
	leave, ok := g.running.enter("account "+caller.Account.ID, g.Limits.RequestsPerAccount)
	if !ok {
		return connect.NewError(connect.CodeResourceExhausted, errors.New("the account has too many requests to runtimes running: try again when some have ended"))
	}
	defer leave()
	if err := q.begin(r.Context()); err != nil {
		return err
	}
	ctx, stop := g.Identity.Watch(r.Context(), caller)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, q.deadline(r))
	defer cancel()
	r.Body = http.MaxBytesReader(w, r.Body, g.Limits.BodyBytes)
	q.forward(w, r.WithContext(ctx))
	q.end(ctx, w.status)
	return nil
}

// webhook hands on what nobody signed in for.
func (q *request) webhook(w *statusRecorder, r *http.Request, label string) error {
	g := q.gateway
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return statusError{http.StatusMethodNotAllowed, "webhooks are sent with POST"}
	}
	account, name, _ := strings.Cut(label, "-")
	runtime, err := g.Store.RuntimeByName(r.Context(), account, name)
	if err != nil {
		return lookup(err)
	}
	if platformv1.AccessMode(runtime.AccessMode) != platformv1.AccessMode_ACCESS_MODE_TUNNEL {
		return notFound("there is no such runtime")
	}
	q.runtime = runtime
	leave, ok := g.running.enter("webhooks "+runtime.ID, g.Limits.WebhooksPerRuntime)
	if !ok {
		w.Header().Set("Retry-After", "5")
		return statusError{http.StatusTooManyRequests, "the runtime has too many webhooks to work on: send it again"}
	}
	defer leave()
	until := time.Now().Add(g.Limits.Webhook)
	ctx, cancel := context.WithDeadline(r.Context(), until)
	defer cancel()
	control := http.NewResponseController(w)
	// HTTP/2 streams of other requests share the connection, but not these limits.
	_ = control.SetReadDeadline(until)
	_ = control.SetWriteDeadline(until.Add(time.Second))
	r.Body = http.MaxBytesReader(w, r.Body, g.Limits.WebhookBytes)
	q.forward(w, r.WithContext(ctx))
	return nil
}

// lookup is the error for a runtime that could not be found.
func lookup(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return notFound("there is no such runtime")
	}
	return err
}

// plainPath is the path of a request if it has one spelling only. What the platform
// checks and what the router serves must be the same.
func plainPath(r *http.Request) (string, error) {
	path := r.URL.Path
	if r.URL.RawPath != "" || strings.ContainsAny(path, "\\\x00;") {
		return "", statusError{http.StatusBadRequest, "the path has characters that are not possible here"}
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/"), "/") {
		if part == "." || part == ".." || (part == "" && path != "/") {
			return "", statusError{http.StatusBadRequest, "the path has an empty part, . or .. in it"}
		}
	}
	return path, nil
}
