package gitprovider_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

const hookURL = "https://slipway.example.com/webhooks/prod/config"

func pushHook(key string) gitprovider.Webhook {
	return gitprovider.Webhook{URL: hookURL, Secret: secret.New(key)}
}

// pushEvents are the provider's names of a push.
func pushEvents(kind gitprovider.Kind) []string {
	return map[gitprovider.Kind][]string{
		gitprovider.GitHub: {"push"}, gitprovider.GitLab: {"push_events", "tag_push_events"},
		gitprovider.Bitbucket: {"repo:push"}, gitprovider.BitbucketServer: {"repo:refs_changed"},
	}[kind]
}

// A hook is made once, updated after, and is as it should be each time: JSON, the
// secret, verified TLS, pushes.
func TestEnsureWebhook(t *testing.T) {
	for _, kind := range gitprovider.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			token := admin(kind)
			server := start(t, kind, token)
			p := provider(t, server, kind, token, "")
			address, path := repositoryAt(server, kind)
			for _, key := range []string{"first", "first", "second"} {
				must.Do(t, p.EnsureWebhook(t.Context(), address, pushHook(key)))
				hooks := server.Hooks(path)
				if len(hooks) != 1 {
					t.Fatalf("%d hooks: %+v", len(hooks), hooks)
				}
				hook := hooks[0]
				if hook.URL != hookURL || hook.Secret != key || !hook.JSON || !hook.VerifyTLS || !hook.Active || !slices.Equal(hook.Events, pushEvents(kind)) {
					t.Errorf("the hook is %+v", hook)
				}
			}
			must.Do(t, p.EnsureWebhook(t.Context(), address, gitprovider.Webhook{URL: hookURL, Secret: secret.New("x"), Events: []gitprovider.Event{gitprovider.PushEvent, gitprovider.PullRequestEvent}}))
			if got := server.Hooks(path)[0].Events; len(got) <= len(pushEvents(kind)) {
				t.Errorf("with pull requests the events are %q", got)
			}
			for range 2 { // the second time there is nothing to remove
				must.Do(t, p.RemoveWebhook(t.Context(), address, hookURL))
			}
			if hooks := server.Hooks(path); len(hooks) != 0 {
				t.Errorf("hooks are left: %+v", hooks)
			}
		})
	}
}

// Ours is found behind a hundred others, duplicates go, and the others stay.
func TestEnsureWebhookAmongMany(t *testing.T) {
	for _, kind := range gitprovider.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			token := admin(kind)
			var hooks []providertest.Hook
			for i := range 230 {
				hook := providertest.Hook{ID: int64(i + 1), URL: fmt.Sprintf("https://ci.example.com/%d", i), Active: true}
				if i == 150 || i == 229 {
					hook.URL = hookURL
				}
				hooks = append(hooks, hook)
			}
			var repositories []providertest.Repository
			for _, path := range []string{"acme/config", "acme/platform/config", "ACME/config"} {
				repositories = append(repositories, providertest.Repository{Path: path, Private: true, Hooks: slices.Clone(hooks)})
			}
			if kind != gitprovider.BitbucketServer {
				repositories = repositories[:2]
			} else {
				repositories = repositories[2:]
			}
			server := providertest.Start(t, kind, providertest.World{Tokens: []providertest.Token{token}, Owners: owners(), Repositories: repositories})
			p := provider(t, server, kind, token, "")
			address, path := repositoryAt(server, kind)
			must.Do(t, p.EnsureWebhook(t.Context(), address, pushHook("key")))
			left := server.Hooks(path)
			if len(left) != 229 || left[150].URL != hookURL || left[150].Secret != "key" || left[150].ID != 151 {
				t.Errorf("%d hooks are left, and ours is %+v", len(left), left[150])
			}
		})
	}
}

// Two replicas register at the same time: GitHub refuses the second, which then
// updates what the first made.
func TestEnsureWebhookRace(t *testing.T) {
	token := admin(gitprovider.GitHub)
	server := start(t, gitprovider.GitHub, token)
	p := provider(t, server, gitprovider.GitHub, token, "")
	address, path := repositoryAt(server, gitprovider.GitHub)
	must.Do(t, p.EnsureWebhook(t.Context(), address, pushHook("first")))
	server.Respond(providertest.Canned{Status: 200, Body: "[]"}) // the list was read before
	must.Do(t, p.EnsureWebhook(t.Context(), address, pushHook("second")))
	if hooks := server.Hooks(path); len(hooks) != 1 || hooks[0].Secret != "second" {
		t.Errorf("hooks = %+v", hooks)
	}
}

// An invalid hook, or one without a secret, is rejected before a request.
func TestEnsureWebhookRefuses(t *testing.T) {
	token := admin(gitprovider.GitLab)
	server := start(t, gitprovider.GitLab, token)
	p := provider(t, server, gitprovider.GitLab, token, "")
	address, _ := repositoryAt(server, gitprovider.GitLab)
	for _, hook := range []gitprovider.Webhook{
		{URL: hookURL},
		{URL: "javascript:alert(1)", Secret: secret.New("x")},
		{URL: "https://user:password@slipway.example.com/", Secret: secret.New("x")},
		{URL: "", Secret: secret.New("x")},
		{URL: hookURL, Secret: secret.New("x"), Events: []gitprovider.Event{"everything"}},
	} {
		if responseError := failure(t, p.EnsureWebhook(t.Context(), address, hook)); responseError.Kind != gitprovider.Invalid {
			t.Errorf("%s is %s", hook.URL, responseError.Kind)
		}
	}
	if requests := server.Requests(); len(requests) != 0 {
		t.Errorf("sent %q", requests)
	}
}

// A token without the right gets the provider's refusal, and not a 404 dressed as
// success.
func TestEnsureWebhookDenied(t *testing.T) {
	for kind, want := range map[gitprovider.Kind]gitprovider.ErrorKind{
		gitprovider.GitHub: gitprovider.NotFound, gitprovider.GitLab: gitprovider.Denied,
		gitprovider.Bitbucket: gitprovider.Denied, gitprovider.BitbucketServer: gitprovider.Denied,
	} {
		token := admin(kind)
		token.Roles = map[string]string{"acme": "write", "ACME": "write"}
		server := start(t, kind, token)
		address, _ := repositoryAt(server, kind)
		err := provider(t, server, kind, token, "").EnsureWebhook(t.Context(), address, pushHook("the-hooks-own-secret"))
		if responseError := failure(t, err); responseError.Kind != want || responseError.Token != "" || strings.Contains(err.Error(), "the-hooks-own-secret") {
			t.Errorf("%s: %s %q %v", kind, responseError.Kind, responseError.Token, err)
		}
	}
}
