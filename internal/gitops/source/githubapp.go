package source

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"slipway.dev/slipway/internal/gitops/githubapp"
	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/secret"
)

const (
	gitHubAPI = "https://api.github.com"
	// appTokenMargin is how long before its end a token is replaced, so that it
	// outlives the exchange that it is used for.
	appTokenMargin = 10 * time.Minute
	// maxAppTokenBytes bounds the response with a token.
	maxAppTokenBytes = 64 << 10
)

// appTokens are the tokens of GitHub Apps. It is safe for concurrent use.
type appTokens struct {
	mu     sync.Mutex
	tokens map[appKey]appToken
}

// appKey is an App as its Secret has it, with a digest in place of the key: the
// token of a Secret that was changed is not used.
type appKey struct {
	id, installation, api string
	key                   [sha256.Size]byte
}

// appToken is a token and its end.
type appToken struct {
	text    secret.Text
	expires time.Time
}

// get is a token that is good for a while. It removes those that are not.
func (a *appTokens) get(key appKey) (secret.Text, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for known, token := range a.tokens {
		if time.Until(token.expires) < appTokenMargin {
			delete(a.tokens, known)
		}
	}
	token, found := a.tokens[key]
	return token.text, found
}

// put keeps a token.
func (a *appTokens) put(key appKey, token appToken) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens[key] = token
}

// withAppToken gives access by a GitHub App the token of its installation.
// Concurrent callers share one request. Other access stays as it is.
func (s *Sources) withAppToken(ctx context.Context, access remote.Access) (remote.Access, error) {
	if !access.Credential.UsesApp() {
		return access, nil
	}
	app := access.Credential.App
	key := appKey{app.ID, app.Installation, app.API, sha256.Sum256([]byte(app.Key.Reveal()))}
	token, found := s.appTokens.get(key)
	if !found {
		var err error
		token, err = doOnce(ctx, s.charts, fmt.Sprintf("app %v", key), "", func(ctx context.Context) (secret.Text, error) {
			ctx, cancel := context.WithTimeout(ctx, s.options.FetchTimeout)
			defer cancel()
			fresh, err := s.requestAppToken(ctx, access)
			if err == nil {
				s.appTokens.put(key, fresh)
			}
			return fresh.text, err
		})
		if err != nil {
			return remote.Access{}, err
		}
	}
	access.Credential.Password = token
	return access, nil
}

// requestAppToken requests a token from GitHub's API.
func (s *Sources) requestAppToken(ctx context.Context, access remote.Access) (appToken, error) {
	app := access.Credential.App
	api := app.API
	if api == "" {
		api = gitHubAPI
	}
	home, err := address.Parse(api)
	if err != nil {
		return appToken{}, errorf(Invalid, "", "the address of GitHub's API: %v", err)
	}
	signed, err := signApp(app)
	if err != nil {
		return appToken{}, err
	}
	access.Authorities = s.options.Credentials.CertificateAuthorities(home.HostPort())
	access.Credential.ClientCertificate = "" // it is for the repository
	client, err := remote.HTTPClient(access, home)
	if err != nil {
		return appToken{}, err
	}
	defer client.CloseIdleConnections()
	at := home.URL().JoinPath("app/installations", app.Installation, "access_tokens").String()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, nil)
	if err != nil {
		return appToken{}, errorf(Invalid, "", "the address of GitHub's API cannot be requested")
	}
	request.Header.Set("Authorization", "Bearer "+signed)
	request.Header.Set("Accept", "application/vnd.github+json")
	request.Header.Set("User-Agent", "slipway")
	response, err := client.Do(request)
	if err != nil {
		return appToken{}, remote.ConnectionFailure(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	return readAppToken(response)
}

// readAppToken reads the response of the API.
func readAppToken(response *http.Response) (appToken, error) {
	switch code := response.StatusCode; code {
	case http.StatusCreated:
	case http.StatusUnauthorized, http.StatusForbidden:
		return appToken{}, errorf(Denied, "", "GitHub responds %s to the GitHub App: check githubAppID and githubAppPrivateKey in its Secret", http.StatusText(code))
	case http.StatusNotFound:
		return appToken{}, errorf(Denied, "", "GitHub does not have the installation of the GitHub App: check githubAppInstallationID in its Secret")
	default:
		return appToken{}, errorf(Unreachable, "", "GitHub responds %d %s to the GitHub App", code, http.StatusText(code))
	}
	var body struct {
		Token   string    `json:"token"`
		Expires time.Time `json:"expires_at"`
	}
	err := json.NewDecoder(io.LimitReader(response.Body, maxAppTokenBytes)).Decode(&body)
	if err != nil || body.Token == "" {
		return appToken{}, errorf(Unreachable, "", "the response to the GitHub App has no token")
	}
	return appToken{secret.New(body.Token), body.Expires}, nil
}

// signApp returns the token by which GitHub knows an App.
func signApp(app credential.GitHubApp) (string, error) {
	key, err := githubapp.ParseKey(app.Key)
	if err != nil {
		return "", errorf(Invalid, "", "githubAppPrivateKey in the Secret of the GitHub App is %v", err)
	}
	return githubapp.Sign(app.ID, key, time.Now())
}
