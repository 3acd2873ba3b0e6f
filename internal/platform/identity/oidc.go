package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/permission"
)

// Endpoints of the OpenID sign-in.
const (
	oidcLoginPath    = "/auth/oidc/login"
	oidcCallbackPath = "/auth/oidc/callback"
)

// Bounds of what is asked of the provider.
const (
	// Limits of requests to the provider.
	providerTimeout = 10 * time.Second
	providerBytes   = 1 << 20
	// maxGroupBytes bounds the groups of a user.
	maxGroupBytes = 32 << 10
	// discoveryLife is how long the discovery document is cached.
	discoveryLife = time.Hour
)

// OIDCOptions configures an OpenID provider.
type OIDCOptions struct {
	// Name is the label of the sign-in button.
	Name string
	// Issuer is the URL of the provider; endpoints are discovered from it.
	Issuer   string
	ClientID string
	// ClientSecret is empty for a public client.
	ClientSecret secret.Text
	// AllowedDomains restricts the domains of emails that may sign in; empty
	// allows all.
	AllowedDomains []string
	// CreateUsers creates users on their first sign-in, in AccountID, or in
	// the only account if that is empty.
	CreateUsers bool
	AccountID   string
	// DefaultRole is the role of created users; empty means RoleOperator.
	DefaultRole store.Role
	// RoleClaim names a claim of the ID token whose values Roles maps to
	// roles at each sign-in; users without a mapped value get DefaultRole.
	// Empty: admins assign roles.
	RoleClaim string
	Roles     map[string]store.Role
	// GroupsClaim names the claim with the groups of the user, which policies
	// name. Empty: users have no groups.
	GroupsClaim string
	// Transport is used for requests to the provider; nil means the default.
	Transport http.RoundTripper
}

// validate checks the options. http is only accepted for a provider on
// loopback.
func (o OIDCOptions) validate() error {
	issuer, err := url.Parse(o.Issuer)
	if err != nil || issuer.Host == "" || (issuer.Scheme != "https" && (issuer.Scheme != "http" || !loopback(issuer.Hostname()))) {
		return errors.New("the issuer of the identity provider must be an https:// URL")
	}
	if o.ClientID == "" {
		return errors.New("the identity provider needs a client ID")
	}
	for value, role := range o.Roles {
		if _, exists := roleMessages[role]; !exists {
			return fmt.Errorf("the value %q of the claim for roles gives the role %q, which does not exist", value, role)
		}
	}
	if len(o.Roles) > 0 && o.RoleClaim == "" {
		return errors.New("roles of the identity provider need the name of the claim that has them")
	}
	if _, exists := roleMessages[o.DefaultRole]; o.DefaultRole != "" && !exists {
		return fmt.Errorf("the default role %q of the identity provider's users does not exist", o.DefaultRole)
	}
	return nil
}

// oidcLogin is the sign-in through an OpenID provider: authorization code
// flow with PKCE (RFC 7636). mu guards the cached discovery document.
type oidcLogin struct {
	identity *Identity
	options  OIDCOptions
	client   *http.Client

	mu         sync.Mutex
	discovered *oidc.Provider
	at         time.Time
}

func newOIDCLogin(i *Identity, options OIDCOptions) (*oidcLogin, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	options.DefaultRole = cmp.Or(options.DefaultRole, store.RoleOperator)
	options.Name = cmp.Or(options.Name, "Single sign-on")
	transport := options.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	return &oidcLogin{
		identity: i, options: options,
		client: &http.Client{Transport: boundedTransport{transport}, Timeout: providerTimeout},
	}, nil
}

// boundedTransport limits response bodies: the libraries read them
// completely.
type boundedTransport struct{ next http.RoundTripper }

// RoundTrip limits the body of the response.
func (t boundedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err == nil {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, providerBytes), response.Body}
	}
	return response, err
}

// provider returns the discovered provider and refreshes it when it is stale.
// A failed refresh keeps the old one. Signing keys are fetched on demand.
func (o *oidcLogin) provider(ctx context.Context) (*oidc.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.identity.now()
	if o.discovered != nil && now.Sub(o.at) < discoveryLife {
		return o.discovered, nil
	}
	// The provider keeps the context for fetching keys, so it must not end
	// with the request; the client has its own timeout.
	provider, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), o.client), o.options.Issuer)
	if err != nil {
		if o.discovered != nil {
			return o.discovered, nil
		}
		return nil, fmt.Errorf("discover identity provider %s: %w", o.options.Issuer, err)
	}
	o.discovered, o.at = provider, now
	return provider, nil
}

// config returns the OAuth client. Only the scopes for email and name are
// requested.
func (o *oidcLogin) config(provider *oidc.Provider) oauth2.Config {
	return oauth2.Config{
		ClientID: o.options.ClientID, ClientSecret: o.options.ClientSecret.Reveal(), Endpoint: provider.Endpoint(),
		RedirectURL: o.identity.options.PublicURL.JoinPath(oidcCallbackPath).String(),
		Scopes:      []string{oidc.ScopeOpenID, oidc.ScopeEmail, oidc.ScopeProfile},
	}
}

