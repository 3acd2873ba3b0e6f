package appset_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/must"
)

// host is an API of GitHub and a plugin, with the requests that it got.
type host struct {
	*httptest.Server
	mu       sync.Mutex
	pulls    []int
	created  []string // repositories that are new
	limited  bool
	requests []string
}

func serveHost(t *testing.T) *host {
	t.Helper()
	h := &host{pulls: []int{1, 2}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

// ServeHTTP responds as the published API of GitHub, and as Argo CD's plugins.
func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
	switch {
	case h.limited:
		w.Header().Set("X-RateLimit-Remaining", "0")
		w.Header().Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Hour).Unix()))
		http.Error(w, `{"message": "API rate limit exceeded"}`, http.StatusForbidden)
	case r.Header.Get("Authorization") != "Bearer canary-7f3a":
		http.Error(w, `{"message": "Bad credentials"}`, http.StatusUnauthorized)
	case r.URL.Path == "/api/v3/repos/acme/shop/pulls":
		list, own := []any{}, map[string]any{"full_name": "acme/shop"}
		for _, number := range h.pulls {
			list = append(list, map[string]any{"number": number, "head": map[string]any{"ref": "b", "sha": "abc", "repo": own}, "base": map[string]any{"ref": "main", "repo": own}, "user": map[string]any{"login": "ann"}})
		}
		tag := fmt.Sprintf("%q", fmt.Sprint(h.pulls))
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			h.requests[len(h.requests)-1] += " unchanged"
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_ = json.NewEncoder(w).Encode(list)
	case r.URL.Path == "/api/v3/orgs/acme/repos":
		list := []any{}
		for _, name := range append([]string{"shop", "secret", "bank"}, h.created...) {
			list = append(list, map[string]any{"id": 1, "name": name, "default_branch": "main", "clone_url": h.URL + "/acme/" + name, "ssh_url": "ssh://git@localhost/acme/" + name})
		}
		_ = json.NewEncoder(w).Encode(list)
	case strings.HasSuffix(r.URL.Path, "/branches/main"):
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "main", "commit": map[string]any{"sha": "0123456789"}})
	case r.Method == http.MethodPost && r.URL.Path == "/api/v1/getparams.execute":
		var input struct {
			ApplicationSetName string
			Input              struct{ Parameters map[string]any }
		}
		_ = json.NewDecoder(r.Body).Decode(&input)
		_ = json.NewEncoder(w).Encode(map[string]any{"output": map[string]any{"parameters": []any{map[string]any{"name": input.ApplicationSetName + "-" + fmt.Sprint(input.Input.Parameters["key"])}}}})
	default:
		http.NotFound(w, r)
	}
}

// seen are the requests until now.
func (h *host) seen() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.requests...)
}

// change changes what it responds.
func (h *host) change(how func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	how()
}

// generatorSet is a set with one generator.
func (s *scene) generatorSet(namespace, project, generator, name string) {
	s.t.Helper()
	s.cluster.Apply(s.t, namespace, `
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: set}
spec:
  goTemplate: true
  goTemplateOptions: [missingkey=error]
  generators: [`+generator+`]
  syncPolicy: {preserveResourcesOnDeletion: true}
  template:
    metadata: {name: '`+name+`'}
    spec: {project: `+project+`, source: {repoURL: https://git/a, path: x}, destination: {namespace: x}}
`)
}

// team makes a project that may read repositories of acme at a host.
func (s *scene) team(at *host) {
	s.t.Helper()
	s.cluster.Apply(s.t, s.control, `
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: team}
spec: {sourceRepos: ['`+at.URL+`/acme/*', 'https://git/a'], sourceNamespaces: [`+s.tenant+`], destinations: [{server: 'https://kubernetes.default.svc', namespace: x}]}
`)
}

const tokenSecret = `{apiVersion: v1, kind: Secret, metadata: {name: token}, stringData: {key: canary-7f3a}}`

