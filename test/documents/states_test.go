package documents

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// controller is one that a page takes for installed: its class, its Deployment and its
// Service, as the checks know them.
type controller struct {
	class, id, namespace, name string
	image, labels              string
	args                       []string
}

// objects are what its own installation makes.
func (c controller) objects() string {
	text := fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[2]s, namespace: %[1]s, labels: {%[3]s}}
spec:
  selector: {matchLabels: {part: %[2]s}}
  template:
    metadata: {labels: {part: %[2]s, %[3]s}}
    spec:
      containers:
      - name: controller
        image: %[4]s
        args: ["%[5]s"]
---
apiVersion: v1
kind: Service
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  type: LoadBalancer
  selector: {part: %[2]s}
  ports: [{name: https, port: 443}]
`, c.namespace, c.name, c.labels, c.image, strings.Join(c.args, `", "`))
	if c.class != "" {
		text += fmt.Sprintf("---\napiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: %s}\nspec: {controller: %s}\n", c.class, c.id)
	}
	return text
}

func community() controller {
	return controller{"nginx", "k8s.io/ingress-nginx", "ingress-nginx", "ingress-nginx-controller", "registry.k8s.io/ingress-nginx/controller:v1.1.1", "app.kubernetes.io/name: ingress-nginx",
		[]string{"/nginx-ingress-controller", "--publish-service=ingress-nginx/ingress-nginx-controller"}}
}

func enterprise() controller {
	return controller{"nginx", "nginx.org/ingress-controller", "nginx-ingress", "nginx-ingress", "private.example.test/nginx-plus-ingress:5.0", "app: nginx-ingress", []string{"-nginx-plus"}}
}

func ambassador() controller {
	return controller{"ambassador", "getambassador.io/ingress-controller", "ambassador", "ambassador", "docker.io/emissaryingress/emissary:3.9", "product: aes", []string{"serve"}}
}

func traefik() controller {
	return controller{"traefik", "traefik.io/ingress-controller", "traefik", "traefik", "docker.io/traefik:v3.5", "app.kubernetes.io/name: traefik", []string{"--providers.kubernetesingress"}}
}

func awsController() controller {
	return controller{"", "", "kube-system", "aws-load-balancer-controller", "public.ecr.aws/eks/aws-load-balancer-controller:v2.13", "app.kubernetes.io/name: aws-load-balancer-controller", []string{"--ingress-class=alb"}}
}

func istioGateway() controller {
	return controller{"", "", "istio-system", "istio-ingressgateway", "auto", "istio: ingressgateway", []string{"proxy"}}
}

func communityObjects() string { return community().objects() }

// has gives the cluster a controller until the page ends, and waits until it runs.
func (c controller) has(t *testing.T, w *world, _ string) {
	t.Helper()
	w.apply(t, c.objects())
	w.cluster.WaitForRollout(t, c.namespace, c.name, programs.Timeout)
	t.Cleanup(func() {
		ctx := context.Background()
		if c.class != "" {
			_ = w.cluster.Client.NetworkingV1().IngressClasses().Delete(ctx, c.class, metav1.DeleteOptions{}) // the page may have
		}
		_ = w.cluster.Client.AppsV1().Deployments(c.namespace).Delete(ctx, c.name, metav1.DeleteOptions{})
		_ = w.cluster.Client.CoreV1().Services(c.namespace).Delete(ctx, c.name, metav1.DeleteOptions{})
	})
}

// apply applies manifests with kubectl.
func (w *world) apply(t *testing.T, manifests string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	writeFile(t, file, manifests)
	w.must(t, "kubectl apply --server-side --force-conflicts -f "+file)
}

func gatewayResource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: plural}
}

// hasMesh gives the cluster the definitions of Istio, its ingress gateway and the
// Gateway of the pages.
func hasMesh(t *testing.T, w *world, dir string) {
	t.Helper()
	hasRoutes(t, w)
	w.define(t, schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1alpha3", Resource: "gateways"}, "Gateway")
	istioGateway().has(t, w, dir)
	w.apply(t, "apiVersion: networking.istio.io/v1alpha3\nkind: Gateway\nmetadata: {name: public, namespace: istio-system}\nspec: {}\n")
}

// definition is one of a kind whose objects may have any fields.
const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.GROUP, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: KIND, plural: PLURAL, singular: SINGULAR}
  versions:
  - {name: VERSION, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// define makes a kind of others, and waits until it is served.
func (w *world) define(t *testing.T, resource schema.GroupVersionResource, kind string) {
	t.Helper()
	w.apply(t, strings.NewReplacer("PLURAL", resource.Resource, "GROUP", resource.Group, "KIND", kind, "SINGULAR", strings.ToLower(kind), "VERSION", resource.Version).Replace(definition))
	kubetest.WaitFor(t, w.cluster.Dynamic.Resource(resource), metav1.ListOptions{}, programs.Timeout, func([]*unstructured.Unstructured) error { return nil })
}

// hasRoutes gives the cluster VirtualServices, with the schema that matters.
func hasRoutes(t *testing.T, w *world) {
	t.Helper()
	text := must.Get(os.ReadFile("../../internal/access/mode/testdata/crds.yaml"))(t)
	for _, one := range strings.Split(string(text), "\n---\n") {
		if strings.Contains(one, "virtualservices.") {
			w.apply(t, one)
		}
	}
	served := w.cluster.Dynamic.Resource(virtualServices())
	kubetest.WaitFor(t, served, metav1.ListOptions{}, programs.Timeout, func([]*unstructured.Unstructured) error { return nil })
}

// hasGateway gives the cluster the Gateway infra/public, with what its controller
// writes.
func hasGateway(t *testing.T, w *world, _ string) {
	t.Helper()
	w.define(t, gatewayResource("httproutes"), "HTTPRoute")
	w.define(t, gatewayResource("gateways"), "Gateway")
	w.define(t, gatewayResource("gatewayclasses"), "GatewayClass")
	w.apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: infra}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: public, namespace: infra}\nspec: {gatewayClassName: any, listeners: []}\n")
	status := fmt.Sprintf(`{"status": {"addresses": [{"value": %q}], "conditions": [{"type": "Programmed", "status": "True"}]}}`, balancerAddress())
	gateways := w.cluster.Dynamic.Resource(gatewayResource("gateways")).Namespace("infra")
	must.Get(gateways.Patch(t.Context(), "public", types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"))(t)
}

// hasCertificate writes the files with a certificate of the host.
func hasCertificate(t *testing.T, w *world, dir string) {
	t.Helper()
	writeFile(t, filepath.Join(dir, "chain.pem"), string(w.authority.Cert))
	writeFile(t, filepath.Join(dir, "key.pem"), string(w.authority.Key))
}

// hasToken writes the file with the Git token.
func hasToken(t *testing.T, _ *world, dir string) {
	t.Helper()
	writeFile(t, filepath.Join(dir, "token.txt"), gitToken+"\n")
}

// hasRuntime installs one, as tunnel.md does.
func hasRuntime(t *testing.T, w *world, _ string) {
	t.Helper()
	w.must(t, "slipway runtime install prod --create-key --yes")
}

// together makes several states.
func together(states ...func(*testing.T, *world, string)) func(*testing.T, *world, string) {
	return func(t *testing.T, w *world, dir string) {
		t.Helper()
		for _, state := range states {
			state(t, w, dir)
		}
	}
}

// hasOperator gives the cluster the operator's resource of NGINX Enterprise.
func hasOperator(t *testing.T, w *world, _ string) {
	t.Helper()
	w.define(t, schema.GroupVersionResource{Group: "k8s.nginx.org", Version: "v1alpha1", Resource: "nginxingresscontrollers"}, "NginxIngressController")
	w.apply(t, "apiVersion: k8s.nginx.org/v1alpha1\nkind: NginxIngressController\nmetadata: {name: main, namespace: nginx-ingress}\nspec: {type: deployment}\n")
}

// operatorGoes takes it away: the cluster has one installation or the other.
func operatorGoes(t *testing.T, w *world, _ string) {
	t.Helper()
	shown := w.must(t, "kubectl -n nginx-ingress get nginxingresscontrollers.k8s.nginx.org main -o jsonpath={.spec.reportIngressStatus.enable}; kubectl delete crd nginxingresscontrollers.k8s.nginx.org")
	if !strings.HasPrefix(shown, "true") {
		t.Errorf("the resource of the operator is not changed: %s", shown)
	}
}

// knownRuntime has the platform know a runtime that has never been heard of again.
func knownRuntime(t *testing.T, w *world, _ string) {
	t.Helper()
	key := strings.TrimSpace(w.must(t, "slipway api-key create known --scope runtime-register --lifetime 1h"))
	key = key[strings.Index(key, "slw_"):]
	client := w.toPlatform()
	defer client.CloseIdleConnections()
	request := connect.NewRequest(&platformv1.RegisterRuntimeRequest{
		Name: "prod", Namespace: ownNamespace, Cluster: "lost", ClusterUid: "uid-lost", Version: "0.1.0", AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL,
	})
	request.Header().Set("Authorization", "Bearer "+strings.Fields(key)[0])
	must.Get(platformv1connect.NewRuntimeServiceClient(client, platformURL).RegisterRuntime(t.Context(), request))(t)
}

// toPlatform is a client of the platform's API.
func (w *world) toPlatform() *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: w.authority.Roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", netip.AddrPortFrom(platformAddress(), 443).String())
		},
	}}
}

// lostRuntime leaves what a runtime keeps in Git when it is an Application of itself,
// and a platform that has not heard of it since.
func lostRuntime(t *testing.T, w *world, dir string) {
	t.Helper()
	hasToken(t, w, dir)
	hasRuntime(t, w, dir)
	w.must(t, "slipway integration git set-runtime-token --runtime prod --token-file "+filepath.Join(dir, "token.txt")+"; slipway runtime configure prod")
	programs.Eventually(t, func(context.Context) error {
		if files := w.git.repository.Git(t, "ls-tree", "-r", "--name-only", "HEAD"); !strings.Contains(files, "resources/prod/chart/Chart.yaml") {
			return fmt.Errorf("the repository has\n%s", files)
		}
		return nil
	})
	w.takeAway(t)
	knownRuntime(t, w, dir)
}

// hasArgo gives the cluster an Application as Argo CD leaves it after a sync, and a
// runtime beside it.
func hasArgo(t *testing.T, w *world, dir string) {
	t.Helper()
	hasRuntime(t, w, dir)
	const settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings%s}\ndata: {colour: green}\n"
	w.git.repository.Commit(t, map[string]string{"shop/settings.yaml": fmt.Sprintf(settings, "")}, "the shop")
	const repository = "apiVersion: v1\nkind: Secret\nmetadata: {name: config, namespace: %s, labels: {argocd.argoproj.io/secret-type: repository}}\n" +
		"stringData: {type: git, url: 'https://github.com/acme/config.git', username: x-access-token, password: " + gitToken + "}\n---\n"
	w.apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: argocd}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n"+
		fmt.Sprintf(settings, ", namespace: shop, annotations: {argocd.argoproj.io/tracking-id: 'shop:/ConfigMap:shop/settings'}")+"---\n"+fmt.Sprintf(repository, "slipway")+fmt.Sprintf(repository, "argocd")+`
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop, namespace: argocd}
spec:
  project: default
  source: {repoURL: "https://github.com/acme/config.git", path: shop, targetRevision: HEAD}
  destination: {server: "https://kubernetes.default.svc", namespace: shop}
  syncPolicy: {automated: {prune: true}}
