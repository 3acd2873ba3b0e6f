package notify_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// TestKilledBeforeRecordAtGitHost: a process that ends after a commit has its status, its
// deployment and its comment, and before that is recorded, leaves one of each: the next
// process finds them, and records the message.
func TestKilledBeforeRecordAtGitHost(t *testing.T) {
	w := newWorld(t)
	const revision = "abcdef0123abcdef0123abcdef0123abcdef0123"
	host := providertest.Start(t, gitprovider.GitLab, providertest.World{
		Tokens: []providertest.Token{{Value: "token", Login: "robot", Scopes: []string{"api"}, Roles: map[string]string{"acme": "write"}}},
		Repositories: []providertest.Repository{{Path: "acme/shop", Private: true, Pulls: []providertest.Pull{
			{Number: 3, Head: "a", Base: "main", HeadSHA: revision, State: gitprovider.PullRequestOpen},
		}}},
	})
	w.catalog(t, map[string]string{
		"service.gitlab": "token: token\ninsecureSkipVerify: true\nbaseURL: " + host.URL,
		"template.app-deployed": "message: shop runs\ngitlab:\n  repoURLPath: " + host.URL + "/acme/shop.git\n  revisionPath: '{{.app.status.operationState.syncResult.revision}}'\n" +
			"  status: {state: success, label: cd}\n  deployment: {state: success, environment: prod}\n  pullRequestComment: {content: It runs.}\n",
	})
	written := func() string {
		of, _ := host.Repository("acme/shop")
		return fmt.Sprintf("%d statuses, %d deployments, %d comments", len(of.Statuses), len(of.Deployments), len(host.Pulls("acme/shop")[0].Comments))
	}
	const want = "1 statuses, 1 deployments, 1 comments"
	gate, killed := &kubetest.Gate{}, make(chan struct{})
	kill := sync.OnceFunc(func() { close(killed) })
	gate.Handle(func(request *http.Request, send kubetest.Send) (*http.Response, error) {
		if request.Method == http.MethodPatch && written() == want {
			kill()
			return nil, errors.New("the process is gone")
		}
		return send(request)
	})
	stop := w.start(t, gate.Option)
	w.application(t, "shop", "notifications.argoproj.io/subscribe.on-deployed.gitlab: ''")
	w.deployed(t, "shop", revision, revision)
	<-killed
	stop()
	w.start(t)
	recorded(t, w, "shop", 1)
	if got := written(); got != want {
		t.Errorf("there are %s, and not %s", got, want)
	}
}
