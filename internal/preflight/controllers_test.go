package preflight_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/preflight"
)

const balancedService = `
---
apiVersion: v1
kind: Service
metadata: {name: front}
spec:
  type: LoadBalancer
  selector: {part: controller}
  ports: [{name: https, port: 443}]
`

// front is what a cloud gives the Service of a scene.
func front() corev1.LoadBalancerIngress {
	return corev1.LoadBalancerIngress{IP: frontAddress().String()}
}

// controllerCase is a controller and what its documents demand of it.
type controllerCase struct {
	name, class, image, labels string
	// extra follows the container of its Deployment, and further objects.
	extra string
	// bad creates a misconfiguration, and has the expected finding.
	bad []badState
}

// badState is the good one with one text replaced.
type badState struct {
	name, from, to string
	code           preflight.Code
	want           string
	// fixed is set when --fix repairs it.
	fixed bool
}

func controllerCases() []controllerCase {
	return []controllerCase{
		{"R86 Ambassador", "getambassador.io/ingress-controller", "docker.io/emissaryingress/emissary:3.9", "product: aes", balancedService, nil},
		{"R93 NGINX Enterprise", "nginx.org/ingress-controller", "registry.example.test/nginx-plus-ingress:5.0", "app: nginx-ingress",
			"        args: [-nginx-plus, -report-ingress-status, -external-service=front]\n" + balancedService, []badState{
				{"R93 without the flag", " -report-ingress-status,", "", preflight.StatusReport, "-report-ingress-status", true},
				{"R93 the flag is false", "-report-ingress-status", "-report-ingress-status=false", preflight.StatusReport, "Progressing", true},
			}},
		{"R96 NGINX Community", "k8s.io/ingress-nginx", "registry.k8s.io/ingress-nginx/controller:v1.1.1", "app.kubernetes.io/name: ingress-nginx",
			"        args: [/nginx-ingress-controller, --publish-service=CONTROLLER/front, --ingress-class=CLASS]\n" + balancedService, []badState{
				{"R98 status is off", "--ingress-class=CLASS", "--update-status=false", preflight.StatusReport, "--update-status=false", true},
				{"R98 nodes are reported", "--publish-service=CONTROLLER/front, ", "", preflight.StatusReport, "--publish-service", false},
			}},
		{"R97 Traefik", "traefik.io/ingress-controller", "docker.io/traefik:v3.5", "app.kubernetes.io/name: traefik",
			"        args: [--providers.kubernetesingress, --providers.kubernetesingress.ingressendpoint.publishedservice=CONTROLLER/front]\n" + balancedService, []badState{
				{"R97 without publishedService", ", --providers.kubernetesingress.ingressendpoint.publishedservice=CONTROLLER/front", "", preflight.StatusReport, "publishedService", true},
				{"R97 without a namespace", "publishedservice=CONTROLLER/front", "publishedservice=front", preflight.StatusReport, "<namespace>/<service>", false},
				{"R97 another Service", "publishedservice=CONTROLLER/front", "publishedservice=CONTROLLER/back", preflight.StatusReport, "does not exist", false},
			}},
		{"R97 Traefik by file", "traefik.io/ingress-controller", "docker.io/traefik:v3.5", "app.kubernetes.io/name: traefik",
			"        args: [--configfile=/etc/traefik/traefik.yaml]\n      volumes: [{name: config, configMap: {name: config}}]\n" + balancedService + edgeConfig, []badState{
				{"R97 the file has none", "ingressEndpoint", "allowEmptyServices", preflight.StatusReport, "publishedService", true},
			}},
		{"Slipway", "slipway.dev/ingress-controller", "registry.example.test/slipway:1", "app.kubernetes.io/name: slipway-edge",
			"        args: [edge, --configFile=/etc/slipway/edge.yaml]\n      volumes: [{name: config, configMap: {name: config}}]\n" + balancedService + edgeConfig, []badState{
				{"no endpoint", "ingressEndpoint", "allowEmptyServices", preflight.StatusReport, "edge.status.enabled=true", false},
			}},
	}
}

const edgeConfig = `
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data:
  edge.yaml: |
    providers:
      kubernetesIngress:
        ingressEndpoint:
          publishedService: CONTROLLER/front
`

// build makes the state of a case in a scene.
func (c controllerCase) build(t testing.TB, replaced badState) *scene {
	t.Helper()
	s := newScene(t)
	s.makeNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}})
	s.class(c.class)
	extra := c.extra
	if replaced.from != "" {
		if !strings.Contains(extra, replaced.from) {
			t.Fatalf("the state has no %q", replaced.from)
		}
		extra = strings.Replace(extra, replaced.from, replaced.to, 1)
	}
	s.workload("Deployment", c.image, c.labels, extra)
	s.balance("front", front())
	s.started()
	return s
}