// externalUser is the identity that the provider asserts.
type externalUser struct {
	subject, email, name string
	// role is the mapped role; empty if roles are not mapped.
	role store.Role
	// groups are those of GroupsClaim.
	groups []string
}

// redeem exchanges the code and verifies the ID token: signature, issuer,
// audience, expiry and nonce.
func (o *oidcLogin) redeem(ctx context.Context, code string, flow flow) (externalUser, error) {
	provider, err := o.provider(ctx)
	if err != nil {
		return externalUser{}, err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, o.client), 2*providerTimeout)
	defer cancel()
	config := o.config(provider)
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(flow.Verifier))
	if err != nil {
		return externalUser{}, unauthenticated("the identity provider rejected the authorization code: %s", exchangeProblem(err))
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return externalUser{}, unauthenticated("the identity provider returned no ID token")
	}
	verifier := provider.Verifier(&oidc.Config{
		ClientID: o.options.ClientID, Now: o.identity.now,
		SupportedSigningAlgs: []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA},
	})
	id, err := verifier.Verify(ctx, raw)
	if err != nil {
		o.identity.log.Warn("ID token rejected", "issuer", o.options.Issuer, "err", err)
		return externalUser{}, unauthenticated("the ID token of the identity provider is invalid; the platform's log has the reason")
	}
	if !equalText(id.Nonce, flow.Nonce) {
		return externalUser{}, unauthenticated("the ID token belongs to another sign-in; start again")
	}
	return o.claims(id)
}

// exchangeProblem returns the code of an OAuth error, and never a response
// body.
func exchangeProblem(err error) string {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.ErrorCode != "" {
		return clean(refused.ErrorCode)
	}
	return "it was unreachable or returned an error"
}

// claims validates the claims of an ID token. The email must be verified: it
// links the identity to a user.
func (o *oidcLogin) claims(id *oidc.IDToken) (externalUser, error) {
	var standard struct {
		Email         string `json:"email"`
		EmailVerified bool   `json:"email_verified"`
		Name          string `json:"name"`
		Authorized    string `json:"azp"`
	}
	if err := id.Claims(&standard); err != nil {
		return externalUser{}, unauthenticated("the ID token has claims of a wrong kind; email_verified must be true or false")
	}
	email, err := checkEmail(standard.Email)
	_, domain, _ := strings.Cut(email, "@")
	allowed := func(name string) bool { return strings.EqualFold(name, domain) }
	switch {
	case id.Subject == "" || strings.Contains(id.Issuer, "|"):
		return externalUser{}, unauthenticated("the ID token does not identify a user")
	// OpenID Connect Core, section 3.1.3.7: with several audiences azp must
	// name this client.
	case len(id.Audience) > 1 && standard.Authorized != o.options.ClientID:
		return externalUser{}, unauthenticated("the ID token was made for another client")
	case err != nil:
		return externalUser{}, forbidden("the identity provider gives no email; the scope email is needed")
	case !standard.EmailVerified:
		return externalUser{}, forbidden("the identity provider has not verified the email %s", email)
	case len(o.options.AllowedDomains) > 0 && !slices.ContainsFunc(o.options.AllowedDomains, allowed):
		return externalUser{}, forbidden("emails of the domain %s may not sign in here", clean(domain))
	}
	user := externalUser{subject: id.Issuer + "|" + id.Subject, email: email, name: clean(standard.Name)}
	var all map[string]any
	if err := id.Claims(&all); err != nil {
		return externalUser{}, unauthenticated("the ID token cannot be read")
	}
	if o.options.RoleClaim != "" {
		user.role = o.mappedRole(all[o.options.RoleClaim])
	}
	user.groups = textsOf(all[o.options.GroupsClaim])
	// A group that is left out could be one with a rule that denies.
	if size := len(strings.Join(user.groups, "")); size > maxGroupBytes {
		return externalUser{}, forbidden("the identity provider sends %d groups with %d bytes, and at most %d bytes are possible: let its claim %s have the groups that policies name", len(user.groups), size, maxGroupBytes, o.options.GroupsClaim)
	}
	return user, nil
}

// textsOf returns the texts of a claim, which is a list or one text.
func textsOf(claim any) (texts []string) {
	values, ok := claim.([]any)
	if !ok {
		values = []any{claim}
	}
	for _, value := range values {
		if text, ok := value.(string); ok && text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// mappedRole returns the highest role that a value of the claim maps to.
func (o *oidcLogin) mappedRole(claim any) store.Role {
	var mapped []string
	for _, value := range textsOf(claim) {
		mapped = append(mapped, string(o.options.Roles[value]))
	}
	for _, role := range slices.Backward(permission.Roles()) {
		if slices.Contains(mapped, role) {
			return store.Role(role)
		}
	}
	return o.options.DefaultRole
}