// Pull requests become Applications, with the token of a Secret beside the set,
// within what the project allows.
func TestPullRequestGenerator(t *testing.T) {
	s, at := newScene(t), serveHost(t)
	s.team(at)
	generator := func(owner, repository string) string {
		return "{pullRequest: {github: {owner: " + owner + ", repo: " + repository + ", api: '" + at.URL + "', tokenRef: {secretName: token, key: key}}}}"
	}
	const name = "pr-{{.number}}-{{.author}}"
	s.generatorSet(s.tenant, "team", generator("acme", "shop"), name)
	s.told(s.tenant, "ErrorOccurred", "True", "there is no Secret token in namespace "+s.tenant)
	s.cluster.Apply(t, s.tenant, tokenSecret)
	s.askAgain(s.tenant)
	s.awaits(s.tenant, "pr-1-ann,pr-2-ann")
	at.change(func() { at.pulls = []int{2, 3} })
	s.askAgain(s.tenant)
	s.awaits(s.tenant, "pr-2-ann,pr-3-ann")
	// Another repository is not requested at all.
	before := len(at.seen())
	s.generatorSet(s.tenant, "team", generator("other", "shop"), name)
	s.told(s.tenant, "ErrorOccurred", "True", "spec.sourceRepos")
	if after := len(at.seen()); after != before {
		t.Errorf("%d requests were sent: %v", after-before, at.seen()[before:])
	}
	s.awaits(s.tenant, "pr-2-ann,pr-3-ann")
	s.generatorSet(s.tenant, "team", generator("acme", "gone"), name)
	set := s.told(s.tenant, "ErrorOccurred", "True", "GitHub does not find it")
	if strings.Contains(fmt.Sprint(set.Object), "canary") {
		t.Errorf("the set has the token: %v", set.Object["status"])
	}
	// A limit of requests is kept until its end.
	at.change(func() { at.limited = true })
	s.generatorSet(s.tenant, "team", generator("acme", "shop"), name)
	s.told(s.tenant, "ErrorOccurred", "True", "allows no more requests")
	before = len(at.seen())
	s.askAgain(s.tenant)
	if after := len(at.seen()); after != before {
		t.Errorf("%d requests were sent", after-before)
	}
	s.awaits(s.tenant, "pr-2-ann,pr-3-ann")
}

// A GitHub App lists pull requests with a token of its installation.
func TestPullRequestsOfGitHubApp(t *testing.T) {
	s, at := newScene(t), serveHost(t)
	s.team(at)
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	issuer := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/api/v3/app/installations/7/access_tokens" || strings.Count(r.Header.Get("Authorization"), ".") != 2 {
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"token": "canary-7f3a", "expires_at": time.Now().Add(time.Hour)})
	}))
	t.Cleanup(issuer.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issuer.Certificate().Raw})
	s.credentials.SetCertificateAuthorities(map[string]string{strings.TrimPrefix(issuer.URL, "https://"): string(authority)})
	s.generatorSet(s.tenant, "team", "{pullRequest: {github: {owner: acme, repo: shop, api: '"+at.URL+"', appSecretName: app}}}", "pr-{{.number}}")
	s.told(s.tenant, "ErrorOccurred", "True", "there is no Secret app in namespace "+s.tenant)
	s.cluster.Apply(t, s.tenant, `{apiVersion: v1, kind: Secret, metadata: {name: app}, stringData: {githubAppID: "1"}}`)
	s.askAgain(s.tenant)
	s.told(s.tenant, "ErrorOccurred", "True", "the Secret app: ")
	text := must.Get(json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))))(t)
	s.cluster.Apply(t, s.tenant, `{apiVersion: v1, kind: Secret, metadata: {name: app}, stringData: {githubAppID: "1", githubAppInstallationID: "7", githubAppEnterpriseBaseUrl: "`+issuer.URL+`/api/v3", githubAppPrivateKey: `+string(text)+`}}`)
	s.askAgain(s.tenant)
	s.awaits(s.tenant, "pr-1,pr-2")
}