// TestControllers: R73, R83, R84, R85, R86, R93, R96, R97, R98: each controller in
// a good state, before and after the install, and with each mistake of the
// documents; what can be repaired is repaired.
func TestControllers(t *testing.T) {
	for _, tt := range controllerCases() {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.build(t, badState{})
			if strings.Contains(tt.name, "Enterprise") {
				s.certificate(t, "prod-tls")
				s.options.Settings.Ingress.TLS = []mode.IngressTLS{{Hosts: []string{testHost}, SecretName: "prod-tls"}}
			}
			clean(t, s.run())
			t.Run("R83 pending", func(t *testing.T) {
				s.balance("front", corev1.LoadBalancerIngress{})
				finds(t, s.run(preflight.ExternalAddress), preflight.ExternalAddress, preflight.Failed, "pending")
				s.balance("front", front())
			})
			s.installed(front())
			clean(t, s.run())
		})
		for _, bad := range tt.bad {
			t.Run(tt.name+" "+bad.name, func(t *testing.T) {
				s := tt.build(t, bad)
				state := preflight.Failed
				if bad.want == "--publish-service" {
					state = preflight.Warned
				}
				found := finds(t, s.run(bad.code), bad.code, state, bad.want)
				if (found.Apply != nil) != bad.fixed || (found.Plan != "") != bad.fixed {
					t.Fatalf("it can be repaired: %t, and should be %t", found.Apply != nil, bad.fixed)
				}
				if !bad.fixed {
					return
				}
				must.Do(t, found.Apply(t.Context()))
				clean(t, s.run(bad.code))
			})
		}
	}
}

// certificate makes the Secret of a certificate for the host.
func (s *scene) certificate(t testing.TB, name string) {
	t.Helper()
	issuer := pkitest.NewAuthority(t)
	s.world.Roots.AppendCertsFromPEM([]byte(issuer.PEM))
	_, err := s.cluster.Client.CoreV1().Secrets(s.options.Settings.Namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeTLS, Data: issuer.Sign(t, pkitest.Certificate{Names: []string{testHost}, Until: time.Now().Add(90 * 24 * time.Hour)}).Data(),
	}, metav1.CreateOptions{})
	must.Do(t, err)
}

// TestEnterpriseOperator: R94: with the operator its resource decides, and it is
// the resource that is repaired.
func TestEnterpriseOperator(t *testing.T) {
	s := newScene(t)
	s.makeNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}})
	s.class("nginx.org/ingress-controller")
	s.apply(kubetest.Definition("k8s.nginx.org", "v1alpha1", "NginxIngressController"))
	s.established("nginxingresscontrollers.k8s.nginx.org")
	s.workload("Deployment", "registry.example.test/nginx-ic/nginx-plus-ingress:5.0", "app: nginx-ingress", "        args: [-nginx-plus]\n"+balancedService)
	s.balance("front", front())
	s.apply("apiVersion: k8s.nginx.org/v1alpha1\nkind: NginxIngressController\nmetadata: {name: main}\nspec: {type: deployment}\n")
	found := finds(t, s.run(preflight.StatusReport), preflight.StatusReport, preflight.Failed, "spec.reportIngressStatus.enable")
	must.Do(t, found.Apply(t.Context()))
	clean(t, s.run(preflight.StatusReport))
}

// established waits until the API server serves a kind.
func (s *scene) established(crd string) {
	s.t.Helper()
	group, resource := crd[strings.Index(crd, ".")+1:], crd[:strings.Index(crd, ".")]
	version := "v1alpha1"
	if group == mode.IstioGroup {
		version = mode.IstioVersion
	}
	served := s.cluster.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource})
	kubetest.WaitFor(s.t, served, metav1.ListOptions{}, patience, func([]*unstructured.Unstructured) error { return nil })
}

