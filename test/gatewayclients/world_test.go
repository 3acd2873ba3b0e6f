// Package gatewayclients runs cert-manager and external-dns on Gateways and
// ListenerSets of `slipway edge`: both as their modules have them, the built edge, a
// real API server, BIND for the records and pebble as the authority of ACME.
//
// The programs are compiled by make gateway-clients, not by go test:
// testdata/clients is a Go module of their own.
package gatewayclients

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// variablePrograms is the folder with the compiled programs.
const variablePrograms = "GATEWAY_CLIENTS"

// The addresses of the test. All of them are local in its private network.
const (
	edgeAddress  = "127.0.0.9"
	pool         = "10.244.120.16/28"
	fixedAddress = "10.244.120.30"
	backend      = "10.244.120.2"
)

// home is the namespace of the edge in the shipped manifests.
const home = "slipway-system"

func TestMain(m *testing.M) { kubetest.Main(m) }

// TestClients is one test, so that the cluster and the clients start once.
func TestClients(t *testing.T) {
	folder := os.Getenv(variablePrograms)
	if folder == "" {
		t.Skip("it takes minutes to compile the clients: make gateway-clients")
	}
	w := newWorld(t, folder)
	t.Run("records", w.testRecords)
	t.Run("certificates", w.testCertificates)
	t.Run("ACME", w.testACME)
}

// world is a cluster with an edge that serves Gateways, and the clients of these.
type world struct {
	*kubetest.Cluster
	// infra is the namespace of Gateways, and team that of routes.
	infra, team string
	names       *nameServer
	authority   *pebble
}

// newWorld starts the cluster, the edge and both clients.
func newWorld(t *testing.T, folder string) *world {
	t.Helper()
	w := &world{Cluster: kubetest.Start(t, kubetest.Programs(map[string]string{
		"quay.io/jetstack/cert-manager-acmesolver": filepath.Join(folder, "acmesolver"),
	}))}
	// external-dns reads TCPRoutes and UDPRoutes as v1alpha2, which only the experimental
	// channel serves.
	w.DefineFiles(t, filepath.Join(moduleFolder(t, ".", "sigs.k8s.io/gateway-api"), "config", "crd", "experimental", "gateway.networking.k8s.io_[a-u]*.yaml"))
	w.DefineFiles(t, filepath.Join(moduleFolder(t, "testdata/clients", "github.com/cert-manager/cert-manager"), "deploy", "crds", "*.yaml"))
	w.infra, w.team = w.Namespace(t), w.Namespace(t)
	w.Apply(t, "", "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: slipway}\nspec: {controllerName: slipway.dev/gateway-controller}\n")
	w.Serve(t, "web", backend, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }, w.infra, w.team)
	w.names = startBIND(t)
	w.authority = startPebble(t, netip.MustParseAddr("127.0.7.7"), w.names.address)
	edgeprocess.Seat{
		Binary: binary.Path(t), At: netip.MustParseAddr(edgeAddress), Kubeconfig: w.EdgeKubeconfig(t, "gateway-role"), Namespace: home,
		Arguments: []string{"--providers.kubernetesGateway.addresses=" + pool},
	}.Start(t).AwaitReady(t)
	w.startClients(t, folder)
	return w
}

// moduleFolder returns the folder of a module that the Go module in a folder requires.
func moduleFolder(t *testing.T, dir, module string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module)
	command.Dir = dir
	return strings.TrimSpace(string(must.Get(command.Output())(t)))
}

// startClients starts external-dns and cert-manager with the options of docs/gateway.md,
// and with those of this name server.
func (w *world) startClients(t *testing.T, folder string) {
	t.Helper()
	start := func(name string, words ...string) {
		command := exec.Command(filepath.Join(folder, name), append(words, "--kubeconfig="+w.Kubeconfig)...)
		command.Env = programs.Environment(t)
		run(t, name, command)
	}
	host, port, _ := net.SplitHostPort(w.names.address)
	start("external-dns", "--source=gateway-httproute", "--source=gateway-grpcroute", "--source=gateway-tlsroute", "--source=gateway-tcproute",
		"--source=gateway-udproute", "--gateway-listener-sets", "--policy=sync", "--txt-owner-id=slipway", "--interval=1s",
		"--metrics-address=127.0.0.1:7979", "--provider=rfc2136", "--rfc2136-host="+host, "--rfc2136-port="+port, "--rfc2136-zone="+zone,
		"--rfc2136-axfr", "--rfc2136-tsig-keyname="+tsigKey, "--rfc2136-tsig-secret="+tsigSecret, "--rfc2136-tsig-secret-alg=hmac-sha256")
	start("certmanager", "--feature-gates=ListenerSets=true", "--acme-http01-solver-nameservers="+w.names.address)
}

// apply applies a manifest in the namespace of Gateways; INFRA and TEAM are the names of
// the namespaces in it.
func (w *world) apply(t *testing.T, manifest string) {
	t.Helper()
	w.Apply(t, w.infra, strings.NewReplacer("INFRA", w.infra, "TEAM", w.team).Replace(manifest))
}

// in returns the client of a resource of Gateway API in a namespace.
func (w *world) in(namespace, resource string) dynamic.ResourceInterface {
	return w.Dynamic.Resource(gatewayv1.SchemeGroupVersion.WithResource(resource)).Namespace(namespace)
}

// programmed waits until a Gateway of infra is programmed as it is written, and returns
// it. Its certificates may still be missing.
func (w *world) programmed(t *testing.T, name string) *gatewayv1.Gateway {
	t.Helper()
	var gateway gatewayv1.Gateway
	programs.Eventually(t, func(ctx context.Context) error {
		object, err := w.in(w.infra, "gateways").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		gateway = gatewayv1.Gateway{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &gateway); err != nil {
			return err
		}
		for _, c := range gateway.Status.Conditions {
			if c.Type == "Programmed" && c.Status == metav1.ConditionTrue && c.ObservedGeneration == gateway.Generation && len(gateway.Status.Addresses) == 1 {
				return nil
			}
		}
		return fmt.Errorf("the Gateway %s is not programmed: %+v", name, gateway.Status)
	})
	return &gateway
}
