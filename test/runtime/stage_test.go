package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

const adminEmail = "admin@example.com"

// stage is a platform with its runtimes and its Git provider.
type stage struct {
	*suite
	// t is the test of the whole scene: what an act starts outlives it.
	t        *testing.T
	at       place
	url      string
	answers  *recorder
	platform *programs.Process
	admin    *caller
	adminKey string
	account  string
	git      *gitHost
	east     *member
	west     *member

	// processes are all that ever ran, and canaries what must be seen nowhere.
	mu        sync.Mutex
	processes []*programs.Process
	canaries  map[string]string
}

// member is a runtime.
type member struct {
	stage   *stage
	name    string
	cluster *kubetest.Cluster
	// namespace is the control namespace, and target where applications go.
	namespace, target string
	state             string
	router            string
	process           *programs.Process
}

// newStage starts a platform with an admin.
func (s *suite) newStage(t *testing.T, at place) *stage {
	t.Helper()
	address := freeAddress(t, "127.0.0.1")
	g := &stage{suite: s, t: t, at: at, url: "https://" + address, answers: newRecorder(s.authority, address), canaries: map[string]string{}}
	g.startPlatform(t)
	chosen := g.canary("the password of the admin", "canary0password0of0the0admin")
	g.adminKey = g.firstKey(t, adminEmail, g.oneTimePassword(t), chosen)
	g.admin = g.with(g.adminKey)
	g.account = mustMessage(g.admin.accounts.GetAccount(t.Context(), connect.NewRequest(&platformv1.GetAccountRequest{})))(t).GetAccount().GetId()
	g.git = newGitHost(t, g)
	mustMessage(g.admin.git.SetGitSettings(t.Context(), connect.NewRequest(&platformv1.SetGitSettingsRequest{Settings: &platformv1.GitSettings{
		Provider: "github", ApiUrl: g.git.provider.APIURL, SharedRepository: g.git.url("team/config") + "/slipway?ref=live",
	}})))(t)
	return g
}

// canary keeps a secret that must be seen nowhere, and gives it.
func (g *stage) canary(name, value string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.canaries[name] = value
	return value
}

// runs keeps a process, to look at its log in the end.
func (g *stage) runs(p *programs.Process) *programs.Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.processes = append(g.processes, p)
	return p
}

// startPlatform runs the platform at its address until it listens.
func (g *stage) startPlatform(t *testing.T) {
	t.Helper()
	words := append([]string{
		"platform", "--log.format=json", "--log.level=debug", "--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0",
		"--server.address=" + strings.TrimPrefix(g.url, "https://"), "--server.publicURL=" + g.url,
		"--tls.certFile=" + g.authority.CertFile, "--tls.keyFile=" + g.authority.KeyFile,
		"--tunnel.domain=" + tunnelDomain, "--firstStart.email=" + adminEmail,
	}, g.at.args...)
	g.platform = g.runs(g.launch(g.t, "the platform", nil, words...))
	g.platform.Address(t, "platform")
}

// oneTimePassword is what the first start has printed.
func (g *stage) oneTimePassword(t *testing.T) string {
	t.Helper()
	return g.canary("the one-time password", g.platform.Password(t))
}

// newMember prepares a runtime in a cluster and starts its agent, which joins with
// a key that can do nothing else. Options replace those before them.
func (g *stage) newMember(t *testing.T, name string, cluster *kubetest.Cluster, options ...string) *member {
	t.Helper()
	m := &member{stage: g, name: name, cluster: cluster, namespace: cluster.Namespace(t), target: cluster.Namespace(t), state: filepath.Join(t.TempDir(), "state")}
	m.router = net.JoinHostPort(g.routerHost(cluster), "8088")
	if cluster == g.suite.west {
		m.router = freeAddress(t, "127.0.0.1")
	}
	key := g.scoped(t, name, platformv1.Scope_SCOPE_RUNTIME_REGISTER)
	writeFile(t, m.keyFile(), key)
	m.start(t, append([]string{"--access.mode=tunnel"}, options...)...)
	return m
}

// routerHost is an address of the Pods of a cluster that is not loopback, which
// an EndpointSlice may have.
func (g *stage) routerHost(cluster *kubetest.Cluster) string {
	bytes := cluster.PodNetwork.Addr().As4()
	bytes[3] = 250
	return net.IP(bytes[:]).String()
}

func (m *member) keyFile() string { return filepath.Join(filepath.Dir(m.state), "key") }

