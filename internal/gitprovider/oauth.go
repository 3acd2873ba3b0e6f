package gitprovider

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/outbound"
	"slipway.dev/slipway/internal/secret"
)

// OAuthOptions describes the OAuth application that an admin registered with
// the provider, and how to reach the provider.
type OAuthOptions struct {
	Kind Kind
	// APIURL is as in [Options]; pages and token endpoint are on the server
	// that belongs to it.
	APIURL string

	ClientID     string
	ClientSecret secret.Text
	// Scopes are the requested scopes; empty means those of the purpose.
	// Bitbucket Cloud takes them from the consumer's settings instead of the
	// request.
	Scopes  []string
	Purpose Purpose

	CAs       []byte
	Proxy     func(*http.Request) (*url.URL, error)
	Outbound  *outbound.Policy
	PlainHTTP bool
	Timeout   time.Duration
	Now       func() time.Time
}

// OAuth is the authorization code flow (RFC 6749, section 4.1; R64) with one
// provider.
type OAuth struct {
	kind     Kind
	server   string
	clientID string
	secret   secret.Text
	scopes   []string
	timeout  time.Duration
	now      func() time.Time
	http     *http.Client
}

// Grant is a granted token. ExpiresAt is zero for a token without expiry, and
// Refresh is empty for one that cannot be renewed.
type Grant struct {
	Token     secret.Text
	Refresh   secret.Text
	ExpiresAt time.Time
	Scopes    []string
}

// NewOAuth prepares the flow. Without an application it returns an [Error] of
// kind NotRegistered with instructions.
func NewOAuth(options OAuthOptions) (*OAuth, error) {
	if _, err := ParseKind(string(options.Kind)); err != nil {
		return nil, err
	}
	// OAuth is optional; the message names the alternative.
	if options.ClientID == "" || options.ClientSecret.IsZero() {
		return nil, &Error{Kind: NotRegistered, Provider: options.Kind, Message: fmt.Sprintf(
			"no OAuth application of %s is registered: an admin registers one (%s) and gives its id and secret; a token works without one",
			options.Kind.Title(), oauthPlacesOf(options.Kind).register)}
	}
	// OAuth endpoints are on the web server, not below the API.
	server, err := oauthServer(options.Kind, options.APIURL)
	if err != nil {
		return nil, err
	}
	if err := checkOrigin(options.Kind, server, options.PlainHTTP); err != nil {
		return nil, err
	}
	o := &OAuth{
		kind: options.Kind, server: server, clientID: options.ClientID, secret: options.ClientSecret,
		scopes: options.Scopes, timeout: options.Timeout, now: options.Now,
	}
	// Scopes of the purpose are the same that Check requires.
	if len(o.scopes) == 0 {
		o.scopes = oauthScopes(options.Kind, options.Purpose)
	}
	if o.timeout <= 0 {
		o.timeout = 15 * time.Second
	}
	if o.now == nil {
		o.now = time.Now
	}
	o.http, err = newHTTP(options.Kind, options.CAs, options.Proxy, options.Outbound)
	return o, err
}

// oauthServer returns the server of the OAuth endpoints.
func oauthServer(kind Kind, apiURL string) (string, error) {
	if kind == Bitbucket && apiURL != "" {
		return webServer(kind, strings.TrimRight(apiURL, "/")), nil
	}
	api, err := DefaultAPI(kind, apiURL)
	return webServer(kind, api), err
}

// oauthPlaces are where a provider has its OAuth endpoints, and where an
// application is registered.
type oauthPlaces struct {
	authorize, token string // paths
	register         string
}

func oauthPlacesOf(kind Kind) oauthPlaces {
	switch kind {
	case GitHub:
		return oauthPlaces{"/login/oauth/authorize", "/login/oauth/access_token", "Settings > Developer settings > OAuth Apps"}
	case GitLab:
		return oauthPlaces{"/oauth/authorize", "/oauth/token", "Preferences > Applications, or the group's Settings > Applications"}
	case Bitbucket:
		return oauthPlaces{"/site/oauth2/authorize", "/site/oauth2/access_token", "Workspace settings > OAuth consumers"}
	}
	return oauthPlaces{"/rest/oauth2/latest/authorize", "/rest/oauth2/latest/token", "Administration > Application links > Incoming, External application"}
}

