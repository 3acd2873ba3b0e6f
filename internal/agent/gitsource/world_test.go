package gitsource_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	argo "slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/agent"
	"slipway.dev/slipway/internal/agent/appproxy"
	"slipway.dev/slipway/internal/agent/gitsource"
	"slipway.dev/slipway/internal/agent/integration"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// patience bounds what a test waits for.
const patience = 90 * time.Second

// Tokens that must not be seen anywhere. The Git server refuses pushes with
// readToken.
const (
	runtimeToken = "ghp_canary0runtime"
	adaToken     = "ghp_canary0ada"
	readToken    = "ghp_canary0read"
)

func TestMain(m *testing.M) { argotest.Main(m, func(m *testing.M) { kubetest.Main(m) }) }

// world is a runtime in a cluster, with a provider whose repositories are real.
type world struct {
	*kubetest.Cluster
	namespace    string
	provider     *providertest.Server
	git          *gittest.Server
	home         *sharedrepo.Controller
	integrations *integration.Service
	proxy        *appproxy.Service
	service      *gitsource.Service
	client       runtimev1connect.GitSourceServiceClient
	settings     *platformv1.GitSettings
	chart        sharedrepo.Chart
	log          *programs.Output

	mu   sync.Mutex
	made map[string]*gittest.Repository
}

// newWorld makes a runtime whose Shared Configuration Repository does not exist.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Cluster: kubetest.Shared(t), log: &programs.Output{}, made: map[string]*gittest.Repository{}}
	w.namespace = w.Namespace(t)
	argotest.Install(t, w.Cluster)
	w.git = gittest.Serve(t, gittest.BasicAuth("x-access-token", runtimeToken), gittest.MorePasswords(map[string]bool{adaToken: true, readToken: false}))
	w.provider = providertest.Start(t, gitprovider.GitHub, providertest.World{
		Owners:       map[string]string{"team": "Organization"},
		Repositories: []providertest.Repository{{Path: "team/apps", Private: true}, {Path: "team/guestbook", Private: true}},
		Tokens: []providertest.Token{{
			Value: runtimeToken, Login: "robot", UserID: 1, Scopes: []string{"repo", "admin:repo_hook"}, Roles: map[string]string{"team": "admin"},
		}, {
			Value: adaToken, Login: "ada", UserID: 2, Scopes: []string{"repo"}, Roles: map[string]string{"team": "write"},
		}, {
			Value: readToken, Login: "ada", UserID: 2, Scopes: []string{"repo"}, Roles: map[string]string{"team": "write"},
		}},
	})
	w.provider.Git = w.passOn(t)
	w.provider.Created = func(path string) {
		made := w.git.Repository(t, path, map[string]string{"x": "x"})
		made.DeleteBranch(t, gittest.Main)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.made[path] = made
	}
	w.settings = &platformv1.GitSettings{Provider: "github", ApiUrl: w.provider.APIURL, SharedRepository: w.provider.URL + "/team/config.git/slipway?ref=live"}
	log := slog.New(slog.NewTextHandler(w.log, nil))
	settings := func() *platformv1.GitSettings { return w.settings }
	w.integrations = integration.New(integration.Options{
		Cluster: w.Cluster.Cluster, Namespace: w.namespace, Runtime: "demo", Settings: settings, Log: log,
		Changed: func() { w.home.Changed() },
	})
	w.home = sharedrepo.NewController(sharedrepo.ControllerOptions{
		Cluster: w.Cluster.Cluster, Namespace: w.namespace, Runtime: "demo", Settings: settings, Log: log, Folder: t.TempDir(),
		Access: w.integrations.RuntimeAccess, UserAccess: w.integrations.UserAccess, Create: w.integrations.CreateRepository,
		Chart: func(context.Context) (sharedrepo.Chart, error) { return w.chart, nil },
	})
	w.proxy = appproxy.New(appproxy.Options{Cluster: w.Cluster.Cluster, ControlNamespace: w.namespace, Log: log, Rights: w.policy})
	w.service = gitsource.New(gitsource.Options{
		SharedRepository: w.home, Integrations: w.integrations, Rights: w.proxy, WebhookSecret: "argocd-secret", Log: log,
		WebhookURL: func(source string) string { return "https://hooks.example.com/webhooks/demo/" + source },
	})
	w.client = w.serve(t, permission.RoleAdmin)
	return w
}