// Repositories of an organization become Applications, but for those that the
// project does not allow.
func TestSCMProviderGenerator(t *testing.T) {
	s, at := newScene(t), serveHost(t)
	s.cluster.Apply(t, s.control, `
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: team}
spec: {sourceRepos: ['`+at.URL+`/acme/*', '!`+at.URL+`/acme/bank', 'https://git/a'], sourceNamespaces: [`+s.tenant+`], destinations: [{server: 'https://kubernetes.default.svc', namespace: x}]}
`)
	s.cluster.Apply(t, s.tenant, tokenSecret)
	generator := func(owner string) string {
		return "{scmProvider: {cloneProtocol: https, github: {organization: " + owner + ", api: '" + at.URL + "', tokenRef: {secretName: token, key: key}}, filters: [{repositoryMatch: '^(shop|bank)$'}]}}"
	}
	s.generatorSet(s.tenant, "team", generator("acme"), "{{.repository}}-{{.short_sha}}")
	s.awaits(s.tenant, "shop-01234567")
	for _, request := range at.seen() {
		if strings.Contains(request, "bank") || strings.Contains(request, "secret") {
			t.Errorf("a repository was read that is left out: %s", request)
		}
	}
	before := len(at.seen())
	s.generatorSet(s.tenant, "team", generator("other"), "{{.repository}}")
	s.told(s.tenant, "ErrorOccurred", "True", "spec.sourceRepos")
	if after := len(at.seen()); after != before {
		t.Errorf("%d requests were sent", after-before)
	}
}

// In the control namespace a project with limits uses Secrets of its own.
func TestTokenOfAnotherProject(t *testing.T) {
	s, at := newScene(t), serveHost(t)
	s.team(at)
	generator := "{pullRequest: {github: {owner: acme, repo: shop, api: '" + at.URL + "', tokenRef: {secretName: token, key: key}}}}"
	s.cluster.Apply(t, s.control, tokenSecret)
	s.generatorSet(s.control, "team", generator, "pr-{{.number}}")
	s.told(s.control, "ErrorOccurred", "True", "the Secret token is not for project team")
	if len(at.seen()) > 0 {
		t.Errorf("requests: %v", at.seen())
	}
	s.cluster.Apply(t, s.control, `{apiVersion: v1, kind: Secret, metadata: {name: token}, stringData: {key: canary-7f3a, project: team}}`)
	s.askAgain(s.control)
	s.awaits(s.control, "pr-1,pr-2")
}

// TestPluginAsDocumented: a ConfigMap of the control namespace has the address,
// and argocd-secret the token.
func TestPluginAsDocumented(t *testing.T) {
	s, at := newScene(t), serveHost(t)
	s.team(at)
	s.cluster.Apply(t, s.control, `
apiVersion: v1
kind: ConfigMap
metadata: {name: my-plugin}
data: {baseUrl: '`+at.URL+`/', token: '$plugin.token', requestTimeout: "60"}
---
apiVersion: v1
kind: Secret
metadata: {name: argocd-secret}
stringData: {plugin.token: canary-7f3a}
`)
	const generator = "{plugin: {configMapRef: {name: my-plugin}, input: {parameters: {key: one}}}}"
	s.generatorSet(s.control, "default", generator, "{{.name}}")
	s.awaits(s.control, "set-one")
	before := len(at.seen())
	s.generatorSet(s.tenant, "team", generator, "{{.name}}")
	s.told(s.tenant, "ErrorOccurred", "True", "spec.sourceRepos")
	if after := len(at.seen()); after != before {
		t.Errorf("the plugin of others was requested: %v", at.seen()[before:])
	}
	s.patch(s.sets(s.control), "set", `{"spec": {"generators": [{"plugin": {"configMapRef": {"name": "gone"}}}]}}`)
	s.told(s.control, "ErrorOccurred", "True", "the control namespace has no ConfigMap gone with the keys baseUrl, token")
	s.awaits(s.control, "set-one")
}

// TestConfigMapsOfOthersAreNotRevealed: the author of a set cannot find out which ConfigMaps
// the control namespace has.
func TestConfigMapsOfOthersAreNotRevealed(t *testing.T) {
	s, at := newScene(t), serveHost(t)
	s.team(at)
	s.cluster.Apply(t, s.control, `{apiVersion: v1, kind: ConfigMap, metadata: {name: other}, data: {key: canary-7f3a}}`)
	for _, generator := range []string{"{plugin: {configMapRef: {name: NAME}}}", "{clusterDecisionResource: {configMapRef: NAME, name: duck}}"} {
		for _, name := range []string{"other", "gone"} {
			s.generatorSet(s.tenant, "team", strings.ReplaceAll(generator, "NAME", name), "{{.name}}")
			s.told(s.tenant, "ErrorOccurred", "True", "the control namespace has no ConfigMap "+name+" with the keys ")
		}
	}
}

