package gitprovider_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// A 5xx is tried again twice, and what cannot be sent twice is not.
func TestRetries(t *testing.T) {
	t.Parallel()
	token := admin(gitprovider.GitLab)
	server := start(t, gitprovider.GitLab, token)
	p := provider(t, server, gitprovider.GitLab, token, "")
	address, path := repositoryAt(server, gitprovider.GitLab)
	bad := providertest.Canned{Status: 502, Body: "<html>bad gateway</html>"}

	server.Respond(bad, bad)
	if _, err := p.Repository(t.Context(), address); err != nil {
		t.Errorf("two failures were not outlived: %v", err)
	}
	server.Respond(bad, bad, bad)
	_, err := p.Repository(t.Context(), address)
	if responseError := failure(t, err); responseError.Kind != gitprovider.Unreachable || responseError.Status != 502 || !responseError.Retryable() || strings.Contains(err.Error(), "<html>") {
		t.Errorf("%s %d %v", responseError.Kind, responseError.Status, err)
	}
	server.Respond(providertest.Canned{Status: 200, Body: "[]"}, bad) // the list, then the POST
	if responseError := failure(t, p.EnsureWebhook(t.Context(), address, pushHook("x"))); responseError.Kind != gitprovider.Unreachable {
		t.Errorf("a failed POST is %s", responseError.Kind)
	}
	if len(server.Hooks(path)) != 0 || len(server.Writes()) != 1 {
		t.Errorf("the POST was sent again: %q", server.Writes())
	}
}

// The backoff ends with the context. Time is the bubble's, so nothing waits.
func TestRetryBackoffHonoursContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		// The proxy function is called before each connection, and fails it.
		p, err := gitprovider.New(gitprovider.Options{
			Kind: gitprovider.GitHub, Token: secret.New("ghp_1"),
			Proxy: proxyThatFails(&dials),
		})
		must.Do(t, err)
		begun := time.Now()
		_, err = p.Check(t.Context(), gitprovider.RuntimeToken)
		if responseError := failure(t, err); responseError.Kind != gitprovider.Unreachable || dials != 3 {
			t.Errorf("%s after %d tries: %v", responseError.Kind, dials, err)
		}
		if waited := time.Since(begun); waited < 500*time.Millisecond || waited > 3*time.Second {
			t.Errorf("the two pauses took %s", waited)
		}
		dials = 0
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		begun = time.Now()
		if _, err := p.Check(ctx, gitprovider.RuntimeToken); err == nil || time.Since(begun) != 50*time.Millisecond || dials != 1 {
			t.Errorf("a short deadline: %v after %s and %d tries", err, time.Since(begun), dials)
		}
	})
}

