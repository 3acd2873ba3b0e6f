// Package tenancy runs the edge between tenants that do not trust each other: a
// real API server, the edge as slipway edge runs it, real requests. The tenant bank
// has hosts, and the tenant evil has every right in its own namespace and tries to
// get the traffic of them.
//
// Each attempt is an Ingress of evil. It has to be refused with a reason that evil
// finds as an Event on its Ingress, or by the API server itself, and no request for
// a host of bank may reach evil, neither after the attempt nor after all of them
// together.
package tenancy

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/controller"
	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

const (
	// patience bounds every wait. Only a test that fails waits so long.
	patience = 30 * time.Second

	plainAddress  = "127.0.0.1:8080"
	secureAddress = "127.0.0.1:8443"
	healthAddress = "127.0.0.1:8082"
)

// world is the cluster with the edge and both tenants.
type world struct {
	cluster *kubetest.Cluster
	client  *http.Client
}

// newWorld starts a cluster and an edge with its default options, and gives each
// tenant a namespace with a Service.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		cluster: kubetest.Start(t, kubetest.WithoutNode()),
		client:  &http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	t.Cleanup(w.client.CloseIdleConnections)
	address := w.cluster.PodNetwork.Addr()
	for range 10 { // the first addresses may be taken
		address = address.Next()
	}
	// Of two Ingresses of one second the namespace that comes first is older: bank.
	for _, name := range []string{"bank", "evil"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := w.cluster.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		address = address.Next()
		serve(t, name, net.JoinHostPort(address.String(), "8080"))
		w.cluster.Apply(t, name, fmt.Sprintf(serviceManifest, name, address))
	}
	w.startEdge(t)
	return w
}

// serviceManifest is the Service of a tenant with its one endpoint.
const serviceManifest = `apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: "", port: 8080}]
endpoints: [{addresses: [%[2]s]}]
`

// serve runs a server that responds with the name of its tenant.
func serve(t *testing.T, name, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	must.Do(t, err)
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, name) // the client may be gone
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // it ends when the server is closed
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
}

// startEdge runs the edge until the end of the test, and returns when it is ready.
func (w *world) startEdge(t *testing.T) {
	t.Helper()
	t.Setenv("KUBECONFIG", w.cluster.Kubeconfig)
	loaded, err := config.LoadEdge(config.Sources{Args: []string{
		"--entryPoints.web.address=" + plainAddress, "--entryPoints.websecure.address=" + secureAddress, "--entryPoints.websecure.http.tls=true",
		"--admin.address=127.0.0.1:8090", "--health.address=" + healthAddress, "--providers.kubernetesIngress=true",
	}})
	must.Do(t, err)
	must.Do(t, loaded.Edge.Validate())
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- controller.Serve(running, loaded.Edge, admin.Build{Version: "test"}, slog.New(slog.NewTextHandler(t.Output(), nil)), controller.Run)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the edge: %v", err)
		}
	})
	w.eventually(t, "the edge is ready", func() error {
		response, err := w.client.Get("http://" + healthAddress + "/readyz")
		if err != nil {
			return err
		}
		_ = response.Body.Close() // only the status counts
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", response.StatusCode)
		}
		return nil
	})
}

// eventually repeats a check until it succeeds.
func (w *world) eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// ask sends a request for host/path and returns the tenant that served it, or the
// status.
func (w *world) ask(t *testing.T, target string) string {
	t.Helper()
	host, path, _ := strings.Cut(target, "/")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+plainAddress, nil)
	must.Do(t, err)
	// The path is sent as it is written.
	request.URL.Opaque = "/" + path
	request.Host = host
	response, err := w.client.Do(request)
	must.Do(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must.Do(t, err)
	if response.StatusCode != http.StatusOK {
		return fmt.Sprint(response.StatusCode)
	}
	return string(text)
}

// certificate returns the common name of the certificate that a host shows.
func (w *world) certificate(t *testing.T, host string) string {
	t.Helper()
	conn, err := tls.Dial("tcp", secureAddress, &tls.Config{ServerName: host, InsecureSkipVerify: true})
	must.Do(t, err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// apply creates or updates an object of a tenant. The error is that of the API
// server.
func (w *world) apply(t *testing.T, namespace, manifest string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := w.cluster.Cluster.Apply(ctx, kube.Target{Namespace: namespace, Manager: namespace}, manifest)
	return err
}

// awaitEvent waits for an Event on an Ingress of evil.
func (w *world) awaitEvent(t *testing.T, name, reason, text string) {
	t.Helper()
	kubetest.WaitFor(t, w.cluster.Client.EventsV1().Events("evil"), metav1.ListOptions{}, patience, func(events []*eventsv1.Event) error {
		for _, event := range events {
			if event.Regarding.Kind == "Ingress" && event.Regarding.Name == name && event.Reason == reason && strings.Contains(event.Note, text) {
				return nil
			}
		}
		return fmt.Errorf("there is no Event %s on Ingress evil/%s with %q", reason, name, text)
	})
}
