package appproxy_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/go-jose/go-jose/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/access/router"
	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/agent"
	"slipway.dev/slipway/internal/agent/appproxy"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// patience bounds what a test waits for.
const patience = 90 * time.Second

// canary is the value of a Secret that no response may have, in no form.
const canary = "canary-value-4711"

func TestMain(m *testing.M) { argotest.Main(m, func(m *testing.M) { kubetest.Main(m) }) }

// installOnce installs the kinds in the cluster that all tests share.
var installOnce sync.Once

// world is a cluster with a control namespace of the test, and a runtime's API in
// front of it: the router and the service, over HTTP, with real tokens.
type world struct {
	*kubetest.Cluster
	control string
	service *appproxy.Service
	address string
	key     ed25519.PrivateKey
	answers *recorder
	gate    kubetest.Gate
}

func newWorld(t *testing.T, changes ...func(*appproxy.Options)) *world {
	t.Helper()
	cluster := kubetest.Shared(t)
	installOnce.Do(func() { argotest.Install(t, cluster) })
	w := &world{Cluster: cluster, control: cluster.Namespace(t), answers: &recorder{}}
	options := appproxy.Options{
		Cluster: cluster.Connect(t, w.gate.Option), ControlNamespace: w.control, Sources: newSources(t), Renderer: newRenderer(t),
		Info: func() appproxy.Info { return appproxy.Info{Name: "prod", Version: "1.2.3", Leading: true} },
	}
	for _, change := range changes {
		change(&options)
	}
	w.service = appproxy.New(options)
	w.serve(t)
	return w
}

func newSources(t *testing.T) *source.Sources {
	t.Helper()
	sources, err := source.New(source.Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sources.Close() })
	return sources
}

func newRenderer(t *testing.T) *render.Renderer {
	t.Helper()
	renderer, err := render.New(render.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = renderer.Close() })
	return renderer
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// serve serves the router of a runtime.
func (w *world) serve(t *testing.T) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w.key = private
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: "k1", Algorithm: string(jose.EdDSA)}}})
	if err != nil {
		t.Fatal(err)
	}
	verifier := token.NewVerifier(func() string { return "rt-1" }, func() string { return string(set) }, nil)
	mux := http.NewServeMux()
	for path, handler := range w.service.Handlers() {
		mux.Handle(path, handler)
	}
	server := httptest.NewServer(router.New(router.Options{Runtime: "prod", AppProxy: mux, Verify: verifier.Verify}))
	t.Cleanup(server.Close)
	w.address = server.URL
}

// token is one for this runtime, with claims about the user.
func (w *world) token(t *testing.T, claims wire.RuntimeClaims) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: w.key, KeyID: "k1"}}, (&jose.SignerOptions{}).WithType(wire.RequestTokenType))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	claims.RuntimeID, claims.UserID, claims.Email, claims.Prefix = "rt-1", "u1", "ada@example.com", wire.AppProxyPath
	claims.IssuedAt, claims.ExpiresAt = now.Unix(), now.Add(time.Minute).Unix()
	claims.ID = rand.Text()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// http is a client with a role. The recorder keeps its responses.
func (w *world) http(t *testing.T, role string) *http.Client {
	t.Helper()
	return w.httpWith(t, wire.RuntimeClaims{Role: role})
}

// httpWith is a client with claims.
func (w *world) httpWith(t *testing.T, claims wire.RuntimeClaims) *http.Client {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: roundTrip(func(request *http.Request) (*http.Response, error) {
		request.Header.Set("Authorization", "Bearer "+w.token(t, claims))
		response, err := transport.RoundTrip(request)
		if err == nil {
			response.Body = &recorded{response.Body, w.answers}
		}
		return response, err
	})}
}

func (w *world) apps(t *testing.T) runtimev1connect.ApplicationServiceClient {
	t.Helper()
	return w.appsAs(t, permission.RoleOperator)
}

func (w *world) appsAs(t *testing.T, role string) runtimev1connect.ApplicationServiceClient {
	t.Helper()
	return w.appsWith(t, wire.RuntimeClaims{Role: role})
}

func (w *world) appsWith(t *testing.T, claims wire.RuntimeClaims) runtimev1connect.ApplicationServiceClient {
	t.Helper()
	return runtimev1connect.NewApplicationServiceClient(w.httpWith(t, claims), w.address+"/app-proxy", readable())
}

func (w *world) runtime(t *testing.T) runtimev1connect.RuntimeServiceClient {
	t.Helper()
	return runtimev1connect.NewRuntimeServiceClient(w.http(t, "admin"), w.address+"/app-proxy", readable())
}

// readable keeps responses uncompressed, so that the recorder can read them.
func readable() connect.ClientOption { return connect.WithAcceptCompression("gzip", nil, nil) }

// recorder keeps all responses.
type recorder struct {
	mu   sync.Mutex
	text bytes.Buffer
}

type recorded struct {
	io.ReadCloser
	to *recorder
}

func (r *recorded) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.to.mu.Lock()
	defer r.to.mu.Unlock()
	r.to.text.Write(p[:n])
	return n, err
}

// requireNoCanary fails if a response had the canary, or its base64.
func (r *recorder) requireNoCanary(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text.Len() == 0 {
		t.Error("nothing was answered")
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(canary))
	for _, form := range []string{canary, encoded, base64.StdEncoding.EncodeToString([]byte(encoded))} {
		if bytes.Contains(r.text.Bytes(), []byte(form)) {
			t.Errorf("an answer has the canary as %s", form)
		}
	}
}

// apply applies manifests; NAMESPACE in them is the control namespace.
func (w *world) apply(t *testing.T, manifests string) {
	t.Helper()
	w.Apply(t, w.control, strings.ReplaceAll(manifests, "NAMESPACE", w.control))
}

// application creates an Application of a repository that is synced only on request.
func (w *world) application(t *testing.T, name, repository string) {
	t.Helper()
	w.apply(t, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %s, labels: {team: shop}}
spec:
  project: default
  source: {repoURL: %q, path: ".", targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: NAMESPACE}
`, name, repository))
}

// await waits for a state of an Application.
func (w *world) await(t *testing.T, name string, condition func(*inspect.Application) error) *inspect.Application {
	t.Helper()
	var last *inspect.Application
	kubetest.WaitFor(t, argotest.Applications(w.Cluster, w.control), kube.Named(name), patience, func(found []*unstructured.Unstructured) (err error) {
		if len(found) == 0 {
			return errors.New("there is no such Application")
		}
		if last, err = inspect.Decode(found[0]); err != nil {
			return err
		}
		return condition(last)
	})
	return last
}

// startAgent runs an agent for the control namespace, until the test ends.
func (w *world) startAgent(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	options := agent.Options{
		Cluster: w.Cluster.Cluster, ControlNamespace: w.control, Interval: time.Hour, Jitter: time.Second, Workers: 4,
		FetchTimeout: 20 * time.Second, Render: render.Options{Workers: 1}, Webhooks: listener, WebhookSecret: "argocd-secret",
		Identity: "one", Log: slog.New(slog.DiscardHandler),
		Metrics: agent.NewMetrics(observe.NewMetrics("test", "test")), Health: &observe.Health{},
	}
	go func() { ended <- agent.Run(ctx, options) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the agent ended with %v", err)
		}
	})
}
