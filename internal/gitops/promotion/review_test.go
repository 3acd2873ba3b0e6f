package promotion_test

import (
	"context"
	"fmt"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/promotion"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/secret"
)

// TestPullRequest: an environment with the action pr gets a pull request, one over a
// restart, and is promoted when that is merged. One that is closed fails the promotion.
func TestPullRequest(t *testing.T) {
	w := newWorld(t)
	const path = "team/shop"
	w.repository = w.git.Repository(t, path, map[string]string{"env/dev/config.yaml": config("dev", "v1"), "env/staging/config.yaml": config("staging", "v1"), "env/prod/config.yaml": config("prod", "v1")})
	host := providertest.Start(t, gitprovider.GitHub, providertest.World{
		Tokens:       []providertest.Token{{Value: "canary", Login: "robot", Scopes: []string{"repo"}, Roles: map[string]string{"team": "write"}}},
		Repositories: []providertest.Repository{{Path: path, Private: true, DefaultBranch: "main"}},
	})
	host.Git = httputil.NewSingleHostReverseProxy(must.Get(url.Parse(strings.TrimSuffix(w.repository.URL(), "/"+path+".git")))(t))
	address := host.URL + "/" + path + ".git"
	credentials := &credential.Store{}
	credentials.Set(types.NamespacedName{Name: path}, credential.Credential{Scope: credential.Repository, Kind: credential.Git, URL: address, Username: "x", Password: secret.New("canary")})
	credentials.SetCertificateAuthorities(map[string]string{strings.TrimPrefix(host.URL, "https://"): string(host.CA)})
	w.objects(t, address, nil)
	w.Apply(t, w.namespace, "apiVersion: codefresh.io/v1beta1\nkind: PromotionFlow\nmetadata: {name: to-prod}\nspec: {triggerEnvironment: dev, steps: [{environment: staging, dependsOn: [dev]}]}\n")
	w.Apply(t, w.namespace, "apiVersion: codefresh.io/v1beta1\nkind: PromotionPolicy\nmetadata: {name: by-review}\nspec: {priority: 1, policy: {action: pr}, selector: {targetEnvironment: {names: [staging], types: [NON_PROD]}}}\n")
	w.startEngineWith(t, source.Options{Credentials: credentials})
	w.setVersion(t, "v2")
	start := func() func() {
		sources := must.Get(source.New(source.Options{Folder: t.TempDir(), FetchTimeout: 10 * time.Second, Credentials: credentials}))(t)
		t.Cleanup(func() { _ = sources.Close() })
		return w.start(t, func(options *promotion.Options) { options.Sources = sources })
	}
	stop := start()
	w.promote(t, "first", "")
	w.awaitPhase(t, "first", slipway.PromotionProgressing, "staging: waiting for "+host.URL+"/team/shop/pull/1")
	pull := host.Pulls(path)[0]
	if pull.Head != "promotion/first/staging" || pull.Base != "main" || pull.Title != "promote shop v2 to staging" || !strings.Contains(pull.Body, "Promoted-By: ada") {
		t.Errorf("the pull request is %+v", pull)
	}
	stop()
	start()
	// The merge is a commit to the branch of the Application.
	w.repository.Git(t, "update-ref", "refs/heads/main", "refs/heads/promotion/first/staging")
	host.ChangePulls(path, func(all []providertest.Pull) []providertest.Pull {
		all[0].State = gitprovider.PullRequestMerged
		return all
	})
	done := w.awaitPhase(t, "first", slipway.PromotionSucceeded, "v2 is in staging")
	if write := done.Status.Steps[0].Writes[0]; write.PullRequest != host.URL+"/team/shop/pull/1" || write.Commit == "" {
		t.Errorf("the write is %+v", write)
	}
	if got := len(w.commits(t, "Promotion: "+w.namespace+"/first/staging")); got != 1 || len(host.Pulls(path)) != 1 {
		t.Errorf("there are %d commits and %d pull requests", got, len(host.Pulls(path)))
	}
	w.setVersion(t, "v3")
	w.promote(t, "second", "")
	programs.Eventually(t, func(context.Context) error {
		if got := len(host.Pulls(path)); got != 2 {
			return fmt.Errorf("there are %d pull requests", got)
		}
		return nil
	})
	host.ChangePulls(path, func(all []providertest.Pull) []providertest.Pull {
		all[1].State = gitprovider.PullRequestClosed
		return all
	})
	w.awaitPhase(t, "second", slipway.PromotionFailed, "/pull/2 was closed without being merged")
}
