package runtimecmd_test

import (
	"context"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/cli/agentcmd"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const gitToken = "ghp_canary0runtime0token0000000000000000"

// gitAccount is a Git provider with the Shared Configuration Repository of an
// account: its API is strict, and its repository is real.
type gitAccount struct {
	provider   *providertest.Server
	repository *gittest.Repository
	from       string
	access     remote.Access
}

func newGitAccount(t *testing.T) *gitAccount {
	t.Helper()
	git := gittest.Serve(t, gittest.BasicAuth("x-access-token", gitToken))
	g := &gitAccount{repository: git.Repository(t, "team/config", map[string]string{"README.md": "ours\n"})}
	g.provider = providertest.Start(t, gitprovider.GitHub, providertest.World{
		Owners:       map[string]string{"team": "Organization"},
		Repositories: []providertest.Repository{{Path: "team/config", Private: true}},
		Tokens:       []providertest.Token{{Value: gitToken, Login: "robot", UserID: 1, Scopes: []string{"repo", "admin:repo_hook"}, Roles: map[string]string{"team": "admin"}}},
	})
	target := must.Get(url.Parse(strings.TrimSuffix(g.repository.URL(), "/team/config.git")))(t)
	g.provider.Git = httputil.NewSingleHostReverseProxy(target)
	g.from = g.provider.URL + "/team/config.git"
	g.access = remote.Access{Credential: credential.Credential{Password: secret.New(gitToken)}, Authorities: []byte(g.provider.CA)}
	return g
}

// leave writes what a runtime keeps in the repository when it is an Application of
// itself, with the runtime's own code, and a Git Source.
func (w *releaseWorld) leave(t *testing.T, g *gitAccount, name, values string) {
	t.Helper()
	clitest.InstallDefinitions(t, w.cluster)
	file := filepath.Join(t.TempDir(), "values.yaml")
	clitest.WriteFile(t, file, values)
	home := sharedrepo.NewController(sharedrepo.ControllerOptions{
		Cluster: w.cluster.Cluster, Runtime: name, Namespace: w.cluster.Namespace(t), Folder: t.TempDir(),
		Settings: func() *platformv1.GitSettings { return &platformv1.GitSettings{SharedRepository: g.from} },
		Access:   func(context.Context, string) (remote.Access, error) { return g.access, nil },
		Chart:    agentcmd.RuntimeChart(config.RuntimeSelf{ChartRepository: "oci://charts.example.com", ChartVersion: "0.1.0", ValuesFile: file}),
	})
	if _, _, err := home.Configure(t.Context()); err != nil {
		t.Fatal(err)
	}
	source := must.Get(sharedrepo.Manifest{
		Name: "apps", Runtime: name, Entity: sharedrepo.EntityGitSource,
		Source:      map[string]any{"repoURL": g.from, "targetRevision": "HEAD", "path": "."},
		Destination: sharedrepo.Destination{Namespace: w.namespace},
	}.YAML())(t)
	g.repository.Commit(t, map[string]string{sharedrepo.GitSourceFile(name, "apps"): string(source)}, "a Git Source")
}

// TestRuntimeRestore: R117: a runtime whose cluster is lost comes back on a new one,
// with the values that are in Git, under its name, and takes its Git Sources back. One
// that is online is refused.
func TestRuntimeRestore(t *testing.T) {
	w := newReleaseWorld(t, "slipway")
	g := newGitAccount(t)
	w.Must(t, "account git set --provider github --api-url "+g.provider.APIURL+" --shared-repository "+g.from)
	w.leave(t, g, "prod", "global: {platform: {url: "+w.Url+", accountId: "+clitest.AccountOf(t, w.PlatformWorld)+", userToken: {token: slw_secret_of_before}}, runtime: {name: prod}}\nedge: {replicas: 1}\ninstaller: {skipValidation: true}\n")
	w.Registered(t, "prod")                                      // it has been silent since
	clitest.Beat(t, w.Registered(t, "busy"), pendingHeartbeat()) // and this one is online
	clitest.WriteFile(t, filepath.Join(w.Home, "token"), gitToken)
	clitest.WriteFile(t, filepath.Join(w.Home, "ca.pem"), string(g.provider.CA))
	flags := " --from " + g.from + " --git-token-file token --git-ca-file ca.pem --create-key --skip-preflight --yes"

	w.ends(t, "runtime restore busy"+flags, 1, "the runtime busy is online in the cluster busy-cluster")
	w.ends(t, "runtime restore other"+flags, 1, "the repository has no runtime other: it has prod")
	w.ends(t, "runtime restore prod"+strings.Replace(flags, "config.git", "elsewhere.git", 1), 2, "the Shared Configuration Repository of the account is")
	w.ends(t, "runtime restore prod --dry-run"+flags, 0, "with chart 0.1.0 and the Git Sources apps", "forgets the old one of the cluster prod-cluster", "Nothing was changed")
	got := w.ends(t, "runtime restore prod"+flags, 0, "The runtime prod is restored.", "It takes its Applications back")
	if strings.Contains(got.Stdout+got.Stderr, gitToken) {
		t.Error("the Git token is shown")
	}
	if list := clitest.TrimLines(w.Must(t, "runtime get prod")); !strings.Contains(list, "Online: yes") || strings.Contains(list, "prod-cluster") {
		t.Errorf("the platform knows\n%s", list)
	}
	edge, err := w.cluster.Client.AppsV1().Deployments("slipway").Get(t.Context(), "slipway-edge", metav1.GetOptions{})
	if err != nil || *edge.Spec.Replicas != 1 {
		t.Errorf("the values of the repository are not used: %v, %v", edge, err)
	}
	w.awaitApplication(t, "apps")
	w.leavesNothing(t, g, "prod")
}

// leavesNothing: R113: with the flags the runtime takes its files out of the repository
// before it leaves, its Git Sources go, and an Application of a person stays.
func (w *releaseWorld) leavesNothing(t *testing.T, g *gitAccount, name string) {
	t.Helper()
	w.cluster.Apply(t, w.namespace, `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: default
  source: {repoURL: "https://git.example/shop.git", path: .}
  destination: {server: "https://kubernetes.default.svc", namespace: shop}
`)
	files := func() string { return g.repository.Git(t, "ls-tree", "-r", "--name-only", "HEAD") }
	if before := files(); !strings.Contains(before, sharedrepo.GitSourceFile(name, "apps")) {
		t.Fatalf("the repository has no Git Source before:\n%s", before)
	}
	w.ends(t, "runtime uninstall "+name+" --git-sources --clean-shared-repository --yes", 0, "has cleaned up and left", "The runtime "+name+" is uninstalled.")
	for file := range strings.Lines(files()) {
		if strings.Contains(file, "/"+name+"/") || strings.Contains(file, name+".yaml") {
			t.Errorf("the repository still has %s", file)
		}
	}
	left := must.Get(w.cluster.Dynamic.Resource(clitest.Applications).Namespace(w.namespace).List(t.Context(), metav1.ListOptions{}))(t)
	if len(left.Items) != 1 || left.Items[0].GetName() != "shop" {
		t.Errorf("of the Applications are left %v", left.Items)
	}
}

// awaitApplication waits until the runtime has made an Application of the repository.
func (w *releaseWorld) awaitApplication(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), releasePatience)
	defer cancel()
	for {
		watch := must.Get(w.cluster.Dynamic.Resource(clitest.Applications).Namespace(w.namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name}))(t)
		_, there := <-watch.ResultChan()
		watch.Stop()
		if there {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("there is no Application %s", name)
		}
	}
}
