package console

import (
	"fmt"
	"maps"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
)

// The tokens that people paste.
const (
	runtimeToken = "ghp_runtime000000000000000000000000000000"
	userToken    = "ghp_user00000000000000000000000000000000"
	appsPath     = "team/apps"
)

// gitHost is a Git provider: its API is strict, its repositories are real, and it
// sends webhooks for pushes as GitHub does.
type gitHost struct {
	world    *world
	provider *providertest.Server
	git      *gittest.Server
	apps     *gittest.Repository
}

func newGitHost(t *testing.T, w *world) *gitHost {
	t.Helper()
	h := &gitHost{world: w, git: gittest.Serve(t, gittest.BasicAuth("x-access-token", runtimeToken), gittest.MorePasswords(map[string]bool{userToken: true}))}
	everything := map[string]string{"team": "admin"}
	h.provider = providertest.Start(t, gitprovider.GitHub, providertest.World{
		Owners:       map[string]string{"team": "Organization"},
		Repositories: []providertest.Repository{{Path: appsPath, Private: true}},
		Tokens: []providertest.Token{
			{Value: runtimeToken, Login: "robot", UserID: 1, Scopes: []string{"repo", "admin:repo_hook"}, Roles: everything},
			{Value: userToken, Login: "ada", UserID: 2, Scopes: []string{"repo"}, Roles: everything},
		},
	})
	h.provider.Created = func(path string) {
		h.git.Repository(t, path, map[string]string{"x": "x"}).DeleteBranch(t, gittest.Main)
	}
	h.apps = h.git.Repository(t, appsPath, map[string]string{
		"apps/web.yaml":        h.application("web", "web", "  syncPolicy: {automated: {prune: true, selfHeal: true}}\n"),
		"apps/manual.yaml":     h.application("manual", "manual", ""),
		"web/settings.yaml":    settings("web-settings", "first"),
		"web/web.yaml":         workload,
		"web/ingress.yaml":     ingress,
		"web/secret.yaml":      "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData: {password: " + applicationSecret + "}\n",
		"manual/settings.yaml": settings("manual-settings", "first"),
	})
	target := must.Get(url.Parse(strings.TrimSuffix(h.apps.URL(), "/"+appsPath+".git")))(t)
	h.provider.Git = httputil.NewSingleHostReverseProxy(target)
	return h
}

// url is the address of a repository of the provider.
func (h *gitHost) url(path string) string { return h.provider.URL + "/" + path + ".git" }

// application is one that deploys a folder of the repository to where applications go.
func (h *gitHost) application(name, folder, policy string) string {
	return fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %s, labels: {team: shop}}
spec:
  project: default
  source: {repoURL: %q, path: %s, targetRevision: main}
  destination: {server: "https://kubernetes.default.svc", namespace: %s}
%s`, name, h.url(appsPath), folder, h.world.target, policy)
}

// settings is a ConfigMap with a value.
func settings(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {value: %q}\n", name, value)
}

// applicationSecret is what the console must never show.
const applicationSecret = "hidden0data0of0an0application"

// workload is a Deployment whose Pods write a log, and its Service.
const workload = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {slipway.dev/process-node: "true"}
      tolerations: [{key: slipway.dev/process-node, operator: Exists}]
      containers: [{name: web, image: "slipway.dev/demo:v1", ports: [{containerPort: 8080}]}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
`

const ingress = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  ingressClassName: slipway
  rules:
    - host: ` + webHost + `
      http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}]}
`

// commit gives an application another value.
func (h *gitHost) commit(t *testing.T, asked change) string {
	t.Helper()
	return h.apps.Commit(t, asked.files(), asked.Message)
}

func (c change) files() map[string]string {
	return map[string]string{c.Folder + "/settings.yaml": settings(c.Folder+"-settings", c.Value)}
}

// push commits files and calls every webhook, as a provider does after a push. It
// returns the commit.
func (h *gitHost) push(t *testing.T, files map[string]string, message string) string {
	t.Helper()
	before := h.apps.Head(t)
	commit := h.apps.Commit(t, files, message)
	push := providertest.Push{Path: appsPath, CloneURL: h.url(appsPath), Before: before, After: commit, Files: slices.Sorted(maps.Keys(files))}
	hooks := h.provider.Hooks(appsPath)
	if len(hooks) == 0 {
		t.Fatal("there is no webhook")
	}
	for _, hook := range hooks {
		if status := push.SendGitHub(t, h.world.client().Transport, hook); status/100 != 2 {
			t.Errorf("the webhook %s answers %d", hook.URL, status)
		}
	}
	return commit
}
