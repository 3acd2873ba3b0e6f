package integration_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/agent/integration"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// Tokens that must not be seen anywhere.
const (
	runtimeToken = "ghp_canary0runtime"
	adaToken     = "ghp_canary0ada"
	bobToken     = "ghp_canary0bob"
	weakToken    = "ghp_canary0weak"
)

// platformURL is where browsers come back to.
const platformURL = "https://platform.example.com"

// world is a runtime with a provider, reached over HTTP.
type world struct {
	*kubetest.Cluster
	namespace string
	provider  *providertest.Server
	service   *integration.Service
	server    *httptest.Server
	clock     time.Time

	log programs.Output // and every response

	mu       sync.Mutex
	changes  int
	settings *platformv1.GitSettings
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := kubetest.Shared(t)
	w := &world{Cluster: cluster, namespace: cluster.Namespace(t), clock: time.Now()}
	argotest.Install(t, cluster)
	roles := map[string]string{"team": "admin"}
	w.provider = providertest.Start(t, gitprovider.GitHub, providertest.World{
		Owners:       map[string]string{"team": "Organization"},
		Repositories: []providertest.Repository{{Path: "team/config", Private: true, DefaultBranch: "main"}},
		Tokens: []providertest.Token{
			{Value: runtimeToken, Login: "robot", UserID: 1, Scopes: []string{"repo", "admin:repo_hook"}, Roles: roles, ExpiresAt: w.clock.Add(30 * 24 * time.Hour).Truncate(time.Second)},
			{Value: adaToken, Login: "ada", UserID: 2, Scopes: []string{"repo"}, Roles: roles},
			{Value: bobToken, Login: "bob", UserID: 3, Scopes: []string{"repo"}, Roles: roles},
			{Value: weakToken, Login: "eve", UserID: 4, Scopes: []string{"read:user"}, Roles: roles},
		},
		Application: providertest.Application{ClientID: "client", ClientSecret: "canary0client", Redirect: platformURL + "/git/callback"},
	})
	w.settings = &platformv1.GitSettings{
		Provider: "github", ApiUrl: w.provider.APIURL, SharedRepository: w.provider.URL + "/team/config.git",
	}
	w.service = integration.New(integration.Options{
		Cluster: cluster.Cluster, Namespace: w.namespace, Runtime: "demo",
		Settings: func() *platformv1.GitSettings { return w.settings },
		Changed:  func() { w.mu.Lock(); defer w.mu.Unlock(); w.changes++ },
		Log:      slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Now:      func() time.Time { return w.clock },
	})
	w.serve(t)
	return w
}

// serve handles requests as the router does: with the claims of the user in the context.
func (w *world) serve(t *testing.T) {
	t.Helper()
	mux := http.NewServeMux()
	for path, handler := range w.service.Handlers() {
		mux.Handle(path, handler)
	}
	w.server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if user, role, found := strings.Cut(r.Header.Get("Test-User"), ":"); found {
			r = r.WithContext(token.WithClaims(r.Context(), wire.RuntimeClaims{
				Issuer: platformURL, UserID: user, Email: user + "@example.com", Name: user, Role: role,
			}))
		}
		mux.ServeHTTP(out, r)
	}))
	t.Cleanup(w.server.Close)
}

// as is a client of a user.
func (w *world) as(user, role string) runtimev1connect.IntegrationServiceClient {
	return runtimev1connect.NewIntegrationServiceClient(&http.Client{Transport: &asUser{w: w, who: user + ":" + role}}, w.server.URL, connect.WithProtoJSON())
}

func (w *world) admin() runtimev1connect.IntegrationServiceClient {
	return w.as("admin", permission.RoleAdmin)
}

func (w *world) user(name string) runtimev1connect.IntegrationServiceClient {
	return w.as(name, permission.RoleOperator)
}

// asUser adds the user to requests, and keeps the responses.
type asUser struct {
	w   *world
	who string
}

// RoundTrip asks.
func (a *asUser) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Test-User", a.who)
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	fmt.Fprintf(&a.w.log, "%v %s\n", response.Header, body)
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// trust makes the runtime know the authority of the provider.
func (w *world) trust(t *testing.T) {
	t.Helper()
	must.Get(w.Client.CoreV1().ConfigMaps(w.namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "argocd-tls-certs-cm"}, Data: map[string]string{"127.0.0.1": string(w.provider.CA)},
	}, metav1.CreateOptions{}))(t)
}

// secret reads a Secret of the control namespace.
func (w *world) secret(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	return must.Get(w.Client.CoreV1().Secrets(w.namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
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
