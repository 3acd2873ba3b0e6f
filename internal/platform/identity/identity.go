package identity

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"connectrpc.com/connect"
	"github.com/go-webauthn/webauthn/webauthn"

	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// RuntimeVerifier verifies access tokens of runtimes: the signature, the
// expiry and that the credential has not been revoked since.
type RuntimeVerifier interface {
	VerifyRuntimeAccess(ctx context.Context, token string) (signing.RuntimeIdentity, error)
}

// Options configures an Identity.
type Options struct {
	Store *store.Store
	// Key is the text of the key file, which encrypts second factors and
	// tickets. It must be the same on all replicas.
	Key secret.Text
	// Runtimes is nil when runtimes do not call this platform.
	Runtimes RuntimeVerifier
	// OIDC is nil without an identity provider.
	OIDC *OIDCOptions
	// PublicURL is the URL at which browsers reach the platform. It
	// determines the accepted Origin, whether cookies are Secure, and the host
	// that passkeys belong to.
	PublicURL *url.URL
	// TrustedProxies are the networks whose X-Forwarded-For header is used.
	TrustedProxies []netip.Prefix
	SignIn         SignInPolicy
	KeyLifetimes   KeyLifetimes
	Log            *slog.Logger
	Now            func() time.Time
	// Version is returned by Me.
	Version string
}

// SignInPolicy are the settings for how users sign in.
type SignInPolicy struct {
	// PasswordsDisabled leaves the identity provider as the only way to a
	// session.
	PasswordsDisabled bool
	// SecondFactorRequired limits sessions of users with a password to adding a
	// second factor until they have one.
	SecondFactorRequired bool
}

// NoPasswordsAdvice is for an operator who would reset a password that no user
// can sign in with.
const NoPasswordsAdvice = "identity.passwords is disabled, so no password can be used: slipway platform create-key EMAIL NAME creates an API key without a sign-in"

// Identity authenticates and authorizes callers. It is safe for concurrent
// use.
type Identity struct {
	store   *store.Store
	options Options
	log     *slog.Logger
	now     func() time.Time

	passwords *hasher
	limits    *limiter
	factors   signing.Sealer
	tickets   ticketSealer
	origin    string
	// relyingParty is nil without passkeys; noPasskeys has the reason.
	relyingParty *webauthn.WebAuthn
	noPasskeys   string
	cookies      cookieNames
	oidc         *oidcLogin
	watches      watches
	denials      denialThrottle
}

// New returns an Identity. It does not contact the identity provider yet, so
// that the platform starts while that is down.
func New(ctx context.Context, options Options) (*Identity, error) {
	if options.Store == nil {
		return nil, errors.New("identity needs a store")
	}
	if options.PublicURL == nil || options.PublicURL.Host == "" || (options.PublicURL.Scheme != "http" && options.PublicURL.Scheme != "https") {
		return nil, errors.New("the public URL of the platform must begin with https:// or http:// and have a host")
	}
	if options.SignIn.PasswordsDisabled && options.OIDC == nil {
		return nil, errors.New("without passwords users need an identity provider to sign in")
	}
	i := &Identity{store: options.Store, options: options, log: options.Log, now: options.Now}
	i.log = cmp.Or(i.log, slog.New(slog.DiscardHandler))
	if i.now == nil {
		i.now = time.Now
	}
	// The hasher computes its dummy hash once, at startup.
	passwords, err := newHasher(ctx)
	if err != nil {
		return nil, err
	}
	i.passwords = passwords
	if i.factors, err = signing.NewSealer(options.Key, factorPurpose); err != nil {
		return nil, err
	}
	i.tickets.now = i.now
	if i.tickets.sealer, err = signing.NewSealer(options.Key, ticketPurpose); err != nil {
		return nil, err
	}
	i.limits = newLimiter(options.Store, i.now)
	i.origin = options.PublicURL.Scheme + "://" + CanonicalHost(options.PublicURL)
	i.relyingParty, i.noPasskeys = newRelyingParty(options.PublicURL, i.origin)
	// Only loopback URLs may use http: browsers keep Secure cookies elsewhere
	// for https only.
	secure := options.PublicURL.Scheme == "https" || !loopback(options.PublicURL.Hostname())
	i.cookies = newCookieNames(secure)
	if secure && options.PublicURL.Scheme == "http" {
		i.log.Warn("public URL is http and not on loopback: browsers do not keep sessions; configure a certificate and an https URL", "url", options.PublicURL.Redacted())
	}
	// The function is set here because it needs the complete Identity.
	i.watches.check = i.stillValid
	if options.OIDC != nil {
		if i.oidc, err = newOIDCLogin(i, *options.OIDC); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// messageBytes bounds a request message of these services.
const messageBytes = 64 << 10

// Handlers returns the services of this package and the two endpoints of the
// OpenID sign-in, by path. All responses are marked as not cacheable.
func (i *Identity) Handlers() map[string]http.Handler {
	options := i.HandlerOptions(messageBytes)
	handlers := make(map[string]http.Handler)
	add := func(path string, handler http.Handler) { handlers[path] = uncached(handler) }
	add(platformv1connect.NewAuthServiceHandler(authService{i}, options))
	add(platformv1connect.NewAccountServiceHandler(accountService{i}, options))
	add(platformv1connect.NewSecondFactorServiceHandler(factorService{i}, options))
	add(platformv1connect.NewKeyServiceHandler(keyService{i}, options))
	add(platformv1connect.NewAuditServiceHandler(auditService{i}, options))
	// The endpoints exist only with a provider, so that a scan finds nothing
	// otherwise.
	if i.oidc != nil {
		add(oidcLoginPath, http.HandlerFunc(i.oidc.login))
		add(oidcCallbackPath, http.HandlerFunc(i.oidc.callback))
	}
	return handlers
}

// HandlerOptions returns the options for every Connect handler of the
// platform: callers are checked before the message is read, messages are
// bounded, and the interceptor audits.
func (i *Identity) HandlerOptions(maxMessage int) connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithReadMaxBytes(maxMessage),
		connect.WithRequestGate(i.gate),
		connect.WithInterceptors(i.Interceptor()),
	)
}

// uncached forbids caching of responses: they contain personal data and
// secrets.
func uncached(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// loopback reports whether the host of a URL is this machine.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// CanonicalHost returns the host of a URL as browsers write it in Origin:
// without the default port of the scheme.
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
