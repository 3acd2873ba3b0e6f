package runtime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// testPostgres is everything, with PostgreSQL.
func (s *suite) testPostgres(t *testing.T) {
	g := s.newStage(t, postgresPlace(t))
	g.east, g.west = g.newMember(t, "east", s.east), g.newMember(t, "west", s.west)
	g.play(t, []act{
		{"join", g.testJoin}, {"git", g.testGit}, {"operate", g.testOperate}, {"argocd", g.testArgoCD}, {"push", g.testPush}, {"isolation", g.testIsolation},
		{"cluster", g.testCluster}, {"away", g.testAway}, {"crawl", g.testCrawl}, {"revoke", g.testRevoke}, {"modes", g.testModes},
		{"secrets", g.testSecrets}, {"uninstall", g.testUninstall}, {"delete", g.testDelete},
	})
}

// testSQLite is the life of a runtime, with SQLite.
func (s *suite) testSQLite(t *testing.T) {
	g := s.newStage(t, sqlitePlace(t))
	g.east, g.west = g.newMember(t, "east", s.east), g.newMember(t, "west", s.west)
	g.play(t, []act{
		{"join", g.testJoin}, {"git", g.testGit}, {"team", g.testTeam}, {"operate", g.testOperate}, {"push", g.testPush}, {"promotion", g.testPromotion},
		{"isolation", g.testIsolation}, {"cluster", g.testCluster}, {"away", g.testAway}, {"revoke", g.testRevoke}, {"secrets", g.testSecrets}, {"uninstall", g.testUninstall},
	})
}

// act is a part of a scene. It finds what the acts before it have left.
type act struct {
	name string
	test func(*testing.T)
}

// play plays the acts until one fails: those after it would show nothing.
func (g *stage) play(t *testing.T, acts []act) {
	t.Helper()
	for _, one := range acts {
		if !t.Run(one.name, one.test) {
			t.Fatalf("without %s there is nothing more to see", one.name)
		}
	}
}

// R50, R61, R63, R119: two agents join with keys that can do nothing else, through
// the tunnel, which needs no option; the platform has them online, with their pending
// steps, and the first is the configuration runtime. R43: the host of the tunnel has
// the account and the name. R33, R47: a name is one runtime's.
func (g *stage) testJoin(t *testing.T) {
	for _, m := range []*member{g.east, g.west} {
		found := m.await(t, online)
		if found.GetAccessMode() != platformv1.AccessMode_ACCESS_MODE_TUNNEL || found.GetCluster() != m.name || found.GetNamespace() != m.namespace ||
			found.GetKubernetesVersion() == "" || found.GetVersion() == "" {
			t.Errorf("the runtime is %v", found)
		}
		if found.GetInstallation() == platformv1.InstallationStatus_INSTALLATION_STATUS_COMPLETED || len(found.GetPendingSteps()) == 0 {
			t.Errorf("the installation of %s is %s with %v to do", m.name, found.GetInstallation(), found.GetPendingSteps())
		}
		m.reached(t)
	}
	list := mustMessage(g.admin.runtimes.ListRuntimes(t.Context(), connect.NewRequest(&platformv1.ListRuntimesRequest{})))(t).GetRuntimes()
	first := slices.IndexFunc(list, (*platformv1.Runtime).GetConfigurationRuntime)
	if len(list) != 2 || first < 0 || list[1-first].GetConfigurationRuntime() {
		t.Errorf("the runtimes are %v", list)
	}
	check := mustMessage(g.admin.runtimes.CheckName(t.Context(), connect.NewRequest(&platformv1.CheckNameRequest{Name: "east"})))(t)
	if check.GetFree() || check.GetProposal() == "" {
		t.Errorf("the name of a runtime is told as %v", check)
	}
	rename := "other"
	_, err := g.admin.runtimes.UpdateRuntime(t.Context(), connect.NewRequest(&platformv1.UpdateRuntimeRequest{Name: "east", NewName: &rename}))
	if err == nil {
		t.Error("a runtime got another name")
	}
}

