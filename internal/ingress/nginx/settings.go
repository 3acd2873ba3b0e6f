package nginx

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

// maxFaults bounds the faults of one Ingress; later ones are dropped.
const maxFaults = 50

// Settings are the parsed annotations of an Ingress, with the values of the ConfigMap
// and the defaults of ingress-nginx where it has none.
type Settings struct {
	// UseRegex and RewriteTarget make all paths of the host expressions.
	UseRegex      bool
	RewriteTarget string
	// ForwardedPrefix is sent with a rewritten path.
	ForwardedPrefix string
	AppRoot         string
	TLS             TLSRedirect
	// Permanent and Temporal are redirects in place of a backend. The temporal one
	// wins, as in ingress-nginx.
	Permanent, Temporal RedirectTo
	// Snippets are those of the Ingress.
	Snippets Snippets
	// Aliases are further hosts of the rules.
	Aliases []string
	// BodyBytes is the largest body of a request; 0 is no limit.
	BodyBytes int64
	Timeouts  route.Timeouts
	// stream has the timeouts of reads and writes.
	stream      streamTimeouts
	Retry       Retry
	Allow, Deny []netip.Prefix
	Limits      Limits
	CORS        CORS
	Auth        Auth
	ClientAuth  ClientAuth
	WAF         WAF
	// Host is sent to the backend in place of the client's.
	Host        string
	Backend     Backend
	Canary      CanarySettings
	Errors      Errors
	NoAccessLog bool
}

// streamTimeouts become the idle timeout, which is one for both ways.
type streamTimeouts struct{ read, send route.Duration }

// TLSRedirect redirects plain requests.
type TLSRedirect struct {
	// Redirect is for hosts with TLS, Force for all.
	Redirect, Force bool
	// KeepSlash keeps a slash at the end of the URL, which ingress-nginx removes.
	KeepSlash bool
	Status    int
	// WWW redirects the host with or without www. to the one that the Ingress has,
	// with the same status.
	WWW bool
	// HSTS is the header Strict-Transport-Security, with its parts.
	HSTS, Subdomains, Preload bool
	HSTSSeconds               int64
}

// RedirectTo is a redirect of every request to a URL.
type RedirectTo struct {
	URL    string
	Status int
}

// Retry selects the failures after which a request is sent again.
type Retry struct {
	On       []route.RetryCondition
	Statuses []int
	Unsafe   bool
	Tries    int
}

// Limits bound the requests of a client; 0 is no limit.
type Limits struct {
	PerSecond, PerMinute, Connections int64
	// Burst is multiplied by the rate.
	Burst int64
	// RequestStatus and ConnectionStatus are those of refused requests.
	RequestStatus, ConnectionStatus int
}

// CORS has the settings of cross-origin requests.
type CORS struct {
	Enabled, Credentials            bool
	Origins, Methods, Headers, Show []string
	MaxAge                          route.Duration
}

// Auth has the settings of passwords, and of authentication by another server.
type Auth struct {
	Type, Secret, Realm string
	// External is that of the Ingress. Without it, Global holds, which the ConfigMap
	// has, unless SkipGlobal is set.
	External, Global ExternalAuth
	SkipGlobal       bool
}

// ClientAuth has the settings of client certificates.
type ClientAuth struct {
	Secret, Mode string
	// Forward passes the certificate on to the backend.
	Forward bool
}

// Defaults returns the settings of an Ingress without annotations, and of a controller
// without a ConfigMap.
func Defaults() *Settings {
	seconds := func(n int) route.Duration { return route.Duration(time.Duration(n) * time.Second) }
	return &Settings{
		TLS:       TLSRedirect{Redirect: true, Status: 308, HSTS: true, Subdomains: true, HSTSSeconds: 31536000},
		Permanent: RedirectTo{Status: 301},
		Temporal:  RedirectTo{Status: 302},
		BodyBytes: 1 << 20,
		Timeouts:  route.Timeouts{Connect: seconds(5)},
		stream:    streamTimeouts{read: seconds(60), send: seconds(60)},
		Retry:     Retry{On: []route.RetryCondition{route.RetryConnect, route.RetryReset, route.RetryTimeout}, Tries: 3},
		Limits:    Limits{Burst: 5, RequestStatus: 503, ConnectionStatus: 503},
		CORS: CORS{
			Credentials: true, Origins: []string{"*"},
			Methods: []string{"GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"},
			Headers: []string{
				"DNT", "Keep-Alive", "User-Agent", "X-Requested-With", "If-Modified-Since", "Cache-Control", "Content-Type", "Range", "Authorization",
			},
			MaxAge: seconds(1728000),
		},
		ClientAuth: ClientAuth{Mode: "verify"},
		Backend:    Backend{Balance: route.BalanceRoundRobin, Cookie: Cookie{Name: "INGRESSCOOKIE"}},
		Canary:     CanarySettings{Total: 100},
	}
}

// defaults are Defaults, made once: each Ingress and each backend needs them.
var defaults = sync.OnceValue(Defaults)