// passOn hands requests to the Git server.
func (w *world) passOn(t *testing.T) http.Handler {
	t.Helper()
	base := w.git.Repository(t, "probe", map[string]string{"x": "x"}).URL()
	target := must.Get(url.Parse(strings.TrimSuffix(base, "/probe.git")))(t)
	return httputil.NewSingleHostReverseProxy(target)
}

// until asks again until there is no error.
func (w *world) until(t *testing.T, ask func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := programs.Await(ctx, ask); err != nil {
		t.Fatalf("%v\n%s", err, w.log)
	}
}

// serve is a client of Ada, who has a role and groups.
func (w *world) serve(t *testing.T, role string, groups ...string) runtimev1connect.GitSourceServiceClient {
	t.Helper()
	mux := http.NewServeMux()
	for path, handler := range w.service.Handlers() {
		mux.Handle(path, handler)
	}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(out, r.WithContext(w.ada(r.Context(), role, groups...)))
	}))
	t.Cleanup(server.Close)
	return runtimev1connect.NewGitSourceServiceClient(server.Client(), server.URL)
}

// ada is the context of a request of Ada.
func (w *world) ada(ctx context.Context, role string, groups ...string) context.Context {
	return token.WithClaims(ctx, wire.RuntimeClaims{UserID: "ada", Name: "Ada Lovelace", Email: "ada@example.com", Role: role, Groups: groups})
}

// credentials sets those of the runtime.
func (w *world) credentials(t *testing.T, more *runtimev1.SetRuntimeCredentialsRequest) {
	t.Helper()
	more.Token, more.CertificateAuthorities = runtimeToken, string(w.provider.CA)
	must.Get(w.integrations.SetRuntimeCredentials(w.ada(t.Context(), permission.RoleAdmin), connect.NewRequest(more)))(t)
}

// repository makes one at the provider, with files.
func (w *world) repository(t *testing.T, path string, files map[string]string) (*gittest.Repository, string) {
	t.Helper()
	return w.git.Repository(t, path, files), w.provider.URL + "/" + path + ".git"
}

// shared is the Shared Configuration Repository.
func (w *world) shared(t *testing.T) *gittest.Repository {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.made["team/config"] == nil {
		t.Fatal("the Shared Configuration Repository was not made")
	}
	return w.made["team/config"]
}

// runAgent runs the engine until the end of the test.
func (w *world) runAgent(t *testing.T) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() {
		ended <- agent.Run(ctx, agent.Options{
			Cluster: w.Cluster.Cluster, ControlNamespace: w.namespace, Interval: 2 * time.Second, Workers: 4,
			FetchTimeout: 20 * time.Second, Render: render.Options{Workers: 1}, Webhooks: listener, WebhookSecret: "argocd-secret",
			Log: slog.New(slog.NewTextHandler(w.log, nil)), Metrics: agent.NewMetrics(observe.NewMetrics("test", "test")), Health: &observe.Health{},
		})
	}()
	go func() { ended <- w.home.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
		}
		if t.Failed() {
			programs.ShowLog(t, "the runtime", w.log.String())
		}
	})
}

// synced waits until an Application is Synced and Healthy.
func (w *world) synced(t *testing.T, name string) *argo.Application {
	t.Helper()
	var last *argo.Application
	w.until(t, func(ctx context.Context) error {
		found, err := w.home.Applications().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if last, _, err = argo.Decode(found.Object); err != nil {
			return err
		}
		if last.Status.Sync.Status != argo.SyncSynced || last.Status.Health.Status != argo.Healthy {
			return fmt.Errorf("%s is %s and %s: %v", name, last.Status.Sync.Status, last.Status.Health.Status, last.Status.Conditions)
		}
		return nil
	})
	return last
}

// gone waits until an Application is not there.
func (w *world) gone(t *testing.T, name string) {
	t.Helper()
	w.until(t, func(ctx context.Context) error {
		_, err := w.home.Applications().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%s is there: %w", name, err)
	})
}

// configMap wants a ConfigMap to be there.
func (w *world) configMap(t *testing.T, name string) map[string]string {
	t.Helper()
	found := must.Get(w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
	return found.Data
}

// refused checks that a call returned an error with a code and some words.
func refused(t *testing.T, err error, code connect.Code, words ...string) {
	t.Helper()
	if connect.CodeOf(err) != code {
		t.Errorf("the answer is %v, not %s", err, code)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the answer %q does not say %q", err, word)
		}
	}
}