// Rate limits have their end, in each provider's way, and are not retried.
func TestRateLimits(t *testing.T) {
	at := noon().Add(17 * time.Minute)
	for _, test := range []struct {
		kind   gitprovider.Kind
		canned providertest.Canned
		until  time.Time
	}{
		{gitprovider.GitHub, providertest.Canned{Status: 403, Header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": strconv.FormatInt(at.Unix(), 10)}, Body: `{"message":"API rate limit exceeded for user ID 1."}`}, at},
		{gitprovider.GitHub, providertest.Canned{Status: 403, Header: map[string]string{"Retry-After": "60"}, Body: `{"message":"You have exceeded a secondary rate limit."}`}, noon().Add(time.Minute)},
		{gitprovider.GitHub, providertest.Canned{Status: 403, Body: `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes."}`}, noon().Add(time.Minute)},
		{gitprovider.GitLab, providertest.Canned{Status: 429, Header: map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": strconv.FormatInt(at.Unix(), 10)}, Body: "Retry later"}, at},
		{gitprovider.Bitbucket, providertest.Canned{Status: 429, Body: `{"type":"error","error":{"message":"Rate limit for this resource has been exceeded"}}`}, noon().Add(time.Minute)},
		{gitprovider.BitbucketServer, providertest.Canned{Status: 429, Header: map[string]string{"Retry-After": at.Format(http.TimeFormat)}}, at},
	} {
		token := admin(test.kind)
		server := start(t, test.kind, token)
		server.Respond(test.canned)
		address, _ := repositoryAt(server, test.kind)
		_, err := provider(t, server, test.kind, token, "").Repository(t.Context(), address)
		responseError := failure(t, err)
		if responseError.Kind != gitprovider.RateLimited || !responseError.Until.Equal(test.until) || len(server.Requests()) != 1 {
			t.Errorf("%s: %s until %s after %d requests: %v", test.kind, responseError.Kind, responseError.Until, len(server.Requests()), err)
		}
	}
}

// A redirect within the API is followed; one that leaves it is refused, and the
// other server never sees the token.
func TestRedirects(t *testing.T) {
	for _, kind := range gitprovider.Kinds() {
		token := admin(kind)
		server := start(t, kind, token)
		var seen []string
		thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = append(seen, r.Header.Get("Authorization"))
		}))
		t.Cleanup(thief.Close)
		p := provider(t, server, kind, token, "")
		address, path := repositoryAt(server, kind)

		server.Respond(providertest.Canned{Status: 302, Header: map[string]string{"Location": thief.URL + "/steal"}})
		_, err := p.Repository(t.Context(), address)
		if responseError := failure(t, err); responseError.Kind != gitprovider.Invalid || len(seen) > 0 {
			t.Errorf("%s: %s, and the other server saw %q", kind, responseError.Kind, seen)
		}
		must.Get(p.Repository(t.Context(), address))(t)
		requests := server.Requests()
		_, same, _ := strings.Cut(requests[len(requests)-1], " ")
		server.Respond(providertest.Canned{Status: 301, Header: map[string]string{"Location": server.URL + same}})
		if found, err := p.Repository(t.Context(), address); err != nil || found.Path != path {
			t.Errorf("%s: a renamed repository is %+v: %v", kind, found, err)
		}
	}
}

// A write that is redirected would go on as a GET and seem to succeed.
func TestRedirectedWrite(t *testing.T) {
	token := admin(gitprovider.GitLab)
	server := start(t, gitprovider.GitLab, token)
	p := provider(t, server, gitprovider.GitLab, token, "")
	address, path := repositoryAt(server, gitprovider.GitLab)
	server.Respond(
		providertest.Canned{Status: 200, Body: "[]"},
		providertest.Canned{Status: 301, Header: map[string]string{"Location": server.APIURL + "/user"}},
	)
	if err := p.EnsureWebhook(t.Context(), address, pushHook("x")); err == nil || len(server.Hooks(path)) != 0 {
		t.Errorf("the hook was not made, and the error is %v", err)
	}
}

// The next page of a list must be on the same server, too.
func TestNextPageElsewhere(t *testing.T) {
	for kind, canned := range map[gitprovider.Kind]providertest.Canned{
		gitprovider.GitHub:    {Status: 200, Header: map[string]string{"Link": `<https://evil.example/hooks?page=2>; rel="next"`}, Body: "[]"},
		gitprovider.Bitbucket: {Status: 200, Body: `{"values":[],"next":"https://evil.example/hooks?page=2"}`},
	} {
		token := admin(kind)
		server := start(t, kind, token)
		server.Respond(canned)
		address, _ := repositoryAt(server, kind)
		err := provider(t, server, kind, token, "").EnsureWebhook(t.Context(), address, pushHook("x"))
		if responseError := failure(t, err); responseError.Kind != gitprovider.Invalid || !strings.Contains(err.Error(), "another server") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// The token is never part of an error.
func TestErrorsHaveNoToken(t *testing.T) {
	for _, kind := range gitprovider.Kinds() {
		token := admin(kind)
		server := start(t, kind, token)
		basic := base64.StdEncoding.EncodeToString([]byte(token.Username + ":" + token.Value))
		p := provider(t, server, kind, token, "")
		address, _ := repositoryAt(server, kind)
		for _, status := range []int{400, 401, 403, 404, 409, 418, 422} {
			echo := fmt.Sprintf(`{"message":"you sent %s","error":"%s","errors":[{"message":"and %s"}]}`, token.Value, basic, token.Value)
			server.Respond(providertest.Canned{Status: status, Body: echo})
			_, err := p.Repository(t.Context(), address)
			text := fmt.Sprintf("%v %+v %#v", err, err, failure(t, err))
			if strings.Contains(text, token.Value) || strings.Contains(text, basic) || strings.Contains(text, "canary") {
				t.Errorf("%s %d: %s", kind, status, text)
			}
		}
		if text := fmt.Sprintf("%+v %#v", p, p); strings.Contains(text, token.Value) {
			t.Errorf("%s: printing the provider shows the token", kind)
		}
	}
}

// Responses are bounded, and pages of other programs are not taken for them.
func TestStrangeAnswers(t *testing.T) {
	token := admin(gitprovider.GitHub)
	server := start(t, gitprovider.GitHub, token)
	p := provider(t, server, gitprovider.GitHub, token, "")
	address, _ := repositoryAt(server, gitprovider.GitHub)
	for name, test := range map[string]struct {
		canned providertest.Canned
		words  string
	}{
		"too long":  {providertest.Canned{Status: 200, Body: `{"full_name":"` + strings.Repeat("a", 5<<20) + `"}`}, "more than"},
		"a page":    {providertest.Canned{Status: 200, Body: "<html>please sign in</html>"}, "check the API URL"},
		"long text": {providertest.Canned{Status: 422, Body: `{"message":"` + strings.Repeat("b\\n", 4000) + `"}`}, "…"},
	} {
		server.Respond(test.canned)
		_, err := p.Repository(t.Context(), address)
		if responseError := failure(t, err); responseError.Kind != gitprovider.Invalid || !strings.Contains(err.Error(), test.words) || len(err.Error()) > 600 || strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("%s: %s %.200s", name, responseError.Kind, err)
		}
	}
}

// A self-hosted server with a private CA needs that CA, and the error explains it.
func TestCertificates(t *testing.T) {
	token := admin(gitprovider.GitLab)
	server := start(t, gitprovider.GitLab, token)
	p, err := gitprovider.New(gitprovider.Options{Kind: gitprovider.GitLab, APIURL: server.APIURL, Token: secret.New(token.Value)})
	must.Do(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = p.Check(ctx, gitprovider.RuntimeToken)
	if responseError := failure(t, err); responseError.Kind != gitprovider.Certificate || !strings.Contains(err.Error(), "authority") {
		t.Errorf("%s: %v", responseError.Kind, err)
	}
	_, err = gitprovider.New(gitprovider.Options{Kind: gitprovider.GitLab, APIURL: server.APIURL, Token: secret.New("x"), CAs: []byte("nonsense")})
	if responseError := failure(t, err); responseError.Kind != gitprovider.Invalid {
		t.Errorf("%s: %v", responseError.Kind, err)
	}
}

// No listener: the message explains it.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	address := listener.Addr().String()
	_ = listener.Close()
	p := must.Get(gitprovider.New(gitprovider.Options{Kind: gitprovider.BitbucketServer, APIURL: "http://" + address, Token: secret.New("x")}))(t)
	_, err = p.Check(t.Context(), gitprovider.UserToken)
	if responseError := failure(t, err); responseError.Kind != gitprovider.Unreachable || !strings.Contains(err.Error(), address) {
		t.Errorf("%s: %v", responseError.Kind, err)
	}
}

// A server that does not respond results in a timeout.
func TestTimeout(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(server.Close)
	p, err := gitprovider.New(gitprovider.Options{Kind: gitprovider.GitLab, APIURL: server.URL, Token: secret.New("glpat-1"), Timeout: 50 * time.Millisecond})
	must.Do(t, err)
	_, err = p.Check(t.Context(), gitprovider.UserToken)
	if responseError := failure(t, err); responseError.Kind != gitprovider.Unreachable || !strings.Contains(err.Error(), "in time") {
		t.Errorf("%s: %v", responseError.Kind, err)
	}
	report := gitprovider.TokenReport{}
	if state := gitprovider.StateOf(report, err, noon()); state != gitprovider.StateUnknown {
		t.Errorf("a token that could not be checked is %s", state)
	}
}

// A cloud's token is not used for repositories of another server, and nothing is
// sent.
func TestCloudRepositoryElsewhere(t *testing.T) {
	for kind, address := range map[gitprovider.Kind]string{
		gitprovider.GitHub:    "https://github.com.evil.example/acme/config.git",
		gitprovider.GitLab:    "git@github.com:acme/config.git",
		gitprovider.Bitbucket: "https://gitlab.com/acme/config.git",
	} {
		dials := 0
		p, err := gitprovider.New(gitprovider.Options{Kind: kind, Token: secret.New("x"), Proxy: proxyThatFails(&dials)})
		must.Do(t, err)
		_, err = p.Repository(t.Context(), address)
		if responseError := failure(t, err); responseError.Kind != gitprovider.Invalid || dials != 0 {
			t.Errorf("%s: %s after %d dials: %v", kind, responseError.Kind, dials, err)
		}
	}
}

// Settings with which a token would be lost, or nothing would work, are refused at
// once.
func TestNewRefuses(t *testing.T) {
	for name, options := range map[string]gitprovider.Options{
		"unknown kind":        {Kind: "gitea", Token: secret.New("x")},
		"plain HTTP":          {Kind: gitprovider.GitLab, APIURL: "http://gitlab.example.com/api/v4", Token: secret.New("x")},
		"plain HTTP, cloud":   {Kind: gitprovider.Bitbucket, APIURL: "http://bitbucket.example.com/2.0", Token: secret.New("x")},
		"no token":            {Kind: gitprovider.GitHub},
		"a token of two":      {Kind: gitprovider.GitHub, Token: secret.New("ghp_1\r\nX-Evil: 1")},
		"a name with a colon": {Kind: gitprovider.Bitbucket, Token: secret.New("x"), Username: "a:b"},
		"no server":           {Kind: gitprovider.BitbucketServer, Token: secret.New("x")},
		"no address":          {Kind: gitprovider.GitHub, Token: secret.New("x"), Repository: "acme"},
		"user in the URL":     {Kind: gitprovider.GitLab, APIURL: "https://a:b@gitlab.example.com", Token: secret.New("x")},
	} {
		if _, err := gitprovider.New(options); err == nil {
			t.Errorf("%s is accepted", name)
		} else if responseError := failure(t, err); responseError.Kind != gitprovider.Invalid {
			t.Errorf("%s is %s", name, responseError.Kind)
		}
	}
	allowed := gitprovider.Options{Kind: gitprovider.GitLab, APIURL: "http://gitlab.example.com/api/v4", Token: secret.New("x"), PlainHTTP: true}
	if _, err := gitprovider.New(allowed); err != nil {
		t.Errorf("plain HTTP that was allowed: %v", err)
	}
}