// TestClusterDecisionsAsDocumented: clusters that an object lists in its status
// and that exist become Applications.
func TestClusterDecisionsAsDocumented(t *testing.T) {
	s := newScene(t)
	s.cluster.Apply(t, s.control, `
apiVersion: v1
kind: ConfigMap
metadata: {name: my-configmap}
data: {apiVersion: argoproj.io/v1alpha1, kind: applications, statusListKey: resources, matchKey: name}
---
apiVersion: v1
kind: Secret
metadata: {name: remote, labels: {argocd.argoproj.io/secret-type: cluster}}
stringData: {name: remote, server: "https://remote.example.com"}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: duck}
spec: {project: default, source: {repoURL: https://git/b, path: z}, destination: {namespace: z}}
`)
	s.patch(s.applications(s.control), "duck", `{"status": {"resources": [{"kind": "Cluster", "name": "remote"}, {"kind": "Cluster", "name": "unknown"}, {"kind": "Cluster", "name": "in-cluster"}]}}`)
	const generator = "{clusterDecisionResource: {configMapRef: my-configmap, name: duck}}"
	s.generatorSet(s.control, "default", generator, "{{.name}}-{{.kind | lower}}")
	s.awaits(s.control, "duck,in-cluster-cluster,remote-cluster")
	// A tenant sees the clusters of the project.
	at := serveHost(t)
	s.team(at)
	s.generatorSet(s.tenant, "team", generator, "{{.name}}")
	s.awaits(s.tenant, "in-cluster")
	s.generatorSet(s.tenant, "team", strings.Replace(generator, "duck", "gone", 1), "{{.name}}")
	s.told(s.tenant, "ErrorOccurred", "True", "there is no object of applications.argoproj.io")
	must.Get(s.applications(s.tenant).Get(t.Context(), "in-cluster", metav1.GetOptions{}))(t)
}

// Requests of webhooks regenerate the sets that list what was changed, and no
// others. A list that is the same is not sent again.
func TestHostWebhooks(t *testing.T) {
	s, at := newScene(t), serveHost(t)
	s.team(at)
	s.cluster.Apply(t, s.tenant, tokenSecret)
	pulls := "{pullRequest: {github: {owner: acme, repo: shop, api: '" + at.URL + "', tokenRef: {secretName: token, key: key}}}}"
	s.generatorSet(s.tenant, "team", pulls, "pr-{{.number}}")
	s.awaits(s.tenant, "pr-1,pr-2")
	s.settled(s.tenant, 2)
	at.change(func() { at.pulls = []int{2, 3} })
	changed := func(push webhook.Push, repository string) webhook.Push {
		push.RepositoryURLs = []string{at.URL + "/" + repository + ".git"}
		return push
	}
	// Neither a push nor another repository is a change of its pull requests.
	before := len(at.seen())
	s.controller.Refresh(changed(webhook.Push{}, "acme/shop"))
	s.controller.Refresh(changed(webhook.Push{PullRequest: true}, "acme/bank"))
	s.controller.Refresh(changed(webhook.Push{PullRequest: true}, "acme/shop"))
	s.awaits(s.tenant, "pr-2,pr-3")
	s.settled(s.tenant, 2)
	if got := at.seen()[before:]; len(got) != 1 {
		t.Errorf("the requests are %q", got)
	}
	s.askAgain(s.tenant)
	if got := at.seen(); !strings.HasSuffix(got[len(got)-1], " unchanged") {
		t.Errorf("the last request is %q", got[len(got)-1])
	}
	s.awaits(s.tenant, "pr-2,pr-3")

	s.generatorSet(s.tenant, "team", "{scmProvider: {cloneProtocol: https, github: {organization: acme, api: '"+at.URL+"', tokenRef: {secretName: token, key: key}}}}", "{{.repository}}")
	s.awaits(s.tenant, "bank,secret,shop")
	s.settled(s.tenant, 3)
	at.change(func() { at.created = []string{"new"} })
	s.controller.Refresh(changed(webhook.Push{PullRequest: true}, "acme/new"))
	s.controller.Refresh(changed(webhook.Push{}, "acme/new"))
	s.awaits(s.tenant, "bank,new,secret,shop")
}
