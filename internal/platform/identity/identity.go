package identity

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// RuntimeVerifier knows the access tokens of runtimes. It checks the signature, the
// expiry and that the credential was not revoked since.
type RuntimeVerifier interface {
	VerifyRuntimeAccess(ctx context.Context, token string) (signing.RuntimeIdentity, error)
}

// Options is what an Identity works with.
type Options struct {
	Store *store.Store
	// Runtimes is nil when no runtime calls.
	Runtimes RuntimeVerifier
	// OIDC is nil when there is no identity provider.
	OIDC *OIDCOptions
	// PublicURL is where browsers reach the platform.
	PublicURL *url.URL
	// TrustedProxies are those whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	Log            *slog.Logger
	Now            func() time.Time
	// Version is what Me answers.
	Version string
}

// Identity is the platform's knowledge of its callers. It is safe for concurrent
// use.
type Identity struct {
	store   *store.Store
	options Options
	log     *slog.Logger
	now     func() time.Time

	passwords *hasher
	limits    *limiter
	people    *people
	origin    string
	cookies   cookieNames
	oidc      *oidcLogin
	watches   watches
	denials   denialLog
}

// New makes an Identity. It does not ask the identity provider yet, so that the
// platform starts without it.
func New(ctx context.Context, options Options) (*Identity, error) {
	if options.Store == nil {
		return nil, errors.New("identity needs a store")
	}
	if options.PublicURL == nil || options.PublicURL.Host == "" || (options.PublicURL.Scheme != "http" && options.PublicURL.Scheme != "https") {
		return nil, errors.New("the public URL of the platform must begin with https:// or http:// and have a host")
	}
	i := &Identity{store: options.Store, options: options, log: options.Log, now: options.Now}
	if i.log == nil {
		i.log = slog.New(slog.DiscardHandler)
	}
	if i.now == nil {
		i.now = time.Now
	}
	passwords, err := newHasher(ctx)
	if err != nil {
		return nil, err
	}
	i.passwords = passwords
	i.limits = &limiter{store: options.Store, now: i.now}
	i.people = &people{store: options.Store}
	i.origin = options.PublicURL.Scheme + "://" + CanonicalHost(options.PublicURL)
	secure := options.PublicURL.Scheme == "https" || !loopback(options.PublicURL.Hostname())
	i.cookies = newCookieNames(secure)
	if secure && options.PublicURL.Scheme == "http" {
		i.log.Warn("The public URL is http and not on this machine: browsers will not keep a session; give the platform a certificate and an https URL", "url", options.PublicURL.Redacted())
	}
	i.watches.check = i.stillValid
	if options.OIDC != nil {
		if i.oidc, err = newOIDCLogin(i, *options.OIDC); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// messageBytes bounds a request to the services here.
const messageBytes = 64 << 10

// Handlers gives the services of this package and the two addresses of the sign-in
// through an identity provider, by path. All of it answers without caching.
func (i *Identity) Handlers() map[string]http.Handler {
	options := i.HandlerOptions(messageBytes)
	handlers := make(map[string]http.Handler)
	add := func(path string, handler http.Handler) { handlers[path] = uncached(handler) }
	add(platformv1connect.NewAuthServiceHandler(authService{i}, options))
	add(platformv1connect.NewAccountServiceHandler(accountService{i}, options))
	add(platformv1connect.NewKeyServiceHandler(keyService{i}, options))
	add(platformv1connect.NewAuditServiceHandler(auditService{i}, options))
	if i.oidc != nil {
		add(oidcLoginPath, http.HandlerFunc(i.oidc.login))
		add(oidcCallbackPath, http.HandlerFunc(i.oidc.callback))
	}
	return handlers
}

// HandlerOptions are for every Connect handler of the platform: callers are judged
// before the message is read, messages have a bound, and the interceptor does the
// rest.
func (i *Identity) HandlerOptions(maxMessage int) connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithReadMaxBytes(maxMessage),
		connect.WithRequestGate(i.gate),
		connect.WithInterceptors(i.Interceptor()),
	)
}

func uncached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// loopback reports whether a host of a URL is this machine.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// CanonicalHost is the host of a URL as browsers write it in Origin: without the port that
// the scheme has anyway.
func CanonicalHost(u *url.URL) string {
	port := u.Port()
	if port == "" || (u.Scheme == "https" && port == "443") || (u.Scheme == "http" && port == "80") {
		host := u.Hostname()
		if address, err := netip.ParseAddr(host); err == nil && address.Is6() {
			return "[" + host + "]"
		}
		return host
	}
	return net.JoinHostPort(u.Hostname(), port)
}
