// Package oidctest is a strict OpenID provider for tests: it requires PKCE
// with S256, the client secret and the registered redirect URL, and accepts
// each code once. Tests set the claims of its tokens and can forge them.
package oidctest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The registered client.
const (
	ClientID     = "slipway"
	ClientSecret = "canary-client-secret"
)

// Provider is an OpenID provider.
type Provider struct {
	t testing.TB
	// URL is the issuer.
	URL string
	// Key signs tokens; Other is a key that is not published.
	Key, Other *rsa.PrivateKey
	// Public is the URL of the platform; set it before the first sign-in.
	Public string

	mu    sync.Mutex
	codes map[string]url.Values
	// claims and forge modify the next ID token.
	claims map[string]any
	forge  func(claims map[string]any) string
}

// New starts a provider that stops with the test.
func New(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{t: t, codes: make(map[string]url.Values)}
	var err error
	p.Key, err = rsa.GenerateKey(rand.Reader, 2048)
	check(t, err)
	p.Other, err = rsa.GenerateKey(rand.Reader, 2048)
	check(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	p.json(w, map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		// The platform must not accept weak algorithms that a provider
		// announces.
		"id_token_signing_alg_values_supported": []string{"none", "HS256", "RS256"},
	})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	p.json(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.Key.Public(), KeyID: "one", Algorithm: "RS256", Use: "sig"}}})
}

func (p *Provider) json(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

// authorize validates the request and redirects back with a code, as if the
// user had consented.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	for name, want := range map[string]string{
		"response_type": "code", "client_id": ClientID, "redirect_uri": p.Public + "/auth/oidc/callback",
		"scope": "openid email profile", "code_challenge_method": "S256",
	} {
		if query.Get(name) != want {
			p.t.Errorf("the provider got a request with %s=%q, want %q", name, query.Get(name), want)
		}
	}
	for _, name := range []string{"state", "nonce", "code_challenge"} {
		if len(query.Get(name)) < 20 {
			p.t.Errorf("the provider got a request with %s=%q", name, query.Get(name))
		}
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = query
	p.mu.Unlock()
	back := url.Values{"code": {code}, "state": {query.Get("state")}}
	http.Redirect(w, r, query.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	p.mu.Lock()
	requested, ok := p.codes[r.PostForm.Get("code")]
	delete(p.codes, r.PostForm.Get("code"))
	p.mu.Unlock()
	sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	id, password, basic := r.BasicAuth()
	switch {
	case !basic || id != ClientID || password != ClientSecret:
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
		p.json(w, map[string]any{"error": "invalid_client"})
	case !ok, requested.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]),
		r.PostForm.Get("grant_type") != "authorization_code", r.PostForm.Get("redirect_uri") != requested.Get("redirect_uri"):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		p.json(w, map[string]any{"error": "invalid_grant"})
	default:
		p.json(w, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 60, "id_token": p.idToken(requested)})
	}
}

func (p *Provider) idToken(requested url.Values) string {
	claims := map[string]any{
		"iss": p.URL, "sub": "subject-1", "aud": ClientID, "exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix(),
		"nonce": requested.Get("nonce"), "email": "carol@example.com", "email_verified": true, "name": "Carol",
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, value := range p.claims {
		claims[name] = value
		if value == nil {
			delete(claims, name)
		}
	}
	if p.forge != nil {
		return p.forge(claims)
	}
	return p.Sign(claims, jose.SigningKey{Algorithm: jose.RS256, Key: p.Key})
}

// Sign returns a signed token.
func (p *Provider) Sign(claims map[string]any, key jose.SigningKey) string {
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", "one"))
	check(p.t, err)
	text, err := json.Marshal(claims)
	check(p.t, err)
	signed, err := signer.Sign(text)
	check(p.t, err)
	compact, err := signed.CompactSerialize()
	check(p.t, err)
	return compact
}

// Unsigned returns a token with alg=none.
func Unsigned(claims map[string]any) string {
	text, _ := json.Marshal(claims)
	b64 := base64.RawURLEncoding
	return b64.EncodeToString([]byte(`{"alg":"none"}`)) + "." + b64.EncodeToString(text) + "."
}

// Next sets the claims of the following ID tokens; nil values remove a claim.
// forge builds the token; nil signs with Key.
func (p *Provider) Next(claims map[string]any, forge func(map[string]any) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims, p.forge = claims, forge
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