// TestEnterpriseCertificate: R94, R95: NGINX Enterprise needs the certificate in
// the namespace of the runtime, and the Ingress has to name it.
func TestEnterpriseCertificate(t *testing.T) {
	c := controllerCases()[1]
	s := c.build(t, badState{})
	finds(t, s.run(preflight.TLSCertificate), preflight.TLSCertificate, preflight.Warned, "no Secret with a certificate")
	s.certificate(t, "prod-tls")
	clean(t, s.run(preflight.TLSCertificate))
	s.options.Settings.Ingress.TLS = []mode.IngressTLS{{Hosts: []string{"other.example.com"}, SecretName: "other-tls"}}
	s.installed(front())
	ingresses := s.cluster.Client.NetworkingV1().Ingresses(s.options.Settings.Namespace)
	// The release writes what its values have.
	s.world.ChangeRelease = func(ctx context.Context, changes map[string]any) error {
		tls, _, err := unstructured.NestedFieldNoCopy(changes, "global", "runtime", "ingress", "tls")
		must.Do(t, err)
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"tls": tls}})
		must.Do(t, err)
		_, err = ingresses.Patch(ctx, mode.RouterService, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	found := finds(t, s.run(preflight.TLSCertificate), preflight.TLSCertificate, preflight.Failed, "spec.tls")
	if found.Apply == nil {
		t.Fatal("it cannot be repaired")
	}
	must.Do(t, found.Apply(t.Context()))
	clean(t, s.run(preflight.TLSCertificate))
	ingress, err := ingresses.Get(t.Context(), mode.RouterService, metav1.GetOptions{})
	if err != nil || len(ingress.Spec.TLS) != 2 {
		t.Errorf("the other certificate is gone: %v %v", ingress.Spec.TLS, err)
	}
}

// TestALB: R87, R88, R89: the class with its controller, a load balancer that is
// there after the install, and the record of Route 53.
func TestALB(t *testing.T) {
	s := newScene(t)
	s.options.Settings.Ingress.ClassName = "alb"
	s.makeNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}, Spec: corev1.NodeSpec{ProviderID: "aws:///eu-west-1a/i-1"}})
	s.workload("Deployment", "registry.example.test/eks/aws-load-balancer-controller:v2.13", "app.kubernetes.io/name: aws-load-balancer-controller", "")
	s.started()
	found := finds(t, s.run(preflight.IngressClass), preflight.IngressClass, preflight.Failed, "ingress.k8s.aws/alb")
	if found.Apply == nil {
		t.Fatal("the class cannot be made")
	}
	must.Do(t, found.Apply(t.Context()))
	s.class("ingress.k8s.aws/alb") // the same, and it goes with the test
	clean(t, s.run())

	s.installed(corev1.LoadBalancerIngress{})
	results := s.run()
	finds(t, results, preflight.ExternalAddress, preflight.Failed, "no load balancer")
	finds(t, results, preflight.StatusReport, preflight.Failed, "Progressing")
	s.installed(corev1.LoadBalancerIngress{Hostname: testHost})
	clean(t, s.run())
	s.world.Resolver = serveDNS(t, nil)
	finds(t, s.run(preflight.DNS), preflight.DNS, preflight.Failed, "Alias to Application and Classic Load Balancer")
	finds(t, s.run(preflight.DNS), preflight.DNS, preflight.Failed, "slipway integration git add default")
}

// TestIstio: R90, R91, R92: the gateway has an address before the install, and the
// VirtualService leads all three prefixes to the router after it.
func TestIstio(t *testing.T) {
	s := newScene(t)
	off := false
	s.options.Settings.Ingress = mode.IngressSettings{}
	s.options.Settings.TunnelEnabled, s.options.Settings.IngressURL = &off, "https://"+testHost
	s.options.Gateway = s.options.Settings.Namespace + "/internal-router"
	crds, err := os.ReadFile("../access/mode/testdata/crds.yaml")
	must.Do(t, err)
	s.apply(string(crds))
	s.established("virtualservices.networking.istio.io")
	s.apply(kubetest.Definition("networking.istio.io", "v1alpha3", "Gateway"))
	s.established("gateways.networking.istio.io")
	s.makeNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}})
	finds(t, s.run(preflight.IngressClass), preflight.IngressClass, preflight.Failed, "it does not exist")
	s.cluster.Apply(t, s.options.Settings.Namespace, "apiVersion: networking.istio.io/v1alpha3\nkind: Gateway\nmetadata: {name: internal-router}\nspec: {}\n")
	s.workload("Deployment", "auto", "istio: ingressgateway", balancedService)
	finds(t, s.run(preflight.ExternalAddress), preflight.ExternalAddress, preflight.Failed, "pending")
	s.balance("front", front())
	s.started()
	clean(t, s.run())

	s.options.Stage = preflight.After
	found := finds(t, s.run(), preflight.RouteResources, preflight.Failed, "kind: VirtualService")
	if found.Apply == nil {
		t.Fatal("it cannot be repaired")
	}
	must.Do(t, found.Apply(t.Context()))
	clean(t, s.run())

	s.options.RuntimeVersion = "0.0.542" // R92 wants others
	finds(t, s.run(preflight.RouteResources), preflight.RouteResources, preflight.Failed, "/app-proxy")
}