// oauthScopes returns the scopes of a purpose.
func oauthScopes(kind Kind, purpose Purpose) []string {
	user := purpose == UserToken
	switch {
	case kind == GitHub && user:
		return []string{"repo"}
	case kind == GitHub:
		return []string{"repo", "admin:repo_hook"}
	case kind == GitLab && user:
		return []string{"read_api", "write_repository"}
	case kind == GitLab:
		return []string{"api"}
	case kind == BitbucketServer && user:
		return []string{"REPO_WRITE"}
	case kind == BitbucketServer:
		return []string{"REPO_ADMIN"}
	}
	return nil
}

// pkce reports whether the provider documents PKCE (RFC 7636); Bitbucket
// Cloud does not.
func (o *OAuth) pkce() bool { return o.kind != Bitbucket }

// NewVerifier returns the secret of one flow and its challenge (RFC 7636,
// S256).
func NewVerifier() (verifier secret.Text, challenge string) {
	// RFC 7636, section 4.1, recommends 32 random bytes.
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails
	text := base64.RawURLEncoding.EncodeToString(raw)
	return secret.New(text), Challenge(text)
}

// Challenge returns the S256 challenge of a verifier.
func Challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// AuthorizeURL returns the URL for the user's browser. state is a one-time
// value that the caller binds to the user's session, and redirect the
// callback URL.
func (o *OAuth) AuthorizeURL(state, redirect, challenge string) (string, error) {
	// Without a state an attacker could complete the flow with their own code
	// (RFC 6749, section 10.12).
	if state == "" {
		return "", invalid(o.kind, "the OAuth flow needs a state, which binds the callback to the session")
	}
	if o.pkce() && challenge == "" {
		return "", invalid(o.kind, "the OAuth flow needs a PKCE challenge")
	}
	back, err := url.Parse(redirect)
	if err != nil || (back.Scheme != "https" && back.Scheme != "http") || back.Host == "" || back.Fragment != "" {
		return "", invalid(o.kind, "the callback URL must have no fragment")
	}
	// All parameters are encoded by url.Values, never concatenated.
	query := url.Values{"client_id": {o.clientID}, "response_type": {"code"}, "state": {state}, "redirect_uri": {redirect}}
	if len(o.scopes) > 0 {
		query.Set("scope", strings.Join(o.scopes, " "))
	}
	if o.pkce() {
		query.Set("code_challenge", challenge)
		query.Set("code_challenge_method", "S256")
	}
	return o.server + oauthPlacesOf(o.kind).authorize + "?" + query.Encode(), nil
}

// Exchange exchanges the code of the callback for a token. redirect must be
// the same as in AuthorizeURL.
func (o *OAuth) Exchange(ctx context.Context, code, verifier, redirect string) (Grant, error) {
	// The code comes from the browser's URL.
	if code == "" || len(code) > 2048 {
		return Grant{}, invalid(o.kind, "%s sent no code: start again", o.kind.Title())
	}
	// The redirect URI must be repeated, and is compared by the provider (RFC
	// 6749, section 4.1.3).
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}}
	if o.pkce() {
		form.Set("code_verifier", verifier)
	}
	return o.token(ctx, form)
}

// Refresh renews a token. Most providers rotate the refresh token too, so the
// returned grant must be stored.
func (o *OAuth) Refresh(ctx context.Context, refresh secret.Text) (Grant, error) {
	if refresh.IsZero() {
		return Grant{}, &Error{Kind: Denied, Provider: o.kind, Token: StateExpired, Message: "the token cannot be renewed: authorise again"}
	}
	grant, err := o.token(ctx, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh.Reveal()}})
	// A provider that does not rotate keeps the old refresh token valid.
	if err == nil && grant.Refresh.IsZero() {
		grant.Refresh = refresh
	}
	return grant, err
}

