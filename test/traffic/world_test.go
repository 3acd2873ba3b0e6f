package traffic

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/agent/appproxy"
	service "slipway.dev/slipway/internal/agent/traffic"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

func TestMain(m *testing.M) { kubetest.Main(m, kubetest.AllowLeaks()) }

const (
	host = "shop.example.com"
	// slow is how long the backend takes for /slow.
	slow        = 60 * time.Millisecond
	trafficPort = 8093
)

// world is an edge and an agent, an application from Git, and the API of the agent
// about traffic.
type world struct {
	binary          string
	cluster         *kubetest.Cluster
	control, target string
	repository      *gittest.Repository
	edge            *programs.Process
	// web is where the edge takes traffic, and asked where the agent asks it.
	web, asked string
	secretFile string
	options    service.Options
	client     runtimev1connect.TrafficServiceClient
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := kubetest.Start(t)
	text := must.Get(v1alpha1.CRDs())(t)
	cluster.Define(t, string(text))
	cluster.DefineFiles(t, filepath.Join(programs.ModuleFolder(t, "sigs.k8s.io/gateway-api"), "config/crd/standard/gateway.networking.k8s.io_[ghr]*.yaml"))
	w := &world{binary: binary.Path(t), cluster: cluster, control: cluster.Namespace(t), target: cluster.Namespace(t)}
	w.secretFile = filepath.Join(t.TempDir(), "secret")
	w.web, w.asked = "127.0.0.1:8080", net.JoinHostPort(w.podAddress(251), fmt.Sprint(trafficPort))
	backend := w.serveBackend(t)
	w.repository = gittest.Serve(t).Repository(t, "shop", map[string]string{"deploy/shop.yaml": shopManifests(backend, 80)})
	agentprocess.Start(t, agentprocess.Options{Binary: w.binary, Kubeconfig: cluster.Kubeconfig, Namespace: w.control})
	cluster.Apply(t, w.control, fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: slipway}
spec: {controller: slipway.dev/ingress-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: slipway}
spec: {controllerName: slipway.dev/gateway-controller}
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: default
  source: {repoURL: %q, path: deploy, targetRevision: main}
  destination: {server: "https://kubernetes.default.svc", namespace: %s}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`, w.repository.URL(), w.target))
	w.edge = w.startEdge(t)
	w.serve(t)
	return w
}

// startEdge runs the edge until the test ends.
func (w *world) startEdge(t *testing.T) *programs.Process {
	t.Helper()
	return programs.Slipway(t, "the edge", w.binary, []string{"KUBECONFIG=" + w.cluster.Kubeconfig, "POD_NAMESPACE=" + w.control},
		"edge", "--log.format=json", "--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0",
		"--providers.kubernetesIngress", "--providers.kubernetesGateway.addresses="+w.podAddress(252), "--entryPoints.web.address="+w.web,
		"--traffic.address="+w.asked, "--traffic.secretFile="+w.secretFile)
}

// podAddress is an address of the network of Pods.
func (w *world) podAddress(last byte) string {
	bytes := w.cluster.PodNetwork.Addr().As4()
	bytes[3] = last
	return netip.AddrFrom4(bytes).String()
}

// serve runs the API of the agent.
func (w *world) serve(t *testing.T) {
	t.Helper()
	sources := must.Get(source.New(source.Options{Folder: t.TempDir()}))(t)
	t.Cleanup(func() { _ = sources.Close() })
	apps := appproxy.New(appproxy.Options{Cluster: w.cluster.Cluster, ControlNamespace: w.control, Sources: sources})
	w.options = service.Options{
		Cluster: w.cluster.Cluster, Namespace: w.control, Edges: []string{w.asked}, Port: trafficPort,
		Secret: service.ClusterSecret{Cluster: w.cluster.Cluster, Namespace: w.control, Name: "slipway-edge-traffic"},
		Applications: func(namespace string) dynamic.ResourceInterface {
			return agentprocess.Applications(w.cluster.Cluster, namespace)
		},
		Namespaces: []string{w.control}, Commit: apps.Commit,
	}
	w.client = clientOf(t, w.options)
}

// clientOf serves an API with options, and asks it.
func clientOf(t *testing.T, options service.Options) runtimev1connect.TrafficServiceClient {
	t.Helper()
	mux := http.NewServeMux()
	for path, handler := range service.New(options).Handlers() {
		mux.Handle(path, handler)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return runtimev1connect.NewTrafficServiceClient(server.Client(), server.URL)
}

// mount puts the shared secret where the edge reads it, as the kubelet does.
func (w *world) mount(t *testing.T) {
	t.Helper()
	shared := must.Get(w.options.Secret.Read(t.Context()))(t)
	must.Do(t, os.WriteFile(w.secretFile, shared, 0o600))
}

// serveBackend responds by the path: /fail with 500, /slow later.
func (w *world) serveBackend(t *testing.T) netip.AddrPort {
	t.Helper()
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(w.podAddress(250), "0")))(t)
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fail":
			rw.WriteHeader(http.StatusInternalServerError)
		case "/slow":
			<-time.After(slow)
		}
	})}
	go func() { _ = server.Serve(listener) }() // until it is closed
	t.Cleanup(func() { _ = server.Close() })
	return netip.MustParseAddrPort(listener.Addr().String())
}

// shopManifests are what Git has: an Ingress, a Gateway with a route, and a Service
// that leads to a backend.
func shopManifests(backend netip.AddrPort, port int) string {
	return fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop}
spec:
  ingressClassName: slipway
  rules:
    - host: %s
      http:
        paths:
          - {path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: %d}}}}
          - {path: /slow, pathType: Exact, backend: {service: {name: shop, port: {number: %[2]d}}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shop}
spec: {gatewayClassName: slipway, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop-route}
spec:
  parentRefs: [{name: shop}]
  hostnames: [%[1]q]
  rules: [{matches: [{path: {type: PathPrefix, value: /route}}], backendRefs: [{name: shop, port: %[2]d}]}]
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {ports: [{port: %[2]d, targetPort: %[4]d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: shop, labels: {kubernetes.io/service-name: shop}}
addressType: IPv4
ports: [{name: "", port: %[4]d}]
endpoints: [{addresses: [%[3]q], conditions: {ready: true}}]
`, host, port, backend.Addr(), backend.Port())
}

