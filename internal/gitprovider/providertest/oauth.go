package providertest

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"slipway.dev/slipway/internal/gitprovider"
)

// grant is an issued authorization code or refresh token.
type grant struct {
	challenge, redirect, scope string
}

// oauthEndpoints returns the authorization and token endpoints of a provider.
// Bitbucket Cloud accepts neither scope nor PKCE parameters.
func oauthEndpoints(kind gitprovider.Kind) []endpoint {
	form := []string{"client_id", "response_type", "state", "redirect_uri", "scope", "code_challenge", "code_challenge_method"}
	switch kind {
	case gitprovider.GitHub:
		const page = "https://docs.github.com/apps/oauth-apps/building-oauth-apps/authorizing-oauth-apps"
		return []endpoint{
			{method: "GET", path: "/login/oauth/authorize", page: page, query: form, open: true, handle: authorize},
			{method: "POST", path: "/login/oauth/access_token", page: page, open: true, form: true, handle: tokenFor("incorrect_client_credentials", "bad_verification_code", http.StatusOK)},
		}
	case gitprovider.GitLab:
		const page = "https://docs.gitlab.com/api/oauth2/"
		return []endpoint{
			{method: "GET", path: "/oauth/authorize", page: page, query: form, open: true, handle: authorize},
			{method: "POST", path: "/oauth/token", page: page, open: true, form: true, handle: tokenFor("invalid_client", "invalid_grant", http.StatusBadRequest)},
			{method: "GET", path: "/oauth/token/info", page: page, handle: gitLabTokenInfo},
		}
	case gitprovider.Bitbucket:
		const page = "https://developer.atlassian.com/cloud/bitbucket/oauth-2/"
		return []endpoint{
			{method: "GET", path: "/site/oauth2/authorize", page: page, query: form[:4], open: true, handle: authorize},
			{method: "POST", path: "/site/oauth2/access_token", page: page, open: true, form: true, handle: tokenFor("unauthorized_client", "invalid_grant", http.StatusBadRequest)},
		}
	}
	const page = "https://confluence.atlassian.com/bitbucketserver/bitbucket-oauth-2-0-provider-api-1108483661.html"
	return []endpoint{
		{method: "GET", path: "/rest/oauth2/latest/authorize", page: page, query: form, open: true, handle: authorize},
		{method: "POST", path: "/rest/oauth2/latest/token", page: page, open: true, form: true, handle: tokenFor("invalid_client", "invalid_grant", http.StatusBadRequest)},
	}
}

// gitLabTokenInfo serves GET /oauth/token/info, for OAuth tokens only.
func gitLabTokenInfo(x *exchange) {
	if !x.token.OAuth {
		x.respond(http.StatusUnauthorized, map[string]any{"error": "invalid_request"})
		return
	}
	x.respond(http.StatusOK, map[string]any{
		"resource_owner_id": x.token.UserID, "scope": x.token.Scopes, "expires_in": 7200,
		"application": map[string]any{"uid": x.world.Application.ClientID}, "created_at": 1700000000,
	})
}

// authorize validates the parameters and redirects back with a code, as if
// the user had consented.
func authorize(x *exchange) {
	query := x.r.URL.Query()
	// The callback must match exactly: a prefix match would allow open
	// redirects.
	application := x.world.Application
	if query.Get("client_id") != application.ClientID || query.Get("redirect_uri") != application.Redirect || query.Get("response_type") != "code" {
		http.Error(x.w, "unknown application or callback", http.StatusBadRequest)
		return
	}
	if query.Get("state") == "" || (query.Get("code_challenge") != "" && query.Get("code_challenge_method") != "S256") {
		x.undocumented("no state, or a challenge that is not S256")
	}
	// Codes are predictable, which is fine for tests.
	code := "code-" + strconv.Itoa(len(x.codes)+1)
	x.codes[code] = grant{challenge: query.Get("code_challenge"), redirect: query.Get("redirect_uri"), scope: query.Get("scope")}
	back, err := url.Parse(application.Redirect)
	if err != nil {
		x.undocumented("the callback %q", application.Redirect)
		return
	}
	back.RawQuery = url.Values{"code": {code}, "state": {query.Get("state")}}.Encode()
	http.Redirect(x.w, x.r, back.String(), http.StatusFound)
}

// tokenFor returns the handler of a token endpoint. Providers differ in the
// errors for an unknown application or code.
func tokenFor(unknownClient, unknownCode string, status int) func(*exchange) {
	return func(x *exchange) {
		if x.r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || x.r.URL.RawQuery != "" {
			x.undocumented("not a form in the body")
		}
		if err := x.r.ParseForm(); err != nil {
			x.undocumented("the form cannot be read: %v", err)
			return
		}
		// Parameters in the URL would end up in logs, so only the body
		// counts.
		form := x.r.PostForm
		known := []string{"client_id", "client_secret", "grant_type", "code", "redirect_uri", "code_verifier", "refresh_token"}
		for name := range form {
			if !slices.Contains(known, name) {
				x.undocumented("the field %s", name)
			}
		}
		id, password := form.Get("client_id"), form.Get("client_secret")
		// Bitbucket Cloud authenticates the client with Basic authentication.
		if x.kind == gitprovider.Bitbucket {
			id, password, _ = x.r.BasicAuth()
		}
		if id != x.world.Application.ClientID || password != x.world.Application.ClientSecret {
			x.respond(status, map[string]any{"error": unknownClient, "error_description": "The client_id and/or client_secret passed are incorrect."})
			return
		}
		scope, ok := x.redeem(form)
		if !ok {
			x.respond(status, map[string]any{"error": unknownCode, "error_description": "The code passed is incorrect or expired."})
			return
		}
		x.respond(http.StatusOK, x.issue(scope))
	}
}

// redeem accepts a code or refresh token once, and verifies the PKCE
// verifier.
func (x *exchange) redeem(form url.Values) (scope string, ok bool) {
	switch form.Get("grant_type") {
	case "authorization_code":
		// The code is deleted even if the verification fails: codes are for
		// one use.
		given, found := x.codes[form.Get("code")]
		delete(x.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		proven := given.challenge == "" || base64.RawURLEncoding.EncodeToString(sum[:]) == given.challenge
		return given.scope, found && proven && form.Get("redirect_uri") == given.redirect
	case "refresh_token":
		// Refresh tokens rotate with each use.
		found := x.refresh[form.Get("refresh_token")]
		delete(x.refresh, form.Get("refresh_token"))
		return "", found
	}
	x.undocumented("grant_type=%s", form.Get("grant_type"))
	return "", false
}

// issue creates an access token and a refresh token.
func (x *exchange) issue(scope string) map[string]any {
	x.nextID++
	n := strconv.FormatInt(x.nextID, 10)
	x.refresh["refresh-"+n] = true
	response := map[string]any{"access_token": "access-" + n, "refresh_token": "refresh-" + n, "expires_in": 7200, "token_type": "bearer", "scope": scope}
	if x.kind == gitprovider.Bitbucket {
		delete(response, "scope")
		response["scopes"] = "repository:write webhook"
	}
	return response
}