// start runs the agent. It may be far from joined.
func (m *member) start(t *testing.T, access ...string) {
	t.Helper()
	words := append([]string{
		"agent", "--log.format=json", "--log.level=debug", "--outbound.allow=127.0.0.1,::1", "--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0", "--webhooks.address=127.0.0.1:0",
		"--applications.controlNamespace=" + m.namespace, "--applications.pollInterval=1h", "--applications.pollJitter=0s",
		"--platform.url=" + m.stage.url, "--platform.accountID=" + m.stage.account, "--platform.caFile=" + m.stage.authority.CertFile,
		"--platform.keyFile=" + m.keyFile(), "--platform.stateDir=" + m.state,
		"--runtime.name=" + m.name, "--runtime.cluster=" + m.name, "--access.address=" + m.router,
	}, access...)
	environment := []string{"KUBECONFIG=" + m.cluster.Kubeconfig, "POD_NAMESPACE=" + m.namespace}
	m.process = m.stage.runs(m.stage.launch(m.stage.t, "the agent "+m.name, environment, words...))
}

// get is the runtime as the platform knows it.
func (m *member) get(ctx context.Context) (*platformv1.Runtime, error) {
	answer, err := message(m.stage.admin.runtimes.GetRuntime(ctx, connect.NewRequest(&platformv1.GetRuntimeRequest{Name: m.name})))
	return answer.GetRuntime(), err
}

// await waits until the platform knows what is wanted of the runtime.
func (m *member) await(t *testing.T, holds func(*platformv1.Runtime) error) (found *platformv1.Runtime) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) (err error) {
		if found, err = m.get(ctx); err != nil {
			return err
		}
		return holds(found)
	})
	return found
}

// online is nil for a runtime that gives signs of life.
func online(found *platformv1.Runtime) error {
	if !found.GetOnline() {
		return fmt.Errorf("the runtime %s is not online: %v", found.GetName(), found)
	}
	return nil
}

// reached waits until the runtime responds through the platform.
func (m *member) reached(t *testing.T) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) error {
		info, err := message(m.stage.admin.of(m.name).runtime.GetInfo(ctx, connect.NewRequest(&runtimev1.GetInfoRequest{})))
		if err == nil && info.GetName() != m.name {
			err = fmt.Errorf("the runtime %s answers", info.GetName())
		}
		return err
	})
}

// listed is an Application as the platform has it from reports; nil without one.
func (m *member) listed(ctx context.Context, name string) (*platformv1.Application, error) {
	answer, err := message(m.stage.admin.applications.ListApplications(ctx, connect.NewRequest(&platformv1.ListApplicationsRequest{Runtime: m.name})))
	for _, one := range answer.GetApplications() {
		if one.GetName() == name {
			return one, nil
		}
	}
	return nil, err
}

// awaitListed waits until the platform has an Application as Synced and Healthy,
// at a commit if one is given.
func (m *member) awaitListed(t *testing.T, name, commit string) *platformv1.Application {
	t.Helper()
	var found *platformv1.Application
	programs.Eventually(t, func(ctx context.Context) (err error) {
		found, err = m.listed(ctx, name)
		if err == nil && (found.GetSync() != "Synced" || found.GetHealth() != "Healthy" || (commit != "" && found.GetRevision() != commit)) {
			err = fmt.Errorf("the Application %s is %v, not Synced and Healthy at %q", name, found, commit)
		}
		return err
	})
	return found
}

// ref is an Application of the runtime.
func (m *member) ref(name string) *runtimev1.ApplicationRef {
	return &runtimev1.ApplicationRef{Namespace: m.namespace, Name: name}
}

// apply makes an Application that syncs by itself.
func (m *member) apply(t *testing.T, name string, source folder, server, target string) {
	t.Helper()
	m.cluster.Apply(t, m.namespace, applicationManifest(name, source, server, target))
}

const inCluster = "https://kubernetes.default.svc"

// folder is one of a repository.
type folder struct{ repository, path string }

func applicationManifest(name string, source folder, server, target string) string {
	return fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %s}
spec:
  project: default
  source: {repoURL: %q, path: %s, targetRevision: main}
  destination: {server: %q, namespace: %s}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`, name, source.repository, source.path, server, target)
}

// ask sends a request with a token, to any path of the platform.
func (g *stage) ask(t *testing.T, token, method, url, body string) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	return programs.Bearer(token, g.answers).RoundTrip(request)
}

// readState is everything that is below a folder, file by file.
func readState(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil // the process that it belongs to goes on, and removes temporary files
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