// watching follows the stream, and keeps the last table and message.
type watching struct {
	table *runtimev1.TrafficTable
	last  *runtimev1.WatchTrafficResponse
}

// await follows the traffic until something holds.
func (w *world) await(t *testing.T, client runtimev1connect.TrafficServiceClient, holds func(*watching) error) *watching {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programs.Timeout)
	defer cancel()
	stream := must.Get(client.WatchTraffic(ctx, request(&runtimev1.WatchTrafficRequest{})))(t)
	defer stream.Close()
	seen, missing := &watching{}, fmt.Errorf("nothing came")
	for stream.Receive() {
		seen.last = stream.Msg()
		if seen.last.GetTable() != nil {
			seen.table = seen.last.GetTable()
		}
		if missing = holds(seen); missing == nil {
			return seen
		}
	}
	t.Fatalf("%v; the stream ended with %v", missing, stream.Err())
	return nil
}

// load asks the edge, count times for each host and path, by some connections.
func (w *world) load(ctx context.Context, host, path string, count int) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	defer client.CloseIdleConnections()
	const clients = 4
	done := make(chan error, clients)
	for range clients {
		go func() {
			for range count / clients {
				ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.web+path, nil)
				if err == nil {
					ask.Host = host
					err = answered(client, ask)
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	var errs []error
	for range clients {
		errs = append(errs, <-done)
	}
	return errors.Join(errs...)
}

func answered(client *http.Client, ask *http.Request) error {
	response, err := client.Do(ask)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// stranger sends a request to the edge without the secret.
func (w *world) stranger() error {
	client := &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13},
		},
	}
	response, err := client.Get("https://" + w.asked + "/api/v1/traffic")
	if err != nil {
		return err
	}
	return response.Body.Close()
}
