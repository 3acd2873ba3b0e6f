package tenancy

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/gitops/plugintest"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// The namespaces. Of two Ingresses of one second the namespace that comes first
// is older: bank.
const (
	bank    = "bank"
	evil    = "evil"
	control = "slipway"
)

// world is the cluster with all that tenants share.
type world struct {
	cluster *kubetest.Cluster
	// admin may do everything, and tenant everything in namespace evil.
	admin, tenant user
	sources       *sources
	agent         *agentprocess.Agent
	// plugin is a config management plugin with the secrets of bank.
	plugin *plugintest.Server
	// bank is the server of bank.
	bank *backend
	// edge has the addresses of the edge by their names.
	edge   map[string]string
	client *http.Client
	// before has the objects that must stay as they are.
	before map[string]string
}

// newWorld starts a cluster with the tenants' objects, and the agent and the
// edge of a binary with variables of the environment.
func newWorld(t *testing.T, binary string, environment ...string) *world {
	t.Helper()
	w := &world{
		cluster: kubetest.Start(t, kubetest.WithoutNode()), sources: serveSources(t), before: map[string]string{},
		client: &http.Client{Timeout: programs.Timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	t.Cleanup(w.client.CloseIdleConnections)
	rate := kube.Rate(1000, 2000)
	w.admin = user{w.cluster.Connect(t, rate)}
	w.tenant = user{w.cluster.Connect(t, rate, func(config *rest.Config) {
		config.Impersonate = rest.ImpersonationConfig{UserName: evil, Groups: []string{"system:authenticated"}}
	})}
	definitions := must.Get(v1alpha1.CRDs())(t)
	w.cluster.Define(t, string(definitions))
	w.defineGateways(t)
	w.admin.must(t, strings.ReplaceAll(setting, "SCHEDULE", time.Now().UTC().Add(-30*time.Minute).Format("4 15 * * *")))
	w.admin.must(t, gateways)
	w.admin.must(t, w.ownCluster())
	w.serveTenants(t)
	w.startEdge(t, binary, environment)
	plugins := plugintest.Folder(t)
	w.plugin = plugintest.Serve(t, plugins, "secrets", plugintest.Plugin{Generate: func(_ context.Context, got plugintest.Request) ([]string, error) {
		return []string{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + got.Variables["ARGOCD_APP_NAME"] + "}\ndata: {key: of-bank}\n"}, nil
	}})
	w.agent = agentprocess.Start(t, agentprocess.Options{
		Binary: binary, Kubeconfig: w.cluster.Kubeconfig, Namespace: control, Environment: environment,
		Arguments: []string{"--leaderElection.enabled=false", "--applications.namespaces=" + bank + "," + evil, "--plugins.socketDir=" + plugins},
	})
	return w
}

// ownCluster is the Secret that describes the runtime's own cluster under the
// address that its clients use.
func (w *world) ownCluster() string {
	tls := w.cluster.Config.TLSClientConfig
	text := base64.StdEncoding.EncodeToString
	config := fmt.Sprintf(`{"tlsClientConfig": {"caData": %q, "certData": %q, "keyData": %q}}`, text(tls.CAData), text(tls.CertData), text(tls.KeyData))
	return fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: second-name, namespace: %s, labels: {argocd.argoproj.io/secret-type: cluster}}
stringData: {name: second-name, server: %q, config: %q}
`, control, w.cluster.Config.Host, config)
}

// serveTenants runs a server for each tenant, and applies its Service.
func (w *world) serveTenants(t *testing.T) {
	t.Helper()
	address := w.cluster.PodNetwork.Addr()
	for range 10 { // the first addresses may be taken
		address = address.Next()
	}
	authority := pkitest.NewAuthority(t)
	for _, name := range []string{bank, evil} {
		address = address.Next()
		served := serveBackend(t, name, address.String(), authority)
		if name == bank {
			w.bank = served
		}
		w.cluster.Apply(t, name, fmt.Sprintf(serviceManifest, name, address))
	}
	pair := authority.Issue(t, "bank.example")
	for _, name := range []string{bank, evil} {
		w.admin.must(t, fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %[1]s-cert, namespace: %[1]s}\ntype: kubernetes.io/tls\ndata: {tls.crt: %[2]s, tls.key: %[3]s}\n",
			name, base64.StdEncoding.EncodeToString([]byte(pair.Chain)), base64.StdEncoding.EncodeToString([]byte(pair.Key))))
	}
}

// serve runs a server until the end of the test.
func serve(t *testing.T, listener net.Listener, handler http.Handler) {
	t.Helper()
	server := &http.Server{ReadHeaderTimeout: programs.Timeout, Handler: handler}
	programs.Background(t, func() { _ = server.Serve(listener) }, func() { _ = server.Close() })
}

// startEdge runs the edge with its default options, and Gateways of which tenants have
// some each, and returns when it is ready.
func (w *world) startEdge(t *testing.T, binary string, environment []string) {
	t.Helper()
	edge := programs.Slipway(t, "the edge", binary, append([]string{"KUBECONFIG=" + w.cluster.Kubeconfig}, environment...), "edge", "--log.format=json",
		"--entryPoints.web.address=127.0.0.1:0", "--entryPoints.websecure.address=127.0.0.1:0", "--entryPoints.websecure.http.tls=true",
		"--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0", "--providers.kubernetesIngress=true", "--providers.kubernetesIngressNGINX=true",
		"--providers.kubernetesGateway.addresses="+gatewayPool, fmt.Sprintf("--providers.kubernetesGateway.addressesPerNamespace=%d", addressesPerNamespace))
	w.edge = map[string]string{}
	for _, name := range []string{"web", "websecure", "admin", "health"} {
		w.edge[name] = edge.Address(t, name)
	}
	programs.Eventually(t, func(ctx context.Context) error {
		status, _, err := programs.Get(ctx, "http://"+w.edge["health"]+"/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("the edge is not ready: status %d", status)
		}
		return err
	})
}

// eventually repeats a check until it succeeds.
func (w *world) eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programs.Timeout)
	defer cancel()
	if err := programs.Await(ctx, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// as returns the user who writes an object: what is in the control namespace is
// the administrator's.
func (w *world) as(object *unstructured.Unstructured) user {
	if object.GetNamespace() == evil {
		return w.tenant
	}
	return w.admin
}

// resource is the client for objects like this one, in its namespace.
func (u user) resource(object *unstructured.Unstructured) dynamic.ResourceInterface {
	return u.Dynamic.Resource(kinds()[object.GetKind()]).Namespace(object.GetNamespace())
}

// ask sends a request for host/path and returns the tenant that served it, or the
// status.
func (w *world) ask(target string) (string, error) { return w.request("http://"+w.edge["web"], target) }

// request sends a request for host/path to a URL.
func (w *world) request(url, target string) (string, error) {
	host, path, _ := strings.Cut(target, "/")
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	// The path is sent as it is written.
	request.URL.Opaque = "/" + path
	request.Host = host
	response, err := w.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		return fmt.Sprint(response.StatusCode), nil
	}
	return string(text), err
}

// certificate returns the common name of the certificate that a host shows.
func (w *world) certificate(host string) (string, error) {
	conn, err := tls.Dial("tcp", w.edge["websecure"], &tls.Config{ServerName: host, InsecureSkipVerify: true})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}