`)
	argoCompares(t, w, dir)
}

// argoCompares gives the Application the status of Argo CD, which does not run here,
// after a comparison with the last commit.
func argoCompares(t *testing.T, w *world, _ string) {
	t.Helper()
	commit := w.git.repository.Head(t)
	// The status is a subresource of our definition.
	w.must(t, `kubectl -n argocd patch applications.argoproj.io shop --subresource=status --type=merge -p '{"status": {
  "health": {"status": "Healthy"}, "sync": {"status": "Synced", "revision": "`+commit+`", "comparedTo": {"source": {"repoURL": "https://github.com/acme/config.git"}, "destination": {}}},
  "resources": [{"version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "settings", "status": "Synced"}]}}'`)
}

// ownerless takes Helm's marks from the definitions of Argo CD, as Argo CD leaves them.
func ownerless(t *testing.T, w *world, _ string) {
	t.Helper()
	files := must.Get(filepath.Glob("../../charts/gitops-runtime/crds/argoproj.io_*.yaml"))(t)
	if len(files) != 3 {
		t.Fatalf("the definitions of Argo CD are %v", files)
	}
	for _, file := range files {
		w.apply(t, string(must.Get(os.ReadFile(file))(t)))
	}
	names := "applications.argoproj.io applicationsets.argoproj.io appprojects.argoproj.io"
	w.must(t, "kubectl label crd "+names+" app.kubernetes.io/managed-by-; kubectl annotate crd "+names+" meta.helm.sh/release-name- meta.helm.sh/release-namespace- slipway.dev/adopted-from-; kubectl annotate crd --all argocd.argoproj.io/tracking-id-")
}
