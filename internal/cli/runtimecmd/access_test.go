package runtimecmd_test

import (
	"crypto/tls"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// TestCertificateBeforeInstall: R40, R41, R84: a certificate that comes with the
// Ingress does not stop an installation: of a Secret that is still to come, or of
// an issuer. A private authority is named by a flag, and a value that skips the
// validation of the address skips every check of it.
func TestCertificateBeforeInstall(t *testing.T) {
	w := newClusterWorld(t, "slipway")
	const host = "127.0.0.1" // of the private network of the tests
	authority := servePrivately(t, host)
	line := "runtime install prod --dry-run --mode ingress --host " + host + " --ingress-class slipway" + alone
	const tls = " --set global.runtime.ingress.tls[0].secretName=prod-tls"
	for _, tt := range []struct {
		name, flags string
		code        int
		want        []string
	}{
		{"nothing comes", "", 1, []string{"P16", "error", "global.runtime.ingress.tls", "runtimes.caSecretKeyRef", "--ca-file"}},
		{"a Secret is to come", tls, 0, []string{"P16", "warning", "Secret slipway/prod-tls"}},
		{"cert-manager", " --set global.runtime.ingress.annotations.cert-manager\\.io/cluster-issuer=acme", 0, []string{"P16", "warning"}},
		{"a resolver", " --set global.runtime.ingress.annotations.traefik\\.ingress\\.kubernetes\\.io/router\\.tls\\.certresolver=acme", 0, []string{"P16", "warning"}},
		{"a private authority", " --ca-file " + authority, 0, nil},
		{"R41 the address is skipped", " --set global.runtime.ingress.skipValidation=true", 0, nil},
		{"R40 everything is skipped", " --set installer.skipValidation=true", 0, nil},
		{"one check is skipped", " --skip P16", 0, nil},
		{"one check is skipped by name", " --skip tls-cert", 0, nil},
		{"no such check", " --skip P99", 2, []string{"P99"}},
		{"no such file", " --ca-file missing.pem", 2, []string{"missing.pem"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := w.ends(t, line+tt.flags, tt.code, tt.want...)
			if tt.want == nil && strings.Contains(got.Stderr, "P16") {
				t.Errorf("P16 reports\n%s", got.Stderr)
			}
		})
	}
}

// servePrivately listens with a certificate of a private authority, and returns
// the file of the authority.
func servePrivately(t *testing.T, host string) string {
	t.Helper()
	files := pkitest.NewFiles(t)
	certificate, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	must.Do(t, err)
	listener, err := tls.Listen("tcp", net.JoinHostPort(host, "443"), &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	must.Do(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake() // the client decides
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return files.CertFile
}

// TestALB: R86, R87: a class alb of another controller is an error that names the
// right one, and the Ingress for ALB gets a load balancer that reaches the runtime.
// With a controller of its own the edge needs no second load balancer.
func TestALB(t *testing.T) {
	w := newClusterWorld(t, "slipway")
	class := "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: alb}\nspec: {controller: CONTROLLER}\n"
	w.cluster.Apply(t, "", strings.Replace(class, "CONTROLLER", "eks.amazonaws.com/alb", 1))
	w.ends(t, "preflight --mode ingress --host prod.example.com --class alb --only P14", 1, "eks.amazonaws.com/alb", "ingress.k8s.aws/alb", "kubectl delete ingressclass alb")
	must.Do(t, w.cluster.Client.NetworkingV1().IngressClasses().Delete(t.Context(), "alb", metav1.DeleteOptions{}))
	w.cluster.Apply(t, "", strings.Replace(class, "CONTROLLER", "ingress.k8s.aws/alb", 1))
	w.ends(t, "preflight --mode ingress --host prod.example.com --ingress-class alb --only P14", 0)
	w.ends(t, "runtime install prod --mode ingress --host prod.example.com --ingress-class alb --set global.platform.enabled=false --set global.runtime.ingress.annotations.alb\\.ingress\\.kubernetes\\.io/scheme=internal"+quiet, 0)
	ingress, err := w.cluster.Client.NetworkingV1().Ingresses("slipway").Get(t.Context(), "internal-router", metav1.GetOptions{})
	must.Do(t, err)
	for name, want := range map[string]string{"target-type": "ip", "listen-ports": `[{"HTTPS": 443}]`, "success-codes": "200-499", "scheme": "internal"} {
		if got := ingress.Annotations["alb.ingress.kubernetes.io/"+name]; got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	w.requireService(t, corev1.ServiceTypeClusterIP)
	w.ends(t, "runtime upgrade prod --set edge.service.type=LoadBalancer --skip-preflight --yes --set installer.skipValidation=true", 0)
	w.requireService(t, corev1.ServiceTypeLoadBalancer)
}

// TestStatusAfterInstall: R97, R98: an Ingress without an address is reported with
// what its controller lacks, and not with a command that shows nothing.
func TestStatusAfterInstall(t *testing.T) {
	w := newClusterWorld(t, "slipway")
	w.cluster.Apply(t, "default", `apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: traefik}
spec: {controller: traefik.io/ingress-controller}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: traefik}
spec:
  selector: {matchLabels: {app: traefik}}
  template:
    metadata: {labels: {app: traefik}}
    spec: {containers: [{name: traefik, image: "docker.io/traefik:v3.5", args: [--providers.kubernetesingress]}]}
---
# Libraries log that this API does not respond, and not between the lines of commands.
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: metrics-server, namespace: kube-system}
`)
	w.ends(t, "runtime install prod --mode ingress --host prod.example.com --ingress-class traefik --set global.platform.enabled=false"+quiet, 0)
	got := w.ends(t, "preflight --stage after --only P18 --status-wait 1s", 1, "Ingress slipway/internal-router", "it has no ingressEndpoint")
	if strings.Contains(got.Stdout, "--stage before") {
		t.Errorf("it refers to a check that is skipped:\n%s", got.Stdout)
	}
}

// requireService: the Service of the edge has a type, and its health is not that
// of the runtime.
func (w *releaseWorld) requireService(t *testing.T, want corev1.ServiceType) {
	t.Helper()
	service, err := w.cluster.Client.CoreV1().Services("slipway").Get(t.Context(), "slipway-edge", metav1.GetOptions{})
	must.Do(t, err)
	if service.Spec.Type != want || service.Annotations["argocd.argoproj.io/ignore-healthcheck"] != "true" {
		t.Errorf("the Service is %s with %v, not %s", service.Spec.Type, service.Annotations, want)
	}
}

// TestNodeSize: R12: a node of the size that clouds sell is enough, although the system
// reserves a part of it; a smaller one is a warning.
func TestNodeSize(t *testing.T) {
	w := newClusterWorld(t)
	nodes := w.cluster.Client.CoreV1().Nodes()
	must.Get(nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ordinary"}}, metav1.CreateOptions{}))(t)
	size := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("110")}
	}
	for _, tt := range []struct{ cpu, memory, want string }{
		{"2", "8Gi", "ok"}, {"1500m", "8Gi", "warning"}, {"2", "4Gi", "warning"},
	} {
		// A controller changes the node as well.
		patch := must.Get(json.Marshal(map[string]any{"status": corev1.NodeStatus{Capacity: size(tt.cpu, tt.memory), Allocatable: size("1400m", "3Gi")}}))(t)
		must.Get(nodes.Patch(t.Context(), "ordinary", types.MergePatchType, patch, metav1.PatchOptions{}, "status"))(t)
		if got := w.ends(t, "preflight --only P3", 0); !strings.Contains(clitest.TrimLines(got.Stdout), "P3 node-size "+tt.want) {
			t.Errorf("a node of %s and %s: %s", tt.cpu, tt.memory, got.Stdout)
		}
	}
}

// TestMeshWithoutIstio: R52, R54: a mesh needs a URL and nothing else; a Gateway that
// is named has to exist.
func TestMeshWithoutIstio(t *testing.T) {
	w := newClusterWorld(t)
	line := "preflight --mode mesh --ingress-url https://prod.example.com --only P14,P15,P18 "
	w.ends(t, line, 0, "the cluster has no Istio")
	w.ends(t, line+"--gateway istio-system/public", 1, "Gateway istio-system/public", "leave --gateway out")
	w.ends(t, "preflight --stage after --mode mesh --ingress-url https://prod.example.com --only P20", 0, "the cluster has no Istio")
	w.cluster.DefineFiles(t, "../../access/mode/testdata/crds.yaml")
	w.cluster.Define(t, kubetest.Definition("networking.istio.io", "v1alpha3", "Gateway"))
	gateway := "preflight --mode mesh --ingress-url https://prod.example.com --gateway default/public --only P14"
	w.ends(t, gateway, 1, "Gateway default/public", "it does not exist")
	w.cluster.Apply(t, "default", "apiVersion: networking.istio.io/v1alpha3\nkind: Gateway\nmetadata: {name: public}\nspec: {}\n")
	w.ends(t, gateway, 0, "Gateway default/public of Istio")
}

// TestKeptDefinitions: R25: with crds.install=false the definitions of Argo CD stay
// outside of the release, for each of the four projects without a word about it.
func TestKeptDefinitions(t *testing.T) {
	w := newClusterWorld(t, "slipway")
	line := "runtime install prod --set argo-cd.crds.install=false --set argo-rollouts.crds.install=false --set argo-workflows.crds.install=false --set argo-events.crds.install=false" + alone
	w.ends(t, line, 1, "applications.argoproj.io", "argo-cd.crds.install is false", "nothing was changed")
	for _, name := range []string{"applications", "applicationsets", "appprojects"} {
		text, err := os.ReadFile(filepath.Join("../../../charts/gitops-runtime/crds", "argoproj.io_"+name+".yaml"))
		must.Do(t, err)
		w.cluster.Define(t, string(text))
	}
	got := w.ends(t, line, 0, "The runtime prod is installed.")
	if all := got.Stdout + got.Stderr; strings.Contains(all, "argo-") || strings.Contains(all, "P7 ") {
		t.Errorf("what is honoured is warned about:\n%s", all)
	}
	kept, err := w.cluster.Metadata.Resource(kube.DefinitionResource()).Get(t.Context(), "applications.argoproj.io", metav1.GetOptions{})
	must.Do(t, err)
	if kept.Annotations["meta.helm.sh/release-name"] != "" {
		t.Errorf("the definition belongs to the release: %v", kept.Annotations)
	}
	if _, err := w.cluster.Metadata.Resource(kube.DefinitionResource()).Get(t.Context(), "middlewares.slipway.dev", metav1.GetOptions{}); err != nil {
		t.Errorf("our own definition: %v", err)
	}
	w.ends(t, "runtime upgrade prod --dry-run --set argo-cd.configs.tls.certificates.git\\.example\\.com=x"+alone, 0, "agent.repositories.certificates")
}

// TestFollowUpCommands: every command that an installation prints works as it is
// printed, and looks at what is installed.
func TestFollowUpCommands(t *testing.T) {
	w := newReleaseWorld(t, "delivery")
	got := w.ends(t, "runtime install prod --create-key --mode ingress --host prod.example.com --ingress-class slipway --namespace delivery --release mine --skip P3 --yes", 1,
		"The runtime prod is installed.", "the runtime runs, and")
	printed := regexp.MustCompile(`(?m)slipway ((runtime|preflight|app) [^\n:#,]*?)( looks again|  #.*)?$`).FindAllStringSubmatch(got.Stdout+got.Stderr, -1)
	var commands []string
	for _, match := range printed {
		if command := strings.TrimSpace(match[1]); !slices.Contains(commands, command) {
			commands = append(commands, command)
		}
	}
	if want := []string{"preflight --stage after --namespace delivery --release mine", "runtime get prod"}; !slices.Contains(commands, want[0]) || !slices.Contains(commands, want[1]) {
		t.Fatalf("%v are not among %v", want, commands)
	}
	for _, command := range commands {
		if again := w.release(t, command); strings.HasPrefix(command, "preflight") {
			if again.Code != 1 || failedChecks(again.Stdout) != failedChecks(got.Stderr[strings.Index(got.Stderr, "is installed."):]) {
				t.Errorf("%s looks at something else:\n%s%s\nthe installation:\n%s", command, again.Stdout, again.Stderr, got.Stderr)
			}
		} else if again.Code != 0 {
			t.Errorf("%s: %+v", command, again)
		}
	}
	// The platform names the namespace, and the release everything else.
	w.ends(t, "preflight --stage after --runtime prod --release mine --only P13,P14,P20", 0, "IngressClass slipway", "Ingress delivery/internal-router")
	w.ends(t, "runtime mesh generate --runtime prod --gateway istio-system/public", 0, "namespace: delivery", "- prod.example.com")
}

// failedChecks are the codes of the checks that failed, in a report.
func failedChecks(text string) string {
	found := regexp.MustCompile(`(?m)^P\d+ +\S+ +error`).FindAllString(text, -1)
	// The installation skips P3: the cluster has no node.
	return strings.Join(slices.DeleteFunc(found, func(one string) bool { return strings.HasPrefix(one, "P3 ") }), " ")
}