// OrDefaults returns the settings, or Defaults in the place of nil. Callers must not
// change them.
func OrDefaults(settings *Settings) *Settings {
	if settings == nil {
		return defaults()
	}
	return settings
}

// Parse reads the annotations of an Ingress. It always returns settings: an annotation
// with a Refusal is left out, and closes the Ingress if it must not be served without.
// A nil base stands for Defaults.
func Parse(annotations map[string]string, base *Settings) (settings *Settings, faults []refusal.Refusal, closed bool) {
	copied := *OrDefaults(base)
	settings = &copied
	add := func(fault *refusal.Refusal) {
		if len(faults) < maxFaults {
			faults = append(faults, *fault)
		}
	}
	// In the order of names, so that the result does not depend on that of a map.
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		suffix, ours := strings.CutPrefix(name, Prefix)
		if !ours {
			continue
		}
		declared := tables().byAnnotation[suffix]
		switch {
		case declared == nil:
			// ingress-nginx ignores it, so the Ingress is served there without it, too.
			add(refusal.New(fieldOf(name), refusal.Unknown, "%s", unknown(suffix, tables().annotationNames)))
		case declared.Support == Refused && !declared.leavesOff(annotations[name]):
			add(refusal.New(fieldOf(name), refusal.Unsupported, "it is not supported: %s", declared.Note))
			closed = closed || declared.Closes
		case declared.Support == Done:
			if err := declared.read(settings, declared.trimmed(annotations[name])); err != nil {
				add(refusal.New(fieldOf(name), reasonOf(err), "%v", err))
				closed = closed || declared.Closes
			}
		}
	}
	if fault := settings.finish(); fault != nil {
		add(fault)
		closed = closed || settings.Auth.Type != "" && settings.Auth.Secret == ""
	}
	return settings, faults, closed
}

// finish derives what depends on several annotations.
func (s *Settings) finish() *refusal.Refusal {
	s.Timeouts.Header = s.stream.read
	s.Timeouts.Idle = max(s.stream.read, s.stream.send)
	switch {
	case s.Auth.Type != "" && s.Auth.Secret == "":
		return refusal.New(fieldOf(Prefix+"auth-type"), refusal.Required, "there is no auth-secret with the users: add it")
	case len(s.Errors.Statuses) > 0 && s.Errors.Service == "":
		s.Errors = Errors{}
		return refusal.New(fieldOf(Prefix+"custom-http-errors"), refusal.Required, "there is no default-backend that has the pages: add it")
	case s.Backend.Sticky && s.Backend.Hash != (route.HashKey{}):
		s.Backend.Hash = route.HashKey{} // the cookie wins, as in ingress-nginx
	}
	return nil
}

// BackendVariant is the variant of backends of ingress-nginx's Ingresses: their protocol
// does not depend on the name or number of a port. With settings of its own, an Ingress
// has a backend of its own, which follows an underscore.
const BackendVariant = "nginx"

// The variants of the backends of authentication servers: of a Service by TLS, whose
// certificate is not verified, and of a host outside of the cluster, whose certificate is.
const (
	TLSVariant       = "nginx-tls"
	HostVariant      = "host-http"
	HostVariantByTLS = "host-https"
)

// VariantFor returns the variant of the backends of an Ingress.
func (s *Settings) VariantFor(ingress string, base *Settings) string {
	if s.Backend == OrDefaults(base).Backend {
		return BackendVariant
	}
	return BackendVariant + "_" + ingress
}

// StickyCookie returns the cookie that keeps clients at their endpoint, nil without one.
func (b *Backend) StickyCookie() *route.StickyCookie {
	if !b.Sticky {
		return nil
	}
	c := &b.Cookie
	cookie := &route.StickyCookie{
		Name: c.Name, Path: c.Path, Domain: c.Domain, SameSite: c.SameSite, HTTPOnly: true,
		Secure: c.Secure || c.SameSite == route.SameSiteNone, MaxAge: c.MaxAge,
	}
	if cookie.Path == "" {
		cookie.Path = "/"
	}
	if cookie.MaxAge == 0 {
		cookie.MaxAge = c.Expires
	}
	return cookie
}

// Balancing returns how requests are balanced.
func (b *Backend) Balancing() route.Balancing {
	if b.Hash != (route.HashKey{}) {
		return route.Balancing{Method: route.BalanceHash, Hash: b.Hash}
	}
	return route.Balancing{Method: b.Balance}
}

// FieldOf returns the field of an annotation, without its prefix, for a Refusal.
func FieldOf(annotation string) string { return fieldOf(Prefix + annotation) }

// reasonOf returns the reason of an annotation that was not read.
func reasonOf(err error) refusal.Reason {
	if errors.Is(err, errSnippets) {
		return refusal.NotAllowed
	}
	return refusal.Invalid
}

func fieldOf(name string) string { return "metadata.annotations[" + refusal.Shorten(name, 120) + "]" }
