package chart_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/strvals"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/install/chart"
	"slipway.dev/slipway/internal/must"
)

const (
	runtimeChart  = "../../../charts/gitops-runtime"
	platformChart = "../../../charts/platform"
	account       = "5f1e2d3c4b5a69788796a5b4"
	// canary is a secret that must be in Secrets only.
	canary = "canary-3f9b0c1d7e"
)

// flagSet is a set of values as the documents give it to Helm.
type flagSet struct {
	name string
	set  []string
	yaml string
}

// values are those of --set, over those of a file.
func (f flagSet) values(t *testing.T) map[string]any {
	t.Helper()
	made := map[string]any{}
	must.Do(t, yaml.UnmarshalStrict([]byte(f.yaml), &made))
	for _, flag := range f.set {
		must.Do(t, strvals.ParseInto(flag, made))
	}
	return made
}

// joined begins every set that joins a platform.
func joined(more ...string) []string {
	return append([]string{"global.platform.url=https://slipway.example.com", "global.codefresh.userToken.token=" + canary, "global.runtime.name=prod"}, more...)
}

// runtimeSets are the documented sets of flags, and those of every value.
func runtimeSets() []flagSet {
	return []flagSet{
		{name: "tunnel R50", set: joined("global.codefresh.accountId=" + account)},
		{name: "ingress R51", set: joined("global.runtime.ingress.enabled=true", "global.runtime.ingress.hosts[0]=prod.example.com", "global.runtime.ingress.className=nginx")},
		{name: "mesh R52", set: joined("global.runtime.ingressUrl=https://prod.example.com", "global.runtime.ingress.enabled=false", "tunnel-client.enabled=false")},
		{name: "mesh with VirtualService", set: joined("global.runtime.ingressUrl=https://prod.example.com/", "tunnel-client.enabled=false",
			"global.runtime.virtualService.enabled=true", "global.runtime.virtualService.gateway=istio-system/internal-router")},
		{name: "httpRoute R123", set: joined("global.runtime.httpRoute.enabled=true", "global.runtime.httpRoute.hostnames[0]=prod.example.com",
			"global.runtime.httpRoute.parentRefs[0].name=public", "global.runtime.httpRoute.parentRefs[0].namespace=gateways")},
		{name: "terraform R76", set: []string{"global.platform.url=https://slipway.example.com", "global.codefresh.accountId=" + account, "global.codefresh.userToken.token=" + canary, "global.runtime.name=from-terraform"}},
		{name: "skip validation R40", set: joined("installer.skipValidation=true", "global.runtime.ingress.skipValidation=true")},
		{name: "crds outside R25", set: joined("argo-cd.crds.install=false", "argo-workflows.crds.install=false", "argo-rollouts.crds.install=false", "argo-events.crds.install=false")},
		{name: "beside Argo CD R27", set: joined("argo-cd.fullnameOverride=codefresh-argo-cd", "argo-rollouts.fullnameOverride=codefresh-argo-rollouts",
			`argo-cd.configs.cm.application\.resourceTrackingMethod=annotation+label`)},
		{name: "namespaced R120", set: joined("global.runtime.singleNamespace=true", "agent.namespaces[0]=shop")},
		{name: "proxies R122", set: joined("global.httpProxy=http://user:"+canary+"@proxy:3128", "global.httpsProxy=http://user:"+canary+"@proxy:3128", "global.noProxy=.example.com")},
		{name: "placement R127", set: joined("global.nodeSelector.disk=ssd", "global.tolerations[0].key=gitops", "global.tolerations[0].operator=Exists", "agent.replicas=2",
			"agent.serviceMonitor.enabled=true", "edge.serviceMonitor.enabled=true", "agent.networkPolicy.enabled=true", "edge.networkPolicy.enabled=true", "edge.sharedSecret=edge-shared", "global.imagePullSecrets[0]=pull")},
		{name: "monitoring", set: joined("monitoring.rules.enabled=true", "monitoring.rules.labels.release=prometheus", "monitoring.dashboards.enabled=true", "monitoring.dashboards.annotations.grafana_folder=Slipway")},
		{name: "registry R78", set: joined("global.imageRegistry=registry.example.com/mirror", "image.tag=1.2.3")},
		{name: "authorities R80 by reference", set: joined("global.codefresh.tls.caCerts.secretKeyRef.name=ca", "global.codefresh.tls.caCerts.secretKeyRef.key=ca.pem")},
		{name: "authorities R80 made", set: joined("global.codefresh.tls.caCerts.secret.create=true", "global.codefresh.tls.caCerts.secret.content=PEM")},
		{name: "repository certificates R79", yaml: "agent: {repositories: {certificates: {git.example.com: PEM}, knownHosts: 'git.example.com ssh-ed25519 AAAA'}}", set: joined()},
		{name: "Git credentials R37", set: joined("global.runtime.gitCredentials.username=robot", "global.runtime.gitCredentials.password.value="+canary, "global.runtime.gitCredentials.url=https://github.com/acme")},
		{name: "Git credentials R37 by reference", set: joined("global.runtime.gitCredentials.password.secretKeyRef.name=git-token")},
		{name: "token by reference R31", set: []string{"global.platform.url=https://slipway.example.com", "global.platform.userToken.secretKeyRef.name=mine", "global.platform.userToken.secretKeyRef.key=key"}},
		{name: "without a platform", set: []string{"global.platform.enabled=false"}},
		{name: "without the edge", set: joined("edge.enabled=false")},
		{name: "another edge", set: joined("edge.ingressClass.name=second", "edge.ingressClass.default=true", "edge.hostSharing=behind", "edge.service.type=NodePort", "edge.certificates.enabled=true",
			"edge.traefikObjects=false", "edge.status.enabled=false", "agent.deliverWithAllRights=false")},
		{name: "Gateway API", set: joined("edge.gatewayAPI.enabled=true", "edge.gatewayAPI.addresses[0]=192.0.2.16/28",
			"edge.config.providers.kubernetesGateway.services=true")},
		{name: "Gateway API with definitions", set: joined("edge.gatewayAPI.enabled=true", "edge.gatewayAPI.definitions=true", "edge.gatewayAPI.className=public")},
		{name: "Argo Rollouts", set: joined("agent.config.rollouts.enabled=true", "agent.argoRollouts=true", "agent.deliverWithAllRights=false")},
		{name: "Gateway API by Deployments", set: joined("edge.gatewayAPI.enabled=true", "edge.gatewayAPI.serviceType=LoadBalancer", "edge.gatewayAPI.deployments=true", "edge.networkPolicy.enabled=true")},
		{name: "Gateway API by Services", set: joined("edge.gatewayAPI.enabled=true", "edge.gatewayAPI.serviceType=LoadBalancer", "edge.networkPolicy.enabled=true")},
		{name: "ingress with everything", set: joined(), yaml: `
global:
  runtime:
    ingress:
      enabled: true
      className: slipway
      hosts: [prod.example.com, 203.0.113.7, 203.0.113.8]
      tls: [{hosts: [prod.example.com], secretName: prod-tls}]
      annotations: {alb.ingress.kubernetes.io/scheme: internet-facing}
      labels: {team: platform}
`},
	}
}