// R6, R56, R60, R64, R65, R66, R68, R70, R72, R74, R79: with the account's Git
// settings, which are given once, the token of both runtimes and the authority of the
// Git server, a user's token, a login with the provider, the Shared Configuration
// Repository that is made and seeded, and a Git Source whose applications become live,
// all through the platform.
func (g *stage) testGit(t *testing.T) {
	h := g.git
	for _, m := range []*member{g.east, g.west} {
		m.credentials(t)
	}
	g.east.login(t)
	g.canary("the SSH key", strings.Split(strings.TrimSpace(h.ssh.PrivateKey()), "\n")[1])

	repository := h.git.Repository(t, "team/apps", map[string]string{
		"apps/web.yaml":     applicationManifest("web", h.folder("app"), inCluster, g.east.target),
		"app/settings.yaml": settings("first"), "small/settings.yaml": settings("first"), "app/web.yaml": workload, "app/secret.yaml": g.secretManifest(),
	})
	h.apps = repository
	answer := mustMessage(g.admin.of("east").gitSources.CreateGitSource(t.Context(), connect.NewRequest(&runtimev1.CreateGitSourceRequest{
		GitSource: &runtimev1.GitSource{Name: "apps", RepoUrl: h.url("team/apps"), Path: "apps"}, RegisterWebhook: true,
	})))(t)
	if answer.GetWebhookProblem() != "" || answer.GetCommit() == "" {
		t.Errorf("the Git Source is %v", answer)
	}
	// The admin's own token pushed it, and the admin is the committer.
	h.written(t, answer.GetCommit(), adminEmail, adminEmail, oauthToken)
	hooks := h.provider.Hooks("team/apps")
	// The address has the port of the platform's public URL.
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(g.url, "https://"))
	want := fmt.Sprintf("https://%s-east.%s:%s/webhooks/east/apps", g.account, tunnelDomain, port)
	if len(hooks) != 1 || hooks[0].URL != want || hooks[0].Secret == "" {
		t.Fatalf("the webhooks are %v, want %s", hooks, want)
	}
	g.canary("the secret of webhooks", hooks[0].Secret)
	g.east.awaitListed(t, "web", repository.Head(t))
}

// credentials gives the runtime its Git credentials, as soon as it knows of the
// account's settings.
func (m *member) credentials(t *testing.T) {
	t.Helper()
	h := m.stage.git
	services := m.stage.admin.of(m.name).integrations
	programs.Eventually(t, func(ctx context.Context) error {
		answer, err := message(services.SetRuntimeCredentials(ctx, connect.NewRequest(&runtimev1.SetRuntimeCredentialsRequest{
			Token: h.runtimeToken, CertificateAuthorities: string(h.provider.CA), SshPrivateKey: h.ssh.PrivateKey(), KnownHosts: h.ssh.KnownHosts(),
		})))
		if err == nil && answer.GetStatus().GetState() != "ok" {
			err = fmt.Errorf("the token is %v", answer.GetStatus())
		}
		return err
	})
	if status := mustMessage(services.GetRuntimeCredentials(t.Context(), connect.NewRequest(&runtimev1.GetRuntimeCredentialsRequest{Check: true})))(t); !status.GetConfigured() || !status.GetSsh() {
		t.Errorf("the credentials are %v", status)
	}
	for _, suffix := range []string{"shared", "in-cluster"} {
		m.awaitListed(t, m.name+"-"+suffix, "")
	}
}

// login gives the runtime two tokens of the admin: one that is pasted, and then one
// of a login with the provider.
func (m *member) login(t *testing.T) {
	t.Helper()
	g := m.stage
	services := g.admin.of(m.name).integrations
	status := mustMessage(services.Register(t.Context(), connect.NewRequest(&runtimev1.RegisterRequest{Token: g.git.userToken})))(t).GetStatus()
	if status.GetState() != "ok" || status.GetLogin() != "ada" {
		t.Errorf("the token of the user is %v", status)
	}
	m.cluster.Apply(t, m.namespace, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: slipway-oauth-github}\nstringData: {clientId: slipway, clientSecret: %s}\n",
		g.canaries["the secret of the OAuth application"]))
	begun := mustMessage(services.BeginOAuth(t.Context(), connect.NewRequest(&runtimev1.BeginOAuthRequest{RedirectUrl: g.url + "/git/callback"})))(t)
	code := must.Get(g.git.agree(t, begun.GetUrl()))(t)
	status = mustMessage(services.FinishOAuth(t.Context(), connect.NewRequest(&runtimev1.FinishOAuthRequest{State: begun.GetState(), Code: code})))(t).GetStatus()
	if status.GetState() != "ok" || status.GetLogin() != "ada" {
		t.Errorf("the token of the login is %v", status)
	}
}

// agree is what a browser does at the provider.
func (h *gitHost) agree(t *testing.T, address string) (code string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	response, err := h.client().RoundTrip(request)
	if err != nil {
		return "", err
	}
	_ = response.Body.Close()
	back, err := url.Parse(response.Header.Get("Location"))
	if err != nil || back.Host == "" {
		return "", errors.Join(err, fmt.Errorf("the browser is not sent back: %s", response.Status))
	}
	return back.Query().Get("code"), nil
}

// settings is a ConfigMap with a value.
func settings(value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {value: %q}\n", value)
}

// workload is a Deployment whose Pods write a log.
const workload = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "slipway.dev/demo:v1", ports: [{containerPort: 8080}]}]
`

// secretManifest is a Secret of an application, whose data no other component may have.
func (g *stage) secretManifest() string {
	data := g.canary("the data of an application's Secret", "canary0secret0data0of0an0application")
	return "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData: {password: " + data + "}\n"
}

// value is the value of an application's ConfigMap in a cluster.
func (m *member) value(ctx context.Context) (string, error) {
	return valueIn(ctx, m.cluster, m.target)
}

// valueIn is the value of the ConfigMap settings in a namespace.
func valueIn(ctx context.Context, cluster *kubetest.Cluster, namespace string) (string, error) {
	found, err := cluster.Client.CoreV1().ConfigMaps(namespace).Get(ctx, "settings", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return found.Data["value"], nil
}