// tokenResponse is the response of RFC 6749, and GitHub's, which returns
// errors with status 200.
type tokenResponse struct {
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token"`
	ExpiresIn    int64  `json:"expires_in"`
	Scope        string `json:"scope"`
	Scopes       string `json:"scopes"` // Bitbucket Cloud
	Error        string `json:"error"`
}

// token sends a token request. Bitbucket Cloud authenticates the client with
// Basic authentication, the others with form fields.
func (o *OAuth) token(ctx context.Context, form url.Values) (Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if o.kind != Bitbucket {
		form.Set("client_id", o.clientID)
		form.Set("client_secret", o.secret.Reveal())
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.server+oauthPlacesOf(o.kind).token, strings.NewReader(form.Encode()))
	if err != nil {
		return Grant{}, invalid(o.kind, "the server's URL cannot be read")
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "slipway")
	if o.kind == Bitbucket {
		request.SetBasicAuth(o.clientID, o.secret.Reveal())
	}
	response, err := o.http.Do(request)
	if err != nil {
		return Grant{}, networkError(o.kind, request.URL.Host, err)
	}
	defer response.Body.Close()
	// Token responses are small; the limit protects against a wrong URL.
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return Grant{}, networkError(o.kind, request.URL.Host, err)
	}
	var got tokenResponse
	// GitHub returns errors with status 200, so all four conditions are
	// needed.
	decoded := json.Unmarshal(body, &got) == nil
	if response.StatusCode != http.StatusOK || !decoded || got.Error != "" || got.AccessToken == "" {
		return Grant{}, o.responseError(response, got.Error)
	}
	return o.grant(got), nil
}

// grant converts a token response. Providers separate scopes with blanks or
// commas.
func (o *OAuth) grant(got tokenResponse) Grant {
	grant := Grant{Token: secret.New(got.AccessToken), Refresh: secret.New(got.RefreshToken)}
	if got.ExpiresIn > 0 {
		grant.ExpiresAt = o.now().Add(time.Duration(got.ExpiresIn) * time.Second).UTC()
	}
	grant.Scopes = strings.FieldsFunc(got.Scope+" "+got.Scopes, func(r rune) bool { return r == ' ' || r == ',' })
	slices.Sort(grant.Scopes)
	return grant
}

// responseError converts an error response. Only the error code is used:
// descriptions may repeat the request.
func (o *OAuth) responseError(response *http.Response, code string) *Error {
	// Denied is the default: most errors mean that the user must authorize
	// again.
	failure := &Error{Kind: Denied, Provider: o.kind, Status: response.StatusCode}
	switch code {
	// Providers use different codes for the same errors.
	case "invalid_client", "incorrect_client_credentials", "unauthorized_client":
		failure.Kind = NotRegistered
		failure.Message = fmt.Sprintf("%s does not know the OAuth application, or its secret is wrong: compare with %s", o.kind.Title(), oauthPlacesOf(o.kind).register)
	case "redirect_uri_mismatch":
		failure.Kind = Invalid
		failure.Message = fmt.Sprintf("the OAuth application at %s has another callback address: set it to the one of this platform", o.kind.Title())
	case "bad_verification_code", "invalid_grant", "bad_refresh_token":
		failure.Token = StateExpired
		failure.Message = fmt.Sprintf("%s no longer accepts the code or the refresh token: authorise again", o.kind.Title())
	case "":
		failure.Kind = Unreachable
		failure.Message = fmt.Sprintf("%s responded to the OAuth request with %d %s", o.kind.Title(), response.StatusCode, http.StatusText(response.StatusCode))
		if response.StatusCode < 500 {
			failure.Kind = Invalid
		}
	default:
		failure.Message = fmt.Sprintf("%s refused the OAuth request: %s", o.kind.Title(), sanitize(code))
	}
	return failure
}