func platformSets() []flagSet {
	const url = "publicURL=https://slipway.example.com"
	return []flagSet{
		{name: "SQLite and Ingress", set: []string{url, "ingress.enabled=true", "ingress.className=slipway", "tunnelDomain=tunnels.slipway.example.com", "ingress.tlsSecretName=tls"}},
		{name: "PostgreSQL and replicas", set: []string{url, "replicas=2", "database.urlSecretKeyRef.name=db", "keySecretRef.name=key", "serviceMonitor.enabled=true", "networkPolicy.enabled=true",
			"monitoring.rules.enabled=true", "monitoring.dashboards.enabled=true"}},
		{name: "LoadBalancer with TLS", set: []string{url, "service.type=LoadBalancer", "tls.secretName=tls", "global.httpsProxy=http://user:" + canary + "@proxy:3128", "persistence.existingClaim=mine"}},
	}
}

func release() chart.Release {
	return chart.Release{Name: "slipway-runtime", Namespace: "slipway", Kubernetes: "v1.36.0"}
}

func render(t *testing.T, folder string, set flagSet) chart.Rendered {
	t.Helper()
	loaded, err := chart.Load(folder)
	must.Do(t, err)
	made, err := loaded.Render(t.Context(), set.values(t), release())
	if err != nil {
		t.Fatalf("%s: %v", set.name, err)
	}
	return made
}

// find is the one object of a kind and name.
func find(t *testing.T, made chart.Rendered, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range append(made.Objects, made.Hooks...) {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	var known []string
	for _, object := range append(made.Objects, made.Hooks...) {
		known = append(known, fmt.Sprintf("%s %s", object.GetKind(), object.GetName()))
	}
	t.Fatalf("there is no %s %s among %s", kind, name, strings.Join(known, ", "))
	return nil
}

// TestRuntimeRenders: R25, R49 to R55: every documented set of flags renders, and the
// notes name the next step.
func TestRuntimeRenders(t *testing.T) {
	for _, set := range runtimeSets() {
		t.Run(set.name, func(t *testing.T) {
			made := render(t, runtimeChart, set)
			if len(made.Objects) == 0 || !strings.Contains(made.Notes, "slipway ") {
				t.Errorf("%d objects, notes:\n%s", len(made.Objects), made.Notes)
			}
			router := find(t, made, "Service", "internal-router")
			ports, _, _ := unstructured.NestedSlice(router.Object, "spec", "ports")
			if len(ports) != 1 || fmt.Sprint(ports[0].(map[string]any)["port"]) != "80" {
				t.Errorf("the ports of internal-router are %v", ports)
			}
		})
	}
}

// TestEdgeCredentials: the Secret with credentials of DNS challenges is mounted where
// the description states, and only if it is named.
func TestEdgeCredentials(t *testing.T) {
	for secret, mounted := range map[string]bool{"": false, "dns-credentials": true} {
		edge := find(t, render(t, runtimeChart, flagSet{set: joined("edge.certificates.credentialsSecret=" + secret)}), "Deployment", "slipway-edge")
		text := string(must.Get(json.Marshal(edge.Object["spec"]))(t))
		for _, part := range []string{`"mountPath":"/etc/slipway-acme","name":"acme","readOnly":true`, `"name":"acme","secret":{"defaultMode":288,"secretName":"dns-credentials"}`} {
			if strings.Contains(text, part) != mounted {
				t.Errorf("with the Secret %q: %s is %v", secret, part, !mounted)
			}
		}
	}
}

// TestPlatformRenders: the platform with each database and way in.
func TestPlatformRenders(t *testing.T) {
	for _, set := range platformSets() {
		t.Run(set.name, func(t *testing.T) {
			made := render(t, platformChart, set)
			find(t, made, "Deployment", "slipway-platform")
			if !strings.Contains(made.Notes, "slipway login") {
				t.Errorf("notes:\n%s", made.Notes)
			}
		})
	}
}
